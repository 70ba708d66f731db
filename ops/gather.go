package ops

import (
	"fmt"
	"sync/atomic"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// gather, index_select: elements of x along one dimension, by index.
//
//	gather        y[.. j ..] = x[.. index[.. j ..] ..]       dx = the sum of g over the places that took the element
//	index_select  y[.. j ..] = x[.. index[j] ..]
//
// The second is the first with an index that is the same (stride 0) along all other dimensions. Backward is cut so that
// what meets in dx is added by one chunk, in the order of the places: same bits whatever the workers, no atomic additions.
//
// Saved: index.

// Gather gives, for each element of index, Int64 or Int32, the element of x at the same place but at position index along
// dim, which may be negative: torch.gather. index has x's rank and nowhere more positions than x, but along dim, where it
// may have any number; the result has its shape. An index that is no position of x along dim is an error. x is of any
// dtype. index is saved.
func Gather(s *autograd.Scope, x *autograd.Value, dim int, index *autograd.Value) *autograd.Value {
	return autograd.Apply(s, gatherOp{dim: dim}, x, index)
}

// IndexSelect gives those positions of x along dim, which may be negative, that index [K], Int64 or Int32, names, in its
// order; one may be named several times or never. Otherwise like [Gather].
func IndexSelect(s *autograd.Scope, x *autograd.Value, dim int, index *autograd.Value) *autograd.Value {
	return autograd.Apply(s, gatherOp{dim: dim, whole: true}, x, index)
}

// gatherOp is index_select if whole positions are taken.
type gatherOp struct {
	dim   int
	whole bool
}

var (
	gatherRule      = &autograd.Rule{Name: "gather", Reads: [][]autograd.Ref{{autograd.In(1)}}, Strided: true}
	indexSelectRule = &autograd.Rule{Name: "index_select", Reads: [][]autograd.Ref{{autograd.In(1)}}, Strided: true}
)

func (o gatherOp) Rule() *autograd.Rule {
	if o.whole {
		return indexSelectRule
	}
	return gatherRule
}

func (o gatherOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x, index := in[0], in[1]
	if err := wantIndex("indices", index); err != nil {
		return err
	}
	d, err := axis(o.dim, x.Rank())
	if err != nil {
		return err
	}
	if o.whole {
		if index.Rank() != 1 {
			return fmt.Errorf("want an index of one dimension")
		}
		addCut(sh, x, d, index.Dim(0))
	} else {
		if err := gatherable(x, index, d); err != nil {
			return err
		}
		sh.Add(x.DType, index.Shape...)
	}
	sh.Chunks = kernel.Chunks(sh.Out[0].Elems())
	sh.BwdChunks = kernel.GatherChunks(sh.Out[0].Shape, d)
	return wantRank(x.Shape)
}

// gatherable refuses an index that is longer than x in a dimension other than d.
func gatherable(x, index tensor.Spec, d int) error {
	if index.Rank() != x.Rank() {
		return fmt.Errorf("want an index of %d dimensions, as many as x has", x.Rank())
	}
	for i, n := range index.Shape {
		if i != d && n > x.Shape[i] {
			return fmt.Errorf("dim %d of the index is %d: want at most %d, as x has", i, n, x.Shape[i])
		}
	}
	return nil
}

// indices is the index of each element of a result of the given shape, and along which dimension of it.
func indices[I int32 | int64](o gatherOp, index *tensor.Tensor, shape []int) (kernel.Strided[I], int) {
	d, _ := axis(o.dim, len(shape))
	j := operand.Of[I](index)
	if o.whole {
		strides := make([]int, len(shape))
		strides[d] = index.Stride(0)
		j.Shape, j.Strides = shape, strides
	}
	return j, d
}

func (o gatherOp) Forward(f *autograd.Fwd) {
	dt := f.In[1].DType()
	bySize(f.Out[0].DType(),
		byIndex(dt, gatherForward[uint8, int32], gatherForward[uint8, int64]),
		byIndex(dt, gatherForward[uint16, int32], gatherForward[uint16, int64]),
		byIndex(dt, gatherForward[uint32, int32], gatherForward[uint32, int64]),
		byIndex(dt, gatherForward[uint64, int32], gatherForward[uint64, int64]))(o, f)
}

func gatherForward[W uint8 | uint16 | uint32 | uint64, I int32 | int64](o gatherOp, f *autograd.Fwd) {
	index, d := indices[I](o, &f.In[1], f.Out[0].Shape())
	x, y, n := operand.Words[W](&f.In[0]), operand.Words[W](&f.Out[0]).Data, f.Out[0].Elems()
	var bad atomic.Bool
	f.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		if !kernel.Gather(y, x, index, d, lo, hi) {
			bad.Store(true)
		}
	})
	if bad.Load() {
		f.Fail(noPosition[I](&f.In[1], o.dim, f.In[0].Dim(d)))
	}
}

// noPosition names the first index that is not one of n positions.
func noPosition[I int32 | int64](index *tensor.Tensor, dim, n int) error {
	at := place(kernel.NoPosition(operand.Of[I](index), n), index.Shape())
	v := int64(index.At(at...))
	if n == 0 {
		return fmt.Errorf("index %v is %d: dim %d of x has no positions", at, v, dim)
	}
	return fmt.Errorf("index %v is %d: want 0 to %d, a position of dim %d", at, v, n-1, dim)
}

func (o gatherOp) Backward(b *autograd.Bwd) {
	dt := b.InSpec(1).DType
	byFloat(b.OutSpec(0).DType,
		byIndex(dt, gatherBackward[float32, int32], gatherBackward[float32, int64]),
		byIndex(dt, gatherBackward[float64, int32], gatherBackward[float64, int64]))(o, b)
}

func gatherBackward[T interface {
	kernel.Float
	tensor.Elem
}, I int32 | int64](o gatherOp, b *autograd.Bwd) {
	dx, add := b.Into(0)
	if !add {
		fill(*dx, 0)
	}
	index, d := indices[I](o, b.In(1), b.OutSpec(0).Shape)
	to, g := operand.Of[T](dx), operand.Of[T](b.Grad(0))
	b.Par(kernel.GatherChunks(g.Shape, d), func(_, c int) { kernel.GatherBackward(to, g, index, d, c) })
}
