package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// Cast gives x in dtype dt, one of the float types, of x's shape: torch's to. x is of any dtype; those that are not of
// floating point (Bool counts as 0 and 1) have no gradients. The gradient is cast back. Nothing is saved, and x itself is
// returned if it has that dtype already. (The op is the engine's own, which records it under autocast.)
func Cast(s *autograd.Scope, x *autograd.Value, dt tensor.DType) *autograd.Value {
	return autograd.Cast(s, x, dt)
}
