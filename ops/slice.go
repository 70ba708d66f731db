package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// slice, select: some of the positions along one dimension, as views. Gradients of what is left out are zero.

// Slice gives the elements of x with positions lo up to and without hi along dim, as a view. dim may be negative,
// counting from the end; 0 <= lo <= hi <= the size of dim. x is of any dtype. Nothing is copied or saved.
//
// Positions are never negative or cut to size, as torch's x[lo:hi] has it: a wrong one is an error.
func Slice(s *autograd.Scope, x *autograd.Value, dim, lo, hi int) *autograd.Value {
	return SliceStep(s, x, dim, lo, hi, 1)
}

// SliceStep is every step-th element of [Slice], the one at lo first: torch's x[lo:hi:step]. step is 1 or more.
func SliceStep(s *autograd.Scope, x *autograd.Value, dim, lo, hi, step int) *autograd.Value {
	return autograd.Apply(s, sliceOp{dim: dim, lo: lo, hi: hi, step: step}, x)
}

// Narrow is [Slice] with a length instead of an end.
func Narrow(s *autograd.Scope, x *autograd.Value, dim, start, length int) *autograd.Value {
	return Slice(s, x, dim, start, start+length)
}

// Select gives the elements of x with position i along dim, which goes away, as a view. dim may be negative, i may not.
// x is of any dtype. Nothing is copied or saved.
func Select(s *autograd.Scope, x *autograd.Value, dim, i int) *autograd.Value {
	return autograd.Apply(s, selectOp{dim: dim, i: i}, x)
}

type sliceOp struct {
	view
	dim, lo, hi, step int
}

var sliceRule = &autograd.Rule{Name: "slice"}

func (sliceOp) Rule() *autograd.Rule { return sliceRule }

func (o sliceOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	d, err := axis(o.dim, in[0].Rank())
	if err != nil {
		return err
	}
	switch n := in[0].Shape[d]; {
	case o.lo < 0 || o.lo > o.hi || o.hi > n:
		return fmt.Errorf("[%d:%d] of dim %d, of size %d: want 0 <= lo <= hi <= %d", o.lo, o.hi, o.dim, n, n)
	case o.step < 1:
		return fmt.Errorf("step %d: want 1 or more", o.step)
	}
	n := o.hi - o.lo
	if n > 0 {
		n = (n-1)/o.step + 1
	}
	addCut(sh, in[0], d, n)
	return nil
}

func (o sliceOp) View(x *tensor.Tensor, _ int) tensor.Tensor {
	if o.step == 1 {
		return seen(x.Slice(o.dim, o.lo, o.hi))
	}
	return seen(x.SliceStep(o.dim, o.lo, o.hi, o.step))
}

// addCut appends the output that is x with n positions along dimension d.
func addCut(sh *autograd.Shapes, x tensor.Spec, d, n int) {
	sh.Add(x.DType, x.Shape...)
	sh.Out[len(sh.Out)-1].Shape[d] = n
}

type selectOp struct {
	view
	dim, i int
}

var selectRule = &autograd.Rule{Name: "select"}

func (selectOp) Rule() *autograd.Rule { return selectRule }

func (o selectOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x := tensor.Unbacked(in[0])
	v, err := o.see(&x)
	return addView(sh, v, err)
}

func (o selectOp) View(x *tensor.Tensor, _ int) tensor.Tensor  { return seen(o.see(x)) }
func (o selectOp) see(x *tensor.Tensor) (tensor.Tensor, error) { return x.Select(o.dim, o.i) }
