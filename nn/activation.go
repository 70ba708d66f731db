package nn

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

// activationOf tells which function of ops a module is, if a linear layer can apply it.
func activationOf(m Module) (act ops.Activation, ok bool) {
	switch m := m.(type) {
	case ReLU:
		return ops.ActReLU, true
	case GELU:
		if m.Tanh {
			return ops.ActGELUTanh, true
		}
		return ops.ActGELU, true
	}
	return 0, false
}

// ReLU is max(x, 0), torch.nn.ReLU. For backward it keeps one bit an element.
type ReLU struct {
	// InPlace writes over the input, whose buffer the result takes over. It may stand behind a layer that does not save its
	// output (linear, convolution, norms), not where the input is used elsewhere. Values are the same.
	InPlace bool
}

// Forward takes and gives any shape.
func (r ReLU) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	if r.InPlace {
		return ops.ReLUInPlace(s, x)
	}
	return ops.ReLU(s, x)
}

// GELU is x Φ(x), Φ the normal distribution function (Hendrycks and Gimpel 2016), torch.nn.GELU.
type GELU struct {
	Tanh bool // its approximation by tanh, which GPT-2 was trained with; false: exact, by erf
}

// Forward takes and gives any shape.
func (g GELU) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	if g.Tanh {
		return ops.GELUTanh(s, x)
	}
	return ops.GELU(s, x)
}
