package ops

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// cat, stack: tensors side by side in one.
//
//	dx_i = the part of g where x_i lies
//
// The engine hands the parts on: they share g's buffer where they are contiguous (dim is the first of more than one
// position), so that no gradient is copied.
//
// Saved: nothing.

// Cat joins xs, of one dtype, any, and of one shape but for dim, along dim, which may be negative. Nothing is saved.
//
// Torch's leniency, empty tensors of rank 1 among others and mixed dtypes, is an error here.
func Cat(s *autograd.Scope, dim int, xs ...*autograd.Value) *autograd.Value {
	return autograd.Apply(s, catOp{dim}, xs...)
}

// Stack joins xs, of one dtype, any, and one shape, along a new dimension at place dim; the last place is their rank, or
// -1. Nothing is saved.
func Stack(s *autograd.Scope, dim int, xs ...*autograd.Value) *autograd.Value {
	return autograd.Apply(s, stackOp{dim}, xs...)
}

var errNothing = errors.New("want at least one tensor")

type catOp struct{ dim int }

var catRule = &autograd.Rule{Name: "cat", Cast: autograd.CastWidest, Strided: true}

func (catOp) Rule() *autograd.Rule { return catRule }

func (o catOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if len(in) == 0 {
		return errNothing
	}
	d, err := axis(o.dim, in[0].Rank())
	if err != nil {
		return err
	}
	n := 0
	for i, x := range in {
		switch {
		case x.DType != in[0].DType:
			return errDTypes
		case x.Rank() != in[0].Rank() || !slices.Equal(x.Shape[:d], in[0].Shape[:d]) || !slices.Equal(x.Shape[d+1:], in[0].Shape[d+1:]):
			return fmt.Errorf("tensor %d has another shape than tensor 0: want equal sizes but for dim %d", i, o.dim)
		}
		n += x.Shape[d]
		sh.Chunks = max(sh.Chunks, kernel.Chunks(x.Elems()))
	}
	addCut(sh, in[0], d, n)
	return wantRank(in[0].Shape)
}

func (o catOp) Forward(f *autograd.Fwd) {
	lo := 0
	for i := range f.In {
		hi := lo + f.In[i].Dim(o.dim)
		y := seen(f.Out[0].Slice(o.dim, lo, hi))
		copyTensor(&f.Run, &y, &f.In[i])
		lo = hi
	}
}

// Part is where tensor i lies in y.
func (o catOp) Part(y *tensor.Tensor, in []tensor.Spec, i int) tensor.Tensor {
	lo := 0
	for _, x := range in[:i] {
		lo += x.Dim(o.dim)
	}
	return seen(y.Slice(o.dim, lo, lo+in[i].Dim(o.dim)))
}

func (catOp) Backward(*autograd.Bwd) { panic("ops: cat passes its gradients on") }

type stackOp struct{ dim int }

var stackRule = &autograd.Rule{Name: "stack", Cast: autograd.CastWidest, Strided: true}

func (stackOp) Rule() *autograd.Rule { return stackRule }

func (o stackOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if len(in) == 0 {
		return errNothing
	}
	d, err := axis(o.dim, in[0].Rank()+1)
	if err != nil {
		return err
	}
	for i, x := range in {
		switch {
		case x.DType != in[0].DType:
			return errDTypes
		case !x.SameShape(in[0]):
			return fmt.Errorf("tensor %d has another shape than tensor 0: want equal shapes", i)
		}
	}
	sh.Like(tensor.Spec{DType: in[0].DType, Shape: slices.Insert(slices.Clone(in[0].Shape), d, len(in))})
	sh.Chunks = kernel.Chunks(in[0].Elems())
	return wantRank(sh.Out[0].Shape)
}

func (o stackOp) Forward(f *autograd.Fwd) {
	for i := range f.In {
		y := seen(f.Out[0].Select(o.dim, i))
		copyTensor(&f.Run, &y, &f.In[i])
	}
}

// Part is where tensor i lies in y.
func (o stackOp) Part(y *tensor.Tensor, _ []tensor.Spec, i int) tensor.Tensor {
	return seen(y.Select(o.dim, i))
}

func (stackOp) Backward(*autograd.Bwd) { panic("ops: stack passes its gradients on") }
