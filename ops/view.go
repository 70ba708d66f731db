package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// slice, split: views of x. No bytes, no kernel, nothing saved. Gradients are written into the same views of x's one
// gradient buffer.

// Slice gives the elements of x with positions lo up to and without hi along dim, as a view. dim may be negative,
// counting from the end; 0 <= lo <= hi <= the size of dim. x is of any dtype. Nothing is copied or saved.
func Slice(s *autograd.Scope, x *autograd.Value, dim, lo, hi int) *autograd.Value {
	return autograd.Apply(s, sliceOp{dim, lo, hi}, x)
}

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

type sliceOp struct{ dim, lo, hi int }

var sliceRule = &autograd.Rule{Name: "slice"}

func (sliceOp) Rule() *autograd.Rule { return sliceRule }

func (o sliceOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	d, err := axis(o.dim, in[0].Rank())
	if err != nil {
		return err
	}
	if n := in[0].Shape[d]; o.lo < 0 || o.lo > o.hi || o.hi > n {
		return fmt.Errorf("[%d:%d] of dim %d, of size %d: want 0 <= lo <= hi <= %d", o.lo, o.hi, o.dim, n, n)
	}
	addCut(sh, in[0], d, o.hi-o.lo)
	return nil
}

func (o sliceOp) View(x *tensor.Tensor, _ int) tensor.Tensor { return cut(x, o.dim, o.lo, o.hi) }

func (sliceOp) Forward(*autograd.Fwd)  {}
func (sliceOp) Backward(*autograd.Bwd) {}

// splitOp has sizes, which the caller cannot change, or nil and a number of equal parts.
type splitOp struct {
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
	return cut(x, o.dim, lo, hi)
}

func (splitOp) Forward(*autograd.Fwd)  {}
func (splitOp) Backward(*autograd.Bwd) {}

// addCut appends the output that is x with n positions along dimension d.
func addCut(sh *autograd.Shapes, x tensor.Spec, d, n int) {
	sh.Add(x.DType, x.Shape...)
	sh.Out[len(sh.Out)-1].Shape[d] = n
}

// cut is the view that Infer has checked.
func cut(x *tensor.Tensor, dim, lo, hi int) tensor.Tensor {
	v, err := x.Slice(dim, lo, hi)
	if err != nil {
		panic(fmt.Sprintf("ops: %v", err))
	}
	return v
}
