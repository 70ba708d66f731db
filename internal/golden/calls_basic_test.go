package golden

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

type value = *autograd.Value

// basicCalls are those of the ops that came first.
var basicCalls = map[string]call{
	"add": func(s *autograd.Scope, _ *opCase, in []value) value { return ops.Add(s, in[0], in[1]) },
	"linear": func(s *autograd.Scope, _ *opCase, in []value) value {
		in = append(in, nil)
		return ops.Linear(s, in[0], in[1], in[2])
	},
	"matmul": func(s *autograd.Scope, _ *opCase, in []value) value { return ops.MatMul(s, in[0], in[1]) },
	"relu":   func(s *autograd.Scope, _ *opCase, in []value) value { return ops.ReLU(s, in[0]) },
	"gelu": func(s *autograd.Scope, c *opCase, in []value) value {
		if c.string("approximate") == "tanh" {
			return ops.GELUTanh(s, in[0])
		}
		return ops.GELU(s, in[0])
	},
	"layer_norm": func(s *autograd.Scope, c *opCase, in []value) value {
		in = append(in, nil, nil)
		return ops.LayerNorm(s, in[0], 1, in[1], in[2], c.float("eps", 1e-5))
	},
}
