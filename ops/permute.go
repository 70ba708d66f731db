package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// permute, transpose: the dimensions of x in another order, as views.

// Permute puts dimension dims[i] of x at place i, as a view; each dimension must be named once, and may be negative. x is
// of any dtype. Nothing is copied or saved.
func Permute(s *autograd.Scope, x *autograd.Value, dims ...int) *autograd.Value {
	return autograd.Apply(s, permuteOp{dims: append([]int{}, dims...)}, x)
}

// Transpose swaps two dimensions of x, which may be negative, as a view: for [MatMul] as cheap as none. x is of any dtype.
// Nothing is copied or saved.
func Transpose(s *autograd.Scope, x *autograd.Value, i, j int) *autograd.Value {
	return autograd.Apply(s, transposeOp{i: i, j: j}, x)
}

type permuteOp struct {
	view
	dims []int // which the caller cannot change
}

var permuteRule = &autograd.Rule{Name: "permute"}

func (permuteOp) Rule() *autograd.Rule { return permuteRule }

func (o permuteOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x := tensor.Unbacked(in[0])
	v, err := o.see(&x)
	return addView(sh, v, err)
}

func (o permuteOp) View(x *tensor.Tensor, _ int) tensor.Tensor  { return seen(o.see(x)) }
func (o permuteOp) see(x *tensor.Tensor) (tensor.Tensor, error) { return x.Permute(o.dims...) }

type transposeOp struct {
	view
	i, j int
}

var transposeRule = &autograd.Rule{Name: "transpose"}

func (transposeOp) Rule() *autograd.Rule { return transposeRule }

func (o transposeOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x := tensor.Unbacked(in[0])
	v, err := o.see(&x)
	return addView(sh, v, err)
}

func (o transposeOp) View(x *tensor.Tensor, _ int) tensor.Tensor  { return seen(o.see(x)) }
func (o transposeOp) see(x *tensor.Tensor) (tensor.Tensor, error) { return x.Transpose(o.i, o.j) }
