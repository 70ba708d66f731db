package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// pad: x with a border of one value, or without some of its border.
//
//	dx = g without the border; 0 for what was cut off
//
// Saved: nothing.

// Pad puts positions with the given value, converted to x's dtype, before and after those of x: pads are pairs (before,
// after) for the last dimension, the one before it, and so on, as torch's pad has them. A negative number cuts that many
// positions off. x is of any dtype. Nothing is saved.
func Pad(s *autograd.Scope, x *autograd.Value, value float64, pads ...int) *autograd.Value {
	return autograd.Apply(s, padOp{append([]int{}, pads...), value}, x)
}

type padOp struct {
	pads  []int
	value float64
}

var padRule = &autograd.Rule{Name: "pad", Strided: true}

func (padOp) Rule() *autograd.Rule { return padRule }

func (o padOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x := in[0]
	if len(o.pads)%2 != 0 || len(o.pads) > 2*x.Rank() {
		return fmt.Errorf("%d pads: want pairs, at most one for each of %d dimensions", len(o.pads), x.Rank())
	}
	sh.Add(x.DType, x.Shape...)
	y := sh.Out[0].Shape
	for d := range y {
		before, after := o.of(d, len(y))
		if y[d] += before + after; y[d] < 0 {
			return fmt.Errorf("pads (%d, %d) of dim %d, of size %d: want a size of 0 or more", before, after, d, x.Shape[d])
		}
	}
	sh.Chunks = kernel.Chunks(x.Elems())
	sh.BwdChunks = sh.Chunks
	return wantRank(y)
}

// of is the pads of dimension d of rank.
func (o padOp) of(d, rank int) (before, after int) {
	if k := 2 * (rank - 1 - d); k < len(o.pads) {
		return o.pads[k], o.pads[k+1]
	}
	return 0, 0
}

// common is the positions of dimension d, of size n, that lie in y as well, counted from x's first.
func (o padOp) common(d, rank, n int) (lo, hi int) {
	before, after := o.of(d, rank)
	lo = min(n, max(0, -before))
	return lo, max(lo, n-max(0, -after))
}

func (o padOp) Forward(f *autograd.Fwd) {
	x, y := f.In[0], f.Out[0]
	rank := x.Rank()
	for d := range rank { // what is common in the dimensions before d, and not in d
		lo, hi := o.common(d, rank, x.Dim(d))
		before, _ := o.of(d, rank)
		at := lo + before
		if hi == lo {
			at = 0
		}
		fill(seen(y.Slice(d, 0, at)), o.value)
		fill(seen(y.Slice(d, at+hi-lo, y.Dim(d))), o.value)
		x, y = seen(x.Slice(d, lo, hi)), seen(y.Slice(d, at, at+hi-lo))
	}
	copyTensor(&f.Run, &y, &x)
}

// fill sets every element of t, which Infer has found to be possible.
func fill(t tensor.Tensor, v float64) {
	if err := tensor.Fill(&t, v); err != nil {
		panic(fmt.Sprintf("ops: %v", err))
	}
}

func (o padOp) Backward(b *autograd.Bwd) {
	dst, add := b.Into(0)
	dx, g := *dst, *b.Grad(0)
	rank := dx.Rank()
	for d := range rank {
		lo, hi := o.common(d, rank, dx.Dim(d))
		before, _ := o.of(d, rank)
		at := lo + before
		if hi == lo {
			at = 0
		}
		if !add {
			fill(seen(dx.Slice(d, 0, lo)), 0)
			fill(seen(dx.Slice(d, hi, dx.Dim(d))), 0)
		}
		dx, g = seen(dx.Slice(d, lo, hi)), seen(g.Slice(d, at, at+hi-lo))
	}
	putTensor(&b.Run, &dx, &g, add)
}
