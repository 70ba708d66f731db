package golden

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

var attentionCalls = map[string]call{
	// Torch's operands are [B H T D].
	"attention": func(s *autograd.Scope, c *opCase, in []value) value {
		cfg := ops.AttentionConfig{Causal: c.bool("causal")}
		if len(in) > 3 {
			cfg.Mask = in[3]
		}
		return swapHeads(s, ops.Attention(s, swapHeads(s, in[0]), swapHeads(s, in[1]), swapHeads(s, in[2]), cfg))
	},
	"rms_norm": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.RMSNorm(s, in[0], in[1], c.float("eps", 0))
	},
}

func swapHeads(s *autograd.Scope, x value) value { return autograd.Apply(s, swapHeadsOp{}, x) }

// swapHeadsOp swaps dimensions 1 and 2, as a view.
type swapHeadsOp struct{}

var swapHeadsRule = &autograd.Rule{Name: "swapheads"}

func (swapHeadsOp) Rule() *autograd.Rule { return swapHeadsRule }

func (swapHeadsOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	d := in[0].Shape
	sh.Add(in[0].DType, d[0], d[2], d[1], d[3])
	return nil
}

func (swapHeadsOp) View(x *tensor.Tensor, _ int) tensor.Tensor {
	v, err := x.Transpose(1, 2)
	if err != nil {
		panic(err)
	}
	return v
}

func (swapHeadsOp) Forward(*autograd.Fwd)  {}
func (swapHeadsOp) Backward(*autograd.Bwd) {}
