package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// What all views share: no bytes, no kernel, nothing saved. Gradients are written into the same view of x's one gradient
// buffer, unless the op's own comment says otherwise.
//
// What a view is, package tensor knows. An op has a method see that asks it: for View of x, for Infer of a tensor without
// a buffer.

// view is the part of an op that never runs.
type view struct{}

func (view) Forward(*autograd.Fwd)  {}
func (view) Backward(*autograd.Bwd) {}

// addView appends the output v, or gives the reason why there is no such view.
func addView(sh *autograd.Shapes, v tensor.Tensor, err error) error {
	if err != nil {
		return err
	}
	sh.Like(v.Spec())
	return wantRank(v.Shape())
}

// seen is a view that Infer has found to be possible.
func seen(v tensor.Tensor, err error) tensor.Tensor {
	if err != nil {
		panic(fmt.Sprintf("ops: %v", err))
	}
	return v
}
