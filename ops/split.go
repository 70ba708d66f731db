package ops

import (
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// split, unbind: all of x in several views. They share x's one gradient buffer, which starts as zeros.

// Split cuts x along dim, which may be negative, into that many equal parts, as views: torch's chunk, where the size must
// divide evenly. x is of any dtype. The parts must not be written in place where gradients are recorded. Nothing is
// copied or saved.
func Split(s *autograd.Scope, x *autograd.Value, dim, parts int) []*autograd.Value {
	return autograd.ApplyN(s, splitOp{dim: dim, parts: parts}, x)
}

// SplitSizes is [Split] into parts of the given sizes, which must add up to the size of dim.
func SplitSizes(s *autograd.Scope, x *autograd.Value, dim int, sizes ...int) []*autograd.Value {
	return autograd.ApplyN(s, splitOp{dim: dim, sizes: append([]int{}, sizes...)}, x)
}

// Unbind gives what [Select] gives for each position along dim, which may be negative, under the conditions of [Split].
func Unbind(s *autograd.Scope, x *autograd.Value, dim int) []*autograd.Value {
	return autograd.ApplyN(s, unbindOp{dim: dim}, x)
}

// splitOp has sizes, which the caller cannot change, or nil and a number of equal parts.
type splitOp struct {
	view
	dim, parts int
	sizes      []int
}

var splitRule = &autograd.Rule{Name: "split", MultiView: true}

func (splitOp) Rule() *autograd.Rule { return splitRule }

func (o splitOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	d, err := axis(o.dim, in[0].Rank())
	if err != nil {
		return err
	}
	n := in[0].Shape[d]
	if err := o.check(n); err != nil {
		return err
	}
	for i := range max(o.parts, len(o.sizes)) {
		lo, hi := o.part(n, i)
		addCut(sh, in[0], d, hi-lo)
	}
	return nil
}

func (o splitOp) check(n int) error {
	if o.sizes == nil {
		if o.parts < 1 || n%o.parts != 0 {
			return fmt.Errorf("%d parts of dim %d, of size %d: want a number of parts that divides the size", o.parts, o.dim, n)
		}
		return nil
	}
	left := n
	for _, size := range o.sizes {
		if size < 0 || size > left {
			left = -1
			break
		}
		left -= size
	}
	if left != 0 {
		return fmt.Errorf("parts %v of dim %d, of size %d: want sizes of 0 or more that add up to it", o.sizes, o.dim, n)
	}
	return nil
}

// part is where part i of n positions lies.
func (o splitOp) part(n, i int) (lo, hi int) {
	if o.sizes == nil {
		return i * (n / o.parts), (i + 1) * (n / o.parts)
	}
	for _, size := range o.sizes[:i] {
		lo += size
	}
	return lo, lo + o.sizes[i]
}

func (o splitOp) View(x *tensor.Tensor, i int) tensor.Tensor {
	lo, hi := o.part(x.Dim(o.dim), i)
	return seen(x.Slice(o.dim, lo, hi))
}

type unbindOp struct {
	view
	dim int
}

var unbindRule = &autograd.Rule{Name: "unbind", MultiView: true}

func (unbindOp) Rule() *autograd.Rule { return unbindRule }

func (o unbindOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	d, err := axis(o.dim, in[0].Rank())
	if err != nil {
		return err
	}
	one := tensor.Spec{DType: in[0].DType, Shape: slices.Delete(slices.Clone(in[0].Shape), d, d+1)}
	for range in[0].Shape[d] {
		sh.Like(one)
	}
	return nil
}

func (o unbindOp) View(x *tensor.Tensor, i int) tensor.Tensor { return seen(x.Select(o.dim, i)) }
