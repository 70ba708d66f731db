package nn

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

// Dropout sets elements to 0 with probability P and divides the others by 1-P (Srivastava et al. 2014), torch.nn.Dropout.
// In a scope under Eval, and with P = 0, it gives its input. P has no default: 0 drops nothing (torch's is 0.5).
type Dropout struct {
	P       float64
	InPlace bool // writes over the input, see ReLU.InPlace
}

// NewDropout checks p, a number from 0 to 1. The literal Dropout{P: p} is as good; its P is checked by Forward.
func NewDropout(p float64) (Dropout, error) {
	if !(p >= 0 && p <= 1) {
		return Dropout{}, fmt.Errorf("nn: NewDropout: p %v: want 0 to 1", p)
	}
	return Dropout{P: p}, nil
}

// Forward takes and gives any shape.
func (d Dropout) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	if d.InPlace {
		return ops.DropoutInPlace(s, x, d.P)
	}
	return ops.Dropout(s, x, d.P)
}
