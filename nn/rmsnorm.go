package nn

import (
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// RMSNorm divides each row, the last dimension, by its root mean square and scales it (Zhang and Sennrich, 2019),
// torch.nn.RMSNorm.
type RMSNorm struct {
	Weight *autograd.Param // [features]
	Eps    float64         // 0: 1e-6
}

// RMSNormConfig of a RMSNorm.
type RMSNormConfig struct {
	Eps   float64 // 0: 1e-6
	DType tensor.DType
}

// NewRMSNorm makes a layer over rows of so many features, at most one config given. The weight starts as ones.
func NewRMSNorm(sess *autograd.Session, features int, cfg ...RMSNormConfig) (*RMSNorm, error) {
	k := newMaker("NewRMSNorm", sess)
	c := config(k, cfg)
	k.positive("features", features)
	if !(c.Eps >= 0) || math.IsInf(c.Eps, 0) {
		k.failf("eps %v: want a positive number, or 0 for 1e-6", c.Eps)
	}
	l := &RMSNorm{Eps: c.Eps, Weight: k.param("weight", Constant(1), c.DType, features)}
	if err := k.end(); err != nil {
		return nil, err
	}
	return l, nil
}

// Forward takes x [... features] and gives the same shape.
func (l *RMSNorm) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	eps := l.Eps
	if eps == 0 {
		eps = 1e-6
	}
	return ops.RMSNorm(s, x, value(l.Weight), eps)
}
