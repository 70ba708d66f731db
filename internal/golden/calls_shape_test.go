package golden

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

// shapeCalls are those of the ops that only move elements.
var shapeCalls = map[string]call{
	"reshape": func(s *autograd.Scope, c *opCase, in []value) value { return ops.Reshape(s, in[0], c.ints("shape")...) },
	"transpose_reshape": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.Reshape(s, ops.Transpose(s, in[0], c.int("dim0", 0), c.int("dim1", 1)), -1)
	},
	"permute": func(s *autograd.Scope, c *opCase, in []value) value { return ops.Permute(s, in[0], c.ints("dims")...) },
	"slice": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.SliceStep(s, in[0], c.int("dim", 0), c.int("start", 0), c.int("end", 0), c.int("step", 1))
	},
	"expand": func(s *autograd.Scope, c *opCase, in []value) value { return ops.Expand(s, in[0], c.ints("shape")...) },
	"cat":    func(s *autograd.Scope, c *opCase, in []value) value { return ops.Cat(s, c.int("dim", 0), in...) },
	"stack":  func(s *autograd.Scope, c *opCase, in []value) value { return ops.Stack(s, c.int("dim", 0), in...) },
	"pad": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.Pad(s, in[0], c.float("value", 0), c.ints("pad")...)
	},
	"tril": func(s *autograd.Scope, c *opCase, in []value) value { return ops.Tril(s, in[0], c.int("diagonal", 0)) },
	"gather": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.Gather(s, in[0], c.int("dim", 0), in[1])
	},
	"index_select": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.IndexSelect(s, in[0], c.int("dim", 0), in[1])
	},
	"embedding": func(s *autograd.Scope, c *opCase, in []value) value {
		if i := c.int("padding_idx", -1); i >= 0 {
			return ops.Embedding(s, in[0], in[1], ops.PaddingIndex(i))
		}
		return ops.Embedding(s, in[0], in[1])
	},
	"matmul_tn": func(s *autograd.Scope, _ *opCase, in []value) value {
		return ops.MatMul(s, ops.Transpose(s, in[0], 0, 1), in[1])
	},
	"matmul_nt": func(s *autograd.Scope, _ *opCase, in []value) value {
		return ops.MatMul(s, in[0], ops.Transpose(s, in[1], 0, 1))
	},
}
