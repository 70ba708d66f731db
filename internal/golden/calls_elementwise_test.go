package golden

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

// elementwiseCalls are arithmetic, functions of one operand and choices.
var elementwiseCalls = map[string]call{
	"sub":        two(ops.Sub),
	"mul":        two(ops.Mul),
	"div":        two(ops.Div),
	"maximum":    two(ops.Maximum),
	"minimum":    two(ops.Minimum),
	"exp":        one(ops.Exp),
	"log":        one(ops.Log),
	"sqrt":       one(ops.Sqrt),
	"rsqrt":      one(ops.Rsqrt),
	"sin":        one(ops.Sin),
	"cos":        one(ops.Cos),
	"tanh":       one(ops.Tanh),
	"sigmoid":    one(ops.Sigmoid),
	"silu":       one(ops.SiLU),
	"abs":        one(ops.Abs),
	"neg":        one(ops.Neg),
	"square":     one(ops.Square),
	"reciprocal": one(ops.Reciprocal),
	"erf":        one(ops.Erf),
	"softplus":   one(ops.Softplus),
	"leaky_relu": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.LeakyReLU(s, in[0], c.float("negative_slope", 0.01))
	},
	"elu": func(s *autograd.Scope, c *opCase, in []value) value { return ops.ELU(s, in[0], c.float("alpha", 1)) },
	"clamp": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.Clamp(s, in[0], c.float("min", 0), c.float("max", 0))
	},
	"pow": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.PowScalar(s, in[0], c.float("exponent", 1))
	},
	"where": func(s *autograd.Scope, _ *opCase, in []value) value { return ops.Where(s, in[0], in[1], in[2]) },
	"masked_fill": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.MaskedFill(s, in[0], in[1], c.float("value", 0))
	},
}

// one and two make calls of ops without attributes.
func one(f func(*autograd.Scope, value) value) call {
	return func(s *autograd.Scope, _ *opCase, in []value) value { return f(s, in[0]) }
}

func two(f func(s *autograd.Scope, a, b value) value) call {
	return func(s *autograd.Scope, _ *opCase, in []value) value { return f(s, in[0], in[1]) }
}
