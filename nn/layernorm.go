package nn

import (
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// DefaultLayerNormEps is what LayerNorm adds to the variance if nothing else is said, as torch does.
const DefaultLayerNormEps = 1e-5

// LayerNorm brings each row to mean 0 and (biased) variance 1, then scales and shifts it: y = (x-mean)/sqrt(var+Eps) *
// Weight + Bias (Ba, Kiros and Hinton 2016), torch.nn.LayerNorm. A row is the last dimension, or as many as Weight has.
type LayerNorm struct {
	Weight *autograd.Param // [features], or nil
	Bias   *autograd.Param // [features], or nil; not without Weight
	Eps    float64         // 0: DefaultLayerNormEps
}

// LayerNormConfig of a LayerNorm; its zero value is torch's default.
type LayerNormConfig struct {
	Eps      float64 // 0: DefaultLayerNormEps
	NoBias   bool    // leave the bias out
	NoAffine bool    // leave weight and bias out
	DType    tensor.DType
}

// NewLayerNorm makes a layer over rows of so many features, at most one config given. The weight starts as ones, the
// bias as zeros.
func NewLayerNorm(sess *autograd.Session, features int, cfg ...LayerNormConfig) (*LayerNorm, error) {
	k := newMaker("NewLayerNorm", sess)
	c := config(k, cfg)
	k.positive("features", features)
	if !(c.Eps >= 0) || math.IsInf(c.Eps, 0) {
		k.failf("eps %v: want a positive number, or 0 for %v", c.Eps, DefaultLayerNormEps)
	}
	l := &LayerNorm{Eps: c.Eps}
	if !c.NoAffine {
		l.Weight = k.param("weight", Constant(1), c.DType, features)
	}
	if !c.NoAffine && !c.NoBias {
		l.Bias = k.param("bias", nil, c.DType, features)
	}
	if err := k.end(); err != nil {
		return nil, err
	}
	return l, nil
}

// Forward takes x [... features] and gives the same shape.
func (l *LayerNorm) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	eps, dims := l.Eps, 1
	if eps == 0 {
		eps = DefaultLayerNormEps
	}
	if l.Weight != nil {
		dims = l.Weight.Spec().Rank()
	}
	return ops.LayerNorm(s, x, dims, value(l.Weight), value(l.Bias), eps)
}
