package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// Attention without a mask of half types: they are widened a tile at a time.

// mixed4 shows t to a kernel that takes half types; float32 beside them counts as rounded to the half type of low.
func mixed4(t *tensor.Tensor, low tensor.DType) kernel.Mixed4 {
	x := kernel.Mixed4{Half: operand.HalfOf(low)}
	if t.DType() == tensor.Float32 {
		x.Float, x.Round = rank4[float32](t), true
		return x
	}
	x.Bits.Data = operand.Words[uint16](t).Data
	for d, n := range t.Shape() {
		if n != 1 {
			x.Bits.Strides[d] = t.Stride(d)
		}
	}
	return x
}

func mixedGrad(t *tensor.Tensor, add bool, low tensor.DType) (g kernel.MixedGrad) {
	if t != nil {
		g = kernel.MixedGrad{Mixed4: mixed4(t, low), Add: add}
	}
	return g
}

func (o attentionOp) forwardMixed(f *autograd.Fwd) {
	y := &f.Out[0]
	low := y.DType()
	a := &kernel.MixedAttention{
		AttentionPlan: o.plan(func(i int) tensor.Spec { return f.In[i].Spec() }),
		Q:             mixed4(&f.In[0], low), K: mixed4(&f.In[1], low), V: mixed4(&f.In[2], low),
		Out: mixed4(y, low), LSE: optional[float32](&f.Out[1]),
		Words: kernel.Words{Seed: f.Rand.Seed, Stream: f.Rand.ID, Offset: f.Rand.Offset},
	}
	f.Par(a.RowChunks(), func(lane, c int) { a.Forward(f.Lane(lane), c) })
}

func (o attentionOp) backwardMixed(b *autograd.Bwd) {
	low := b.OutSpec(0).DType
	dq, addQ := b.Into(0)
	dk, addK := b.Into(1)
	dv, addV := b.Into(2)
	a := kernel.MixedAttention{
		AttentionPlan: o.plan(b.InSpec), Q: mixed4(b.In(0), low), K: mixed4(b.In(1), low),
		Grad: mixed4(b.Grad(0), low), LSE: tensor.Data[float32](b.Out(1)),
		DQ: mixedGrad(dq, addQ, low), DK: mixedGrad(dk, addK, low), DV: mixedGrad(dv, addV, low),
		Words: kernel.Words{Seed: b.Rand.Seed, Stream: b.Rand.ID, Offset: b.Rand.Offset},
	}
	if dq != nil || dk != nil {
		a.V, a.Out, a.Delta = mixed4(b.In(2), low), mixed4(b.Out(0), low), kernel.View[float32](b.Shared())
		b.Par(a.DeltaChunks(), func(lane, c int) { a.Deltas(b.Lane(lane), c) })
	}
	apart := overlap(dq, dk) || overlap(dq, dv) || overlap(dk, dv)
	if dq != nil && (dk != nil || dv != nil) && a.Together() && !apart {
		b.Par(a.HeadChunks(), func(lane, c int) { a.BackwardHeads(b.Lane(lane), c) })
		return
	}
	if dq != nil {
		b.Par(a.RowChunks(), func(lane, c int) { a.BackwardRows(b.Lane(lane), c) })
	}
	k, v := a, a
	switch {
	case apart && dk != nil && dv != nil:
		k.DV, v.DK = kernel.MixedGrad{}, kernel.MixedGrad{}
		mixedColumns(b, k)
		mixedColumns(b, v)
	case dk != nil || dv != nil:
		mixedColumns(b, a)
	}
}

// mixedColumns is the gradients of k and v, of those that a wants.
func mixedColumns(b *autograd.Bwd, a kernel.MixedAttention) {
	if !a.DK.Wanted() {
		a.V = kernel.Mixed4{} // read for the gradient of k only
	}
	b.Par(a.ColumnChunks(), func(lane, c int) { a.BackwardColumns(b.Lane(lane), c) })
}
