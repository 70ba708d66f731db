package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// embedding: y[... C] = weight[index[...]], rows of weight[N C].
//
//	dweight[v] = the sum of g over the places where index is v, in the order of the places; 0 for the padding row
//
// Backward is cut by columns, so that whoever meets in a row of dweight is added by one chunk, in order: same bits
// whatever the workers, and no atomic additions. Rows that nothing names get zeros. Halves are moved as they are; their
// gradients are added up in float32.
//
// Saved: index.

// Embedding gives the rows of weight [N C], a float dtype, that index, Int64 or Int32 of any shape [...], names: a
// result of shape [... C]. An index outside [0, N) is an error. index is saved. weight may be tied: the gradients of a
// parameter that is also the weight of a [Linear] add up.
func Embedding(s *autograd.Scope, weight, index *autograd.Value, opts ...EmbeddingOption) *autograd.Value {
	if len(opts) == 0 {
		return autograd.Apply(s, embeddingOp{}, weight, index)
	}
	var o embeddingOp
	for _, opt := range opts {
		opt(&o)
	}
	return autograd.Apply(s, o, weight, index)
}

// EmbeddingOption changes one call of [Embedding].
type EmbeddingOption func(*embeddingOp)

// PaddingIndex says that row i stands for padding: it is looked up like the others, but gets no gradient. A negative i
// counts from the end. Torch's padding_idx.
func PaddingIndex(i int) EmbeddingOption {
	return func(o *embeddingOp) { o.padded, o.pad = true, i }
}

type embeddingOp struct {
	padded bool
	pad    int
}

var embeddingRule = &autograd.Rule{Name: "embedding", Halves: true, Reads: [][]autograd.Ref{{autograd.In(1)}}}

func (embeddingOp) Rule() *autograd.Rule { return embeddingRule }

func (o embeddingOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	w, index := in[0], in[1]
	if _, err := wantFactors(w); err != nil {
		return err
	}
	if err := wantIndex("indices", index); err != nil {
		return err
	}
	if w.Rank() != 2 {
		return errors.New("want weight [N C]")
	}
	if n := w.Dim(0); o.padded && (o.pad < -n || o.pad >= n) {
		return fmt.Errorf("padding index %d: want %d to %d, a row of the weight", o.pad, -n, n-1)
	}
	addShape(sh, w.DType, index.Shape, w.Dim(1))
	sh.Chunks = kernel.RowChunks(index.Elems(), w.Dim(1))
	sh.BwdChunks = kernel.ColChunks(w.Dim(1))
	if isHalf(w.DType) {
		sh.BwdChunks = kernel.RowChunks(w.Dim(0), w.Dim(1))
		sh.BwdScratch, sh.BwdShared = 4*int64(w.Dim(1)), 4*int64(w.Dim(0)+index.Elems())
	}
	return nil
}

func (embeddingOp) Forward(f *autograd.Fwd) {
	if isHalf(f.Out[0].DType()) {
		byIndex(f.In[1].DType(), embeddingLookUp[uint16, int32], embeddingLookUp[uint16, int64])(f,
			operand.Words[uint16](&f.Out[0]).Data, operand.Words[uint16](&f.In[0]).Data)
		return
	}
	byFloat(f.Out[0].DType(),
		byIndex(f.In[1].DType(), embeddingForward[float32, int32], embeddingForward[float32, int64]),
		byIndex(f.In[1].DType(), embeddingForward[float64, int32], embeddingForward[float64, int64]))(f)
}

func embeddingForward[T kernel.Float, I kernel.Index](f *autograd.Fwd) {
	embeddingLookUp[T, I](f, tensor.Data[T](&f.Out[0]), tensor.Data[T](&f.In[0]))
}

// embeddingLookUp moves rows, of whatever type.
func embeddingLookUp[T any, I kernel.Index](f *autograd.Fwd, y, w []T) {
	index := tensor.Data[I](&f.In[1])
	n, cols := f.In[0].Dim(0), f.In[0].Dim(1)
	for i, v := range index {
		if v < 0 || int64(v) >= int64(n) {
			f.Fail(badIndex(place(i, f.In[1].Shape()), int64(v), n))
		}
	}
	chunks := kernel.RowChunks(len(index), cols)
	if chunks == 1 {
		kernel.Embedding(y, w, index, cols)
		return
	}
	f.Par(chunks, func(_, c int) {
		lo, hi := kernel.RowRange(len(index), cols, c)
		kernel.Embedding(y[lo*cols:hi*cols], w, index[lo:hi], cols)
	})
}

func badIndex(at []int, v int64, n int) error {
	if n == 0 {
		return fmt.Errorf("index %v is %d: the weight has no rows", at, v)
	}
	return fmt.Errorf("index %v is %d: want 0 to %d, a row of the weight", at, v, n-1)
}

// padding is the padding row of n, or -1.
func (o embeddingOp) padding(n int) int64 {
	switch {
	case !o.padded:
		return -1
	case o.pad < 0:
		return int64(o.pad + n)
	}
	return int64(o.pad)
}

func (o embeddingOp) Backward(b *autograd.Bwd) {
	dt := b.InSpec(1).DType
	if isHalf(b.OutSpec(0).DType) {
		byIndex(dt, embeddingHalf[int32], embeddingHalf[int64])(o, b)
		return
	}
	byFloat(b.OutSpec(0).DType,
		byIndex(dt, embeddingBackward[float32, int32], embeddingBackward[float32, int64]),
		byIndex(dt, embeddingBackward[float64, int32], embeddingBackward[float64, int64]))(o, b)
}

// embeddingHalf is Backward of halves: what meets in a row of dweight is added up in float32 and rounded once, so it is
// cut by rows, and lists say which places name each of them.
func embeddingHalf[I kernel.Index](o embeddingOp, b *autograd.Bwd) {
	dst, add := b.Into(0)
	half, g := operand.Half(b.Grad(0))
	n, cols, index := dst.Dim(0), dst.Dim(1), tensor.Data[I](b.In(1))
	lists := kernel.View[int32](b.Shared())[: n+len(index) : n+len(index)]
	first, next := lists[:n], lists[n:]
	kernel.EmbeddingRows(first, next, index, o.padding(n))
	dw := operand.Words[uint16](dst).Data
	b.Par(kernel.RowChunks(n, cols), func(lane, c int) {
		lo, hi := kernel.RowRange(n, cols, c)
		row := kernel.View[float32](b.Lane(lane))[:cols]
		kernel.EmbeddingBackwardHalf(half, dw, add, g.Data, first, next, row, lo, hi)
	})
}

func embeddingBackward[T kernel.Float, I kernel.Index](o embeddingOp, b *autograd.Bwd) {
	dst, add := b.Into(0)
	dw, g, index := tensor.Data[T](dst), tensor.Data[T](b.Grad(0)), tensor.Data[I](b.In(1))
	cols, pad := dst.Dim(1), o.padding(dst.Dim(0))
	b.Par(kernel.ColChunks(cols), func(_, c int) {
		c0, c1 := kernel.ColRange(cols, c)
		kernel.EmbeddingBackward(dw, add, g, index, cols, c0, c1, pad)
	})
}
