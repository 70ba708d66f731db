package nn

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Linear is y = x Wᵀ + b over the last dimension, torch.nn.Linear.
type Linear struct {
	Weight *autograd.Param // [out in]
	Bias   *autograd.Param // [out], or nil
}

// LinearConfig of a Linear; its zero value is torch's default.
type LinearConfig struct {
	NoBias bool         // leave the bias out
	DType  tensor.DType // any float dtype; zero: Float32
	// How the parameters start; nil: U(-1/sqrt(in), 1/sqrt(in)) for both.
	InitWeight, InitBias Init
}

// NewLinear makes a layer from in to out features, at most one config given.
func NewLinear(sess *autograd.Session, in, out int, cfg ...LinearConfig) (*Linear, error) {
	k := newMaker("NewLinear", sess)
	c := config(k, cfg)
	k.positive("in features", in)
	k.positive("out features", out)
	l := &Linear{Weight: k.param("weight", c.InitWeight.or(fanIn(in)), c.DType, out, in)}
	if !c.NoBias {
		l.Bias = k.param("bias", c.InitBias.or(fanIn(in)), c.DType, out)
	}
	if err := k.end(); err != nil {
		return nil, err
	}
	return l, nil
}

// Forward takes x [... in] and gives [... out].
func (l *Linear) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return ops.Linear(s, x, value(l.Weight), value(l.Bias))
}

// forwardAdd is Forward and then r added, unless it is nil.
func (l *Linear) forwardAdd(s *autograd.Scope, x, r *autograd.Value) *autograd.Value {
	if r == nil {
		return l.Forward(s, x)
	}
	return ops.LinearAdd(s, x, value(l.Weight), value(l.Bias), r)
}
