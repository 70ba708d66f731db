package ops

import (
	"errors"
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// scaled_dot_product_attention in tiles with an online softmax (Dao et al., "FlashAttention", 2022): per batch entry and
// head,
//
//	s = scale q k^T + mask     p = softmax(s) over the keys that take part     out = (p m) v     m: dropout's mask
//
//	p  = exp(s - lse)          ds = p (m (g v^T) - delta)     delta = rowsum(g out)
//	dq = scale ds k            dk = scale ds^T q              dv = (p m)^T g            dmask = ds
//
// Neither s nor p ever exists as a whole: what is made of them is one tile a lane, in scratch. The gradients of k and v
// are summed over the heads that share them, that of a mask over what it was repeated for.
//
// Saved: q, k, v, out, and in a hidden output the log-sum-exp of each row, from which p is computed again; for dv alone
// q, k and log-sum-exp are enough. Dropout's m is drawn again. No number of this grows with queries times keys.

// Align says where the diagonal of causal attention lies if there are not as many keys as queries.
type Align uint8

const (
	// AlignNone says nothing: there must be as many keys as queries.
	AlignNone Align = iota
	// AlignTopLeft lets query i see keys 0 to i: torch's is_causal.
	AlignTopLeft
	// AlignBottomRight lets the last query see all keys, and each one before it one fewer: queries that go on behind keys
	// in a cache. With more queries than keys the first queries see nothing.
	AlignBottomRight
)

// AttentionConfig are the options of [Attention]. The zero value is plain attention of each query to all keys.
type AttentionConfig struct {
	Causal bool  // no query sees a later key
	Align  Align // required with Causal where there are not as many keys as queries

	// Mask broadcasts to [B Hq T S] and may have any strides: of dtype Bool, true takes part; of q's dtype, it is added to
	// the scores, and -Inf does not take part. With Causal, a pair takes part if both let it. nil: none.
	Mask *autograd.Value

	// Scale multiplies q k^T. 0: 1/sqrt(D).
	Scale float64

	// Dropout is the probability with which a weight p is zeroed, if s.Training(); the others are multiplied by
	// 1/(1-Dropout). Word ((b Hq + h) T + i) S + j of those that are drawn decides about query i and key j.
	Dropout float64
}

// Attention lets each query gather the values of the keys it is similar to: torch's scaled_dot_product_attention, as
// FlashAttention computes it, in memory that grows with T + S and not with T times S. q is [B T Hq D], k [B S Hkv D] and v
// [B S Hkv Dv], of one dtype, a float dtype; the result is [B T Hq Dv]. Views whose heads' elements lie side by
// side, cuts of one qkv buffer for example, are not copied, and neither are their gradients. (Torch's operands are
// [B H T D]: transpose dimensions 1 and 2.) Hq is a multiple of Hkv: consecutive query heads share one head of k and v, which is not repeated
// in memory. Saved are q, k, v, the result, and one number a query and head; where only v requires a gradient, q, k and
// the latter.
//
// A query that sees no key gives 0 and has no gradient. What a query does not see has no influence on it, even if it is
// NaN or Inf: hidden pairs are left out, where torch multiplies by 0. (Dropped weights multiply, as in [Dropout].)
//
// Where torch is different: causality and a mask may be combined; dropout follows s.Training(); causality with T != S
// must say which alignment it means; a scale of 0 is not available.
func Attention(s *autograd.Scope, q, k, v *autograd.Value, cfg AttentionConfig) *autograd.Value {
	o := attentionOp{causal: cfg.Causal, align: cfg.Align, scale: cfg.Scale, drop: cfg.Dropout, mask: cfg.Mask != nil}
	if validDropout(o.drop) && !s.Training() {
		o.drop = 0
	}
	if o.mask {
		return autograd.Apply(s, o, q, k, v, cfg.Mask)
	}
	return autograd.Apply(s, o, q, k, v)
}

type attentionOp struct {
	causal      bool
	align       Align
	scale, drop float64
	mask        bool
}

var (
	attentionRule = &autograd.Rule{
		Name: "scaled_dot_product_attention", Cast: autograd.CastLow, Random: true, Dear: true, Halves: true,
		Reads: [][]autograd.Ref{
			{autograd.In(0), autograd.In(1), autograd.In(2), autograd.Out(0), autograd.Out(1)},
			{autograd.In(0), autograd.In(1), autograd.In(2), autograd.Out(0), autograd.Out(1)},
			{autograd.In(0), autograd.In(1), autograd.Out(1)},
		},
	}
	attentionMaskRule = &autograd.Rule{
		Name: "scaled_dot_product_attention", Cast: autograd.CastLow, Random: true, Dear: true,
		Reads: [][]autograd.Ref{
			{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.Out(0), autograd.Out(1)},
			{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.Out(0), autograd.Out(1)},
			{autograd.In(0), autograd.In(1), autograd.In(3), autograd.Out(1)},
			{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.Out(0), autograd.Out(1)},
		},
	}
)

func (o attentionOp) Rule() *autograd.Rule {
	if o.mask {
		return attentionMaskRule
	}
	return attentionRule
}

// Takes is the engine's question whether q, k, v or the mask, or its gradient, can be worked on where it lies.
func (attentionOp) Takes(_ []tensor.Spec, i int, t *tensor.Tensor) bool {
	return i == 3 || kernel.AttentionTakes([4]int(t.Shape()), [4]int{t.Stride(0), t.Stride(1), t.Stride(2), t.Stride(3)})
}

func (o attentionOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if err := o.check(in); err != nil {
		return err
	}
	dt, err := o.dtype(in)
	if err != nil {
		return err
	}
	p := o.plan(func(i int) tensor.Spec { return in[i] })
	elem := dt.Size()
	sh.Add(dt, p.Batch, p.Queries, p.Heads, p.ValueDim)
	sh.Add(wideOf(dt), p.Batch, p.Queries, p.Heads)
	sh.Hidden = 1
	sh.Scratch, sh.Chunks = p.Scratch(elem), p.RowChunks()
	sh.BwdScratch, sh.BwdShared = p.BackwardScratch(elem), sh.Out[1].Bytes()
	sh.BwdChunks = max(p.DeltaChunks(), p.RowChunks(), p.ColumnChunks())
	if isHalf(dt) {
		sh.Scratch, sh.BwdScratch = p.MixedScratch(), p.MixedBackwardScratch()
	}
	if p.Additive {
		sh.BwdChunks = max(sh.BwdChunks, p.BiasChunks())
	}
	if o.drop > 0 {
		sh.Draws = uint64(p.Batch) * uint64(p.Heads) * uint64(p.Queries) * uint64(p.Keys)
	}
	return nil
}

// dtype is that of the result. Of masked attention the engine widens halves.
func (o attentionOp) dtype(in []tensor.Spec) (tensor.DType, error) {
	if o.mask {
		return in[0].DType, wantFloats(in[:3]...)
	}
	return wantFactors(in...)
}

func (o attentionOp) check(in []tensor.Spec) error {
	if _, err := o.dtype(in); err != nil {
		return err
	}
	q, k, v := in[0], in[1], in[2]
	if q.Rank() != 4 || k.Rank() != 4 || v.Rank() != 4 ||
		k.Dim(0) != q.Dim(0) || k.Dim(3) != q.Dim(3) || v.Dim(0) != q.Dim(0) || v.Dim(1) != k.Dim(1) || v.Dim(2) != k.Dim(2) {
		return errors.New("want q [B T Hq D], k [B S Hkv D] and v [B S Hkv Dv]")
	}
	if hq, hkv := q.Dim(2), k.Dim(2); hq != 0 && (hkv == 0 || hq%hkv != 0) {
		return fmt.Errorf("%d heads of q and %d of k: want a multiple", hq, hkv)
	}
	if err := o.checkOptions(q.Dim(1), k.Dim(1)); err != nil {
		return err
	}
	if !o.mask {
		return nil
	}
	m, to := in[3], [4]int{q.Dim(0), q.Dim(2), q.Dim(1), k.Dim(1)}
	switch {
	case m.DType != tensor.Bool && m.DType != q.DType:
		return fmt.Errorf("want a bool mask, true for what takes part, or a %s one to add; got %s", q.DType, m.DType)
	case !tensor.BroadcastTo(m.Shape, to[:]):
		return fmt.Errorf("want a mask that broadcasts to [B Hq T S], here %v", to)
	}
	return nil
}

// checkOptions is what the options must be for that many queries and keys.
func (o attentionOp) checkOptions(queries, keys int) error {
	switch {
	case o.align > AlignBottomRight:
		return fmt.Errorf("unknown Align %d: want AlignTopLeft or AlignBottomRight", o.align)
	case o.align != AlignNone && !o.causal:
		return errors.New("Align without Causal: want both, or neither")
	case o.causal && o.align == AlignNone && queries != keys:
		return fmt.Errorf("causal attention of %d queries to %d keys: want AlignTopLeft, where query i sees keys 0 to i, "+
			"or AlignBottomRight, where the last query sees all", queries, keys)
	case math.IsNaN(o.scale) || math.IsInf(o.scale, 0):
		return fmt.Errorf("want a finite scale, got %v", o.scale)
	case !validDropout(o.drop):
		return fmt.Errorf("want a dropout probability from 0 to 1, got %v", o.drop)
	}
	return nil
}

// plan is what the kernels want to know, from the inputs' specs.
func (o attentionOp) plan(in func(int) tensor.Spec) kernel.AttentionPlan {
	q, k := in(0), in(1)
	p := kernel.AttentionPlan{
		Batch: q.Dim(0), Queries: q.Dim(1), Keys: k.Dim(1), Heads: q.Dim(2), Groups: k.Dim(2), Dim: q.Dim(3), ValueDim: in(2).Dim(3),
		Scale: o.scale, Causal: o.causal, Drop: o.drop,
	}
	if o.scale == 0 {
		p.Scale = 1 / math.Sqrt(float64(max(1, p.Dim)))
	}
	if o.align == AlignBottomRight {
		p.Shift = p.Keys - p.Queries
	}
	if o.mask && in(3).DType.IsFloat() {
		p.Additive, p.BiasShape = true, maskShape(in(3))
	}
	return p
}

// maskShape is a mask's shape with leading ones.
func maskShape(m tensor.Spec) (shape [4]int) {
	for d := range shape {
		shape[d] = sizeAt(m.Shape, d-4)
	}
	return shape
}

// rank4 shows t, of up to four dimensions, to a kernel that walks over four. Where t has size 1, or no dimension, the stride
// is 0, and t may be repeated.
func rank4[T tensor.Elem](t *tensor.Tensor) kernel.Rank4[T] {
	x := kernel.Rank4[T]{Data: tensor.Raw[T](t)}
	for d, n := range t.Shape() {
		if n != 1 {
			x.Strides[4-t.Rank()+d] = t.Stride(d)
		}
	}
	return x
}

// attentionOf is the part of a call that forward and backward share: all but v.
func attentionOf[T kernel.Float](p kernel.AttentionPlan, q, k, mask *tensor.Tensor, rand tensor.Stream) *kernel.Attention[T] {
	a := &kernel.Attention[T]{AttentionPlan: p, Q: rank4[T](q), K: rank4[T](k)}
	if mask != nil && p.Additive {
		a.Bias = rank4[T](mask)
	} else if mask != nil {
		a.Mask = rank4[bool](mask)
	}
	a.Words = kernel.Words{Seed: rand.Seed, Stream: rand.ID, Offset: rand.Offset}
	return a
}

func (o attentionOp) Forward(f *autograd.Fwd) {
	if isHalf(f.Out[0].DType()) {
		o.forwardMixed(f)
		return
	}
	byFloat(f.Out[0].DType(), attentionForward[float32], attentionForward[float64])(o, f)
}

func attentionForward[T kernel.Float](o attentionOp, f *autograd.Fwd) {
	var mask *tensor.Tensor
	if o.mask {
		mask = &f.In[3]
	}
	p := o.plan(func(i int) tensor.Spec { return f.In[i].Spec() })
	a := attentionOf[T](p, &f.In[0], &f.In[1], mask, f.Rand)
	a.V = rank4[T](&f.In[2])
	a.Out, a.LSE = tensor.Data[T](&f.Out[0]), optional[T](&f.Out[1])
	f.Par(a.RowChunks(), func(lane, c int) { a.Forward(f.Lane(lane), c) })
}

func (o attentionOp) Backward(b *autograd.Bwd) {
	if isHalf(b.OutSpec(0).DType) {
		o.backwardMixed(b)
		return
	}
	byFloat(b.OutSpec(0).DType, attentionBackward[float32], attentionBackward[float64])(o, b)
}

func attentionBackward[T kernel.Float](o attentionOp, b *autograd.Bwd) {
	var mask, dmask *tensor.Tensor
	var addMask bool
	if o.mask {
		mask = b.In(3)
		dmask, addMask = b.Into(3)
	}
	a := attentionOf[T](o.plan(b.InSpec), b.In(0), b.In(1), mask, b.Rand)
	a.LSE, a.Grad = tensor.Data[T](b.Out(1)), tensor.Data[T](b.Grad(0))
	dq, addQ := b.Into(0)
	dk, addK := b.Into(1)
	dv, addV := b.Into(2)
	a.DQ, a.DK, a.DV, a.DBias = attentionGrad[T](dq, addQ), attentionGrad[T](dk, addK), attentionGrad[T](dv, addV), attentionGrad[T](dmask, addMask)
	if dq != nil || dk != nil || dmask != nil {
		a.V, a.Out, a.Delta = rank4[T](b.In(2)), tensor.Data[T](b.Out(0)), kernel.View[T](b.Shared())
		b.Par(a.DeltaChunks(), func(_, c int) { a.Deltas(c) })
	}
	attentionGradients(b, a, overlap(dq, dk) || overlap(dq, dv) || overlap(dk, dv))
	if dmask != nil {
		b.Par(a.BiasChunks(), func(lane, c int) { a.BackwardBias(b.Lane(lane), c) })
	}
}

func attentionGrad[T kernel.Float](dst *tensor.Tensor, add bool) (g kernel.AttentionGrad[T]) {
	if dst != nil {
		g.Rank4, g.Add = rank4[T](dst), add
	}
	return g
}

// overlap says that two gradients lie, in part, on one place: of inputs that are one value, or cuts of one.
func overlap(a, b *tensor.Tensor) bool { return a != nil && b != nil && a.Overlaps(b) }

// attentionGradients is those of q, k and v. Where they overlap, each is made by itself: what one makes, chunks write
// apart from each other, in their order.
func attentionGradients[T kernel.Float](b *autograd.Bwd, a *kernel.Attention[T], overlap bool) {
	keys := a.DK.Wanted() || a.DV.Wanted()
	if a.DQ.Wanted() && keys && a.Together() && !overlap {
		b.Par(a.HeadChunks(), func(lane, c int) { a.BackwardHeads(b.Lane(lane), c) })
		return
	}
	if a.DQ.Wanted() {
		b.Par(a.RowChunks(), func(lane, c int) { a.BackwardRows(b.Lane(lane), c) })
	}
	if !keys {
		return
	}
	if !overlap || !a.DK.Wanted() || !a.DV.Wanted() {
		attentionColumns(b, *a)
		return
	}
	k, v := *a, *a
	k.DV, v.DK = kernel.AttentionGrad[T]{}, kernel.AttentionGrad[T]{}
	attentionColumns(b, k)
	attentionColumns(b, v)
}

// attentionColumns is the gradients of k and v, of those that a wants.
func attentionColumns[T kernel.Float](b *autograd.Bwd, a kernel.Attention[T]) {
	if !a.DK.Wanted() {
		a.V = kernel.Rank4[T]{} // read for the gradient of k only
	}
	b.Par(a.ColumnChunks(), func(lane, c int) { a.BackwardColumns(b.Lane(lane), c) })
}
