package golden

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

var attentionCalls = map[string]call{
	// Torch's operands are [B H T D].
	"attention": func(s *autograd.Scope, c *opCase, in []value) value {
		swap := func(x value) value { return ops.Transpose(s, x, 1, 2) }
		cfg := ops.AttentionConfig{Causal: c.bool("causal")}
		if len(in) > 3 {
			cfg.Mask = in[3]
		}
		return swap(ops.Attention(s, swap(in[0]), swap(in[1]), swap(in[2]), cfg))
	},
	"rms_norm": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.RMSNorm(s, in[0], in[1], c.float("eps", 0))
	},
}
