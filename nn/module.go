package nn

import "github.com/thimble-ml/thimble/autograd"

// Module is a layer or model from one value to one value. Forward runs in s; the result belongs to s, unless it is x
// itself. x stays the caller's: Forward neither frees it nor writes over it.
//
// Models that take or give more than one value need no interface: walking asks for none.
type Module interface {
	Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value
}

// Transparent is a wrapper that changes how a module runs and not what it is, as checkpointing does. Walking passes
// through it: only what Unwrap gives is looked at, under the wrapper's own name, so that wrapping renames nothing. A
// wrapper with parameters of its own is not one; it can embed what it wraps.
type Transparent interface {
	Unwrap() any
}
