package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// expand: x with dimensions of size 1, and new leading ones, repeated: a view with stride 0 there.
//
//	dx = g, summed over the repeated dimensions
//
// The gradient of what is repeated cannot lie where x's does, so it has a buffer of its own, of y's shape, from which the
// engine sums (Pass). Ops that broadcast do without: they never need Expand.

// Expand repeats dimensions of size 1 of x, and new leading ones, to the given sizes, as a view; -1 keeps an existing
// size. x is of any dtype. Nothing is copied or saved; only the gradient takes bytes, as many as a copy would.
func Expand(s *autograd.Scope, x *autograd.Value, shape ...int) *autograd.Value {
	return autograd.Apply(s, expandOp{shape: append([]int{}, shape...)}, x)
}

type expandOp struct {
	view
	shape []int // which the caller cannot change
}

var expandRule = &autograd.Rule{Name: "expand", Pass: []bool{true}}

func (expandOp) Rule() *autograd.Rule { return expandRule }

func (o expandOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x := tensor.Unbacked(in[0])
	v, err := o.see(&x)
	return addView(sh, v, err)
}

func (o expandOp) View(x *tensor.Tensor, _ int) tensor.Tensor  { return seen(o.see(x)) }
func (o expandOp) see(x *tensor.Tensor) (tensor.Tensor, error) { return x.Expand(o.shape...) }
