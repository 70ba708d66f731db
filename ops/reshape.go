package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// reshape, flatten, squeeze, unsqueeze, contiguous: x's elements in x's order, under another shape.
//
// All are views where x's strides allow it, as they always do for a contiguous x; else the engine copies x first, once,
// and the result is a view of the copy. Backward is the same the other way round: the gradient is written into a view of
// x's gradient if that one's strides allow it, else it has a buffer of its own that is then added. A gradient that is
// passed on as it is goes through without a copy.

// Reshape gives x's elements in row-major order under another shape, of as many elements; one size may be -1, for what is
// left. It is a view where x's strides allow one, else a copy; no other result depends on which. In-place operations see
// a view either way. x is of any dtype. Nothing is saved.
func Reshape(s *autograd.Scope, x *autograd.Value, shape ...int) *autograd.Value {
	return autograd.Apply(s, reshapeOp{kind: toShape, shape: append([]int{}, shape...)}, x)
}

// Flatten makes dimensions first to last, both counted and both possibly negative, one, under the conditions of
// [Reshape]: torch's flatten(first, last).
func Flatten(s *autograd.Scope, x *autograd.Value, first, last int) *autograd.Value {
	return autograd.Apply(s, reshapeOp{kind: flat, dim: first, last: last}, x)
}

// Squeeze takes dimension dim away, which may be negative and must be of size 1. Torch's squeeze(dim) leaves a dimension of
// another size where it is, and its squeeze() takes a batch of one with it. It is always a view.
func Squeeze(s *autograd.Scope, x *autograd.Value, dim int) *autograd.Value {
	return autograd.Apply(s, reshapeOp{kind: squeezed, dim: dim}, x)
}

// Unsqueeze puts a dimension of size 1 at place dim; the last place is x's rank, or -1. It is always a view.
func Unsqueeze(s *autograd.Scope, x *autograd.Value, dim int) *autograd.Value {
	return autograd.Apply(s, reshapeOp{kind: unsqueezed, dim: dim}, x)
}

// Contiguous gives x itself, as a view, if its elements lie in row-major order without gaps, else a copy that does. x is
// of any dtype. Nothing is saved.
func Contiguous(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, reshapeOp{kind: contiguous}, x)
}

// reshapeOp is one of the kinds of views that keep elements and order.
type reshapeOp struct {
	view
	kind      int
	shape     []int // which the caller cannot change
	dim, last int
}

const (
	toShape = iota
	flat
	squeezed
	unsqueezed
	contiguous
)

var (
	reshapeRule    = &autograd.Rule{Name: "reshape"}
	flattenRule    = &autograd.Rule{Name: "flatten"}
	squeezeRule    = &autograd.Rule{Name: "squeeze"}
	unsqueezeRule  = &autograd.Rule{Name: "unsqueeze"}
	contiguousRule = &autograd.Rule{Name: "contiguous"}

	reshapeRules = [...]*autograd.Rule{
		toShape: reshapeRule, flat: flattenRule, squeezed: squeezeRule, unsqueezed: unsqueezeRule, contiguous: contiguousRule,
	}
)

func (o reshapeOp) Rule() *autograd.Rule { return reshapeRules[o.kind] }

func (o reshapeOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x := tensor.Unbacked(in[0])
	v, err := o.see(&x)
	return addView(sh, v, err)
}

func (o reshapeOp) View(x *tensor.Tensor, _ int) tensor.Tensor { return seen(o.see(x)) }

// Fits tells whether strides allow the view; Infer has seen that shapes do.
func (o reshapeOp) Fits(x *tensor.Tensor) bool {
	if x.IsContiguous() {
		return true
	}
	_, err := o.see(x)
	return err == nil
}

func (o reshapeOp) see(x *tensor.Tensor) (tensor.Tensor, error) {
	switch o.kind {
	case toShape:
		return x.Reshape(o.shape...)
	case flat:
		return flatten(x, o.dim, o.last)
	case squeezed:
		return x.Squeeze(o.dim)
	case unsqueezed:
		return x.Unsqueeze(o.dim)
	}
	if !x.IsContiguous() {
		return tensor.Tensor{}, errors.New("not contiguous")
	}
	return *x, nil
}

func flatten(x *tensor.Tensor, from, to int) (tensor.Tensor, error) {
	shape := x.Shape()
	first, err := axis(from, len(shape))
	if err != nil {
		return tensor.Tensor{}, err
	}
	last, err := axis(to, len(shape))
	if err != nil {
		return tensor.Tensor{}, err
	}
	if first > last {
		return tensor.Tensor{}, fmt.Errorf("dims %d to %d: want the first before the last", from, to)
	}
	one := append([]int{}, shape[:first]...)
	one = append(one, product(shape[first:last+1]))
	return x.Reshape(append(one, shape[last+1:]...)...)
}
