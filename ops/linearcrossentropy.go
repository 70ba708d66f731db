package ops

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// linear_cross_entropy: the loss of a language model's head, cross_entropy(x w^T + b, targets), in pieces. The logits of
// one piece are scratch; those of all rows, for 4,096 tokens and 50,257 words 0.8 GB, never exist.
//
//	z = x w^T + b      loss, dz as in cross_entropy (crossentropy.go)
//	dx = dz w          dw = dz^T x          db = the column sums of dz          each summed over the pieces
//
// There are two forms, for the logits of a piece are gone when the next one comes:
//
//	apart      Forward leaves one number a row, lse. Backward makes the logits of each piece again: four products
//	           where there were three. A piece has all rows, as far as the bound allows, and some classes. The upstream
//	           factor multiplies dz.
//	one sweep  Forward goes on to dx, dw and db while it has the logits, in hidden outputs. A piece has some rows and all
//	           classes. Backward multiplies the gradients by the upstream factor where they lie (Rule.Over). No product
//	           is made twice, and x need not be kept; what is lost if Backward never comes is the time of two products.
//
// In neither form is anything added to a gradient before Backward. (Wijmans et al., 2024; Hsu et al., 2024.)
//
// Bits: each element of z is the sum that Linear makes, and lse what CrossEntropy makes of it. dx and dw are sums over the
// pieces, which are cut between the blocks that Linear adds up (atOnce): they are its sums too, if the bound leaves room for
// one block of rows. db and the sum of the losses are, to rounding; that of the losses is in order of rows, the same in both
// forms. The one-sweep form rounds once more where the upstream factor is no power of two.

// LinearCrossEntropy gives CrossEntropy(Linear(x, w, b), targets) without making the logits of all rows: x is [... K], w
// [N K] with one row for each of N classes, b [N] or nil, targets [...]. Dtypes and options are those of [CrossEntropy],
// and [LogitsBytes] and [OneSweep] besides. w may be tied: the gradients of a parameter that is also the weight of an
// [Embedding] add up in its one buffer.
//
// Where forward and backward are apart, x, targets, class weights and one number a row are saved, and backward makes the
// logits again. In one sweep the gradients themselves are made in forward and kept, instead of x and the rest, until
// Backward comes or the step ends. By default it is one sweep where that costs no memory (see [OneSweep]).
func LinearCrossEntropy(s *autograd.Scope, x, w, b, targets *autograd.Value, opts ...LinearCrossEntropyOption) *autograd.Value {
	c := headCall{op: headOp{loss: crossEntropyOp{ignore: IgnoreIndex}, bytes: DefaultLogitsBytes}}
	for _, o := range opts {
		o.linearCrossEntropy(&c)
	}
	in := []*autograd.Value{x, w, targets}
	if c.op.bias = b != nil; b != nil {
		in = append(in, b)
	}
	if c.weights != nil {
		in = append(in, c.weights)
	}
	c.op.chooseForm(s, c.sweep, x, w, b)
	return autograd.Apply(s, c.op, in...)
}

// LinearCrossEntropyOption changes what [LinearCrossEntropy] does: any [CrossEntropyOption], [LogitsBytes], [OneSweep].
type LinearCrossEntropyOption interface{ linearCrossEntropy(c *headCall) }

// headCall is what options set.
type headCall struct {
	op      headOp
	weights *autograd.Value
	sweep   *bool // nil: not said
}

// LogitsBytes bounds the logits that exist at once. At least those of one row do, in one sweep, and of one row and about a
// thousand classes where forward and backward are apart. Where more would gain nothing, fewer are made.
type LogitsBytes int64

// DefaultLogitsBytes is the bound if [LogitsBytes] is not given. One sweep over 50,000 words takes 246 rows at a time then.
const DefaultLogitsBytes LogitsBytes = 48 << 20

// OneSweep(true) computes gradients in forward, OneSweep(false) in backward. It takes the mean or the sum of the losses.
//
// Without this option it is true where the gradient of w then takes no buffer of its own: it becomes w's gradient. It is
// false for a parameter whose gradients are accumulated over several backward passes (see Param.Accumulated), unless it is
// small against [LogitsBytes], and where the losses are not reduced.
type OneSweep bool

func (o OneSweep) linearCrossEntropy(c *headCall) {
	sweep := bool(o)
	c.sweep = &sweep
}

func (n LogitsBytes) linearCrossEntropy(c *headCall) { c.op.bytes = n }

func (r Reduction) linearCrossEntropy(c *headCall)      { c.option(r) }
func (t IgnoreTarget) linearCrossEntropy(c *headCall)   { c.option(t) }
func (v LabelSmoothing) linearCrossEntropy(c *headCall) { c.option(v) }
func (o classWeights) linearCrossEntropy(c *headCall)   { c.option(o) }

// option sets one of CrossEntropy's.
func (c *headCall) option(o CrossEntropyOption) {
	k := crossEntropyCall{op: c.op.loss, weights: c.weights}
	o.crossEntropy(&k)
	c.op.loss, c.weights = k.op, k.weights
}

type headOp struct {
	loss  crossEntropyOp
	bytes LogitsBytes
	bias  bool
	sweep bool
	// In one sweep, the gradients that are wanted.
	dx, dw, db bool
}

// chooseForm decides by configuration alone, so that a recomputed forward chooses the same.
func (o *headOp) chooseForm(s *autograd.Scope, said *bool, x, w, b *autograd.Value) {
	wants := func(v *autograd.Value) bool { return v != nil && v.RequiresGrad() }
	o.dx, o.dw, o.db = wants(x), wants(w), wants(b)
	switch {
	case s.Modes().NoGrad || !o.dx && !o.dw && !o.db:
	case said != nil:
		o.sweep = *said
	case o.loss.reduction == ReduceNone:
	default:
		p := w.Param()
		o.sweep = !o.dw || p == nil || !p.Accumulated() || w.Spec().Bytes() <= int64(o.bytes)/12
	}
}

// Inputs are x, w, targets, then the bias and the class weights, each if there is one. The last hidden outputs of one
// sweep are the gradients of x, w and the bias, empty where not wanted.
var (
	headRule = &autograd.Rule{Name: "linear_cross_entropy", Cast: autograd.CastFull, Dear: true, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.Out(1)},
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.Out(1)},
	}}
	headBiasRule = &autograd.Rule{Name: "linear_cross_entropy", Cast: autograd.CastFull, Dear: true, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.Out(1)},
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.Out(1)},
		{},
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.Out(1)},
	}}
	headWeightedRule = &autograd.Rule{Name: "linear_cross_entropy", Cast: autograd.CastFull, Dear: true, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.Out(1)},
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.Out(1)},
	}}
	headBiasWeightedRule = &autograd.Rule{Name: "linear_cross_entropy", Cast: autograd.CastFull, Dear: true, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.In(4), autograd.Out(1)},
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.In(4), autograd.Out(1)},
		{},
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3), autograd.In(4), autograd.Out(1)},
	}}
	headSweepRule = &autograd.Rule{
		Name: "linear_cross_entropy", Cast: autograd.CastFull, Dear: true,
		Reads: [][]autograd.Ref{{autograd.Out(1)}, {autograd.Out(2)}, {}, {autograd.Out(3)}},
		Over:  [][]autograd.Ref{{autograd.Out(1)}, {autograd.Out(2)}, {}, {autograd.Out(3)}},
	}
)

func (o headOp) Rule() *autograd.Rule {
	switch {
	case o.sweep:
		return headSweepRule
	case o.bias && o.loss.weighted:
		return headBiasWeightedRule
	case o.bias:
		return headBiasRule
	case o.loss.weighted:
		return headWeightedRule
	}
	return headRule
}

func (o headOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x, w, targets := in[0], in[1], in[2]
	if err := o.check(in); err != nil {
		return err
	}
	if o.loss.reduction == ReduceNone {
		sh.Add(x.DType, targets.Shape...)
	} else {
		sh.Add(x.DType)
	}
	c := o.cut(x, w)
	c.losses(x.DType, &sh.Scratch, &sh.Shared, &sh.Chunks)
	if !o.sweep {
		sh.Add(x.DType, c.rows)
		sh.Hidden = 1
		c.gradients(x.DType, o.bias, &sh.BwdScratch, &sh.BwdShared, &sh.BwdChunks)
		return nil
	}
	c.gradients(x.DType, o.bias, &sh.Scratch, &sh.Shared, &sh.Chunks)
	sh.Hidden = 2
	addIf(sh, x, o.dx)
	addIf(sh, w, o.dw)
	if o.bias {
		sh.Hidden = 3
		addIf(sh, in[3], o.db)
	}
	for _, s := range sh.Out[1:] {
		sh.BwdChunks = max(sh.BwdChunks, kernel.Chunks(s.Elems()))
	}
	return nil
}

// addIf appends an output of the given spec, or an empty one.
func addIf(sh *autograd.Shapes, s tensor.Spec, wanted bool) {
	if wanted {
		sh.Like(s)
		return
	}
	sh.Add(s.DType, 0)
}

func (o headOp) check(in []tensor.Spec) error {
	x, w, targets := in[0], in[1], in[2]
	if err := wantFloats(x, w); err != nil {
		return err
	}
	if err := wantIndex("targets", targets); err != nil {
		return err
	}
	if x.Rank() < 1 || w.Rank() != 2 || x.Dim(-1) != w.Dim(1) || !slices.Equal(x.Shape[:x.Rank()-1], targets.Shape) {
		return errors.New("want x [... K], weight [N K] and targets [...]")
	}
	switch {
	case o.bytes <= 0:
		return fmt.Errorf("LogitsBytes is %d: want 1 or more", o.bytes)
	case o.sweep && o.loss.reduction == ReduceNone:
		return errors.New("OneSweep with losses that are not reduced: want the mean or the sum, or OneSweep(false)")
	}
	loss := []tensor.Spec{{DType: x.DType, Shape: []int{w.Dim(0)}}, targets}
	if o.loss.weighted {
		loss = append(loss, in[len(in)-1])
	}
	if err := o.loss.check(loss); err != nil || !o.bias {
		return err
	}
	if b := in[3]; b.Rank() != 1 || b.Dim(0) != w.Dim(0) {
		return fmt.Errorf("want bias [%d], as many as the weight has rows", w.Dim(0))
	}
	return wantFloats(x, in[3])
}

func (o headOp) Forward(f *autograd.Fwd) {
	byFloat(f.In[0].DType(),
		byIndex(f.In[2].DType(), headForward[float32, int32], headForward[float32, int64]),
		byIndex(f.In[2].DType(), headForward[float64, int32], headForward[float64, int64]))(o, f)
}

func headForward[T kernel.Float, I kernel.Index](o headOp, f *autograd.Fwd) {
	h := newHead[T, I](o, &f.Run, func(i int) *tensor.Tensor { return &f.In[i] })
	if i := slices.IndexFunc(h.targets, func(t I) bool { return int64(t) != o.loss.ignore && (t < 0 || int64(t) >= int64(h.classes)) }); i >= 0 {
		f.Fail(o.loss.badTarget(place(i, f.In[2].Shape()), int64(h.targets[i]), h.classes))
	}
	n := 1.0
	if o.loss.reduction == ReduceMean {
		n = counted(h.targets, o.loss.ignore, h.loss.Weight)
	}
	y := tensor.Data[T](&f.Out[0])
	switch {
	case o.sweep:
		h.scale = 1 / n
		h.dx, h.dw = optional[T](&f.Out[1]), optional[T](&f.Out[2])
		if o.db {
			h.db = optional[T](&f.Out[3])
		}
		y[0] = T(h.forward(nil, nil, true) / n)
	case o.loss.reduction == ReduceNone:
		h.forward(y, optional[T](&f.Out[1]), false)
	default:
		y[0] = T(h.forward(nil, optional[T](&f.Out[1]), false) / n)
	}
}

func (o headOp) Backward(b *autograd.Bwd) {
	dt := b.InSpec(2).DType
	switch {
	case o.sweep:
		byFloat(b.OutSpec(0).DType, headScale[float32], headScale[float64])(o, b)
	default:
		byFloat(b.OutSpec(0).DType,
			byIndex(dt, headBackward[float32, int32], headBackward[float32, int64]),
			byIndex(dt, headBackward[float64, int32], headBackward[float64, int64]))(o, b)
	}
}

// headScale multiplies what Forward left by the upstream factor.
func headScale[T kernel.Float](o headOp, b *autograd.Bwd) {
	g := tensor.Data[T](b.Grad(0))[0]
	for i, made := range o.made() {
		if !made {
			continue
		}
		dst, add := b.Into(headInputs[i])
		if dst == nil {
			continue
		}
		src := b.Out(1 + i)
		if !add && g == 1 && dst.Buffer() == src.Buffer() {
			continue
		}
		n, d, s := dst.Elems(), operand.Of[T](dst), operand.Of[T](src)
		b.Par(kernel.Chunks(n), func(_, c int) {
			lo, hi := kernel.Range(n, c)
			kernel.Scale(d, s, g, add, lo, hi)
		})
	}
}

// headInputs are the inputs whose gradients the hidden outputs of one sweep are.
var headInputs = [3]int{0, 1, 3}

func (o headOp) made() [3]bool { return [3]bool{o.dx, o.dw, o.db} }

func headBackward[T kernel.Float, I kernel.Index](o headOp, b *autograd.Bwd) {
	h := newHead[T, I](o, &b.Run, b.In)
	g := tensor.Data[T](b.Grad(0))
	if h.g, h.scale = g, 1; o.loss.reduction != ReduceNone {
		h.g, h.scale = nil, float64(g[0])
	}
	if o.loss.reduction == ReduceMean {
		h.scale /= counted(h.targets, o.loss.ignore, h.loss.Weight)
	}
	var dx, dw *tensor.Tensor
	dx, h.add[0] = b.Into(0)
	dw, h.add[1] = b.Into(1)
	h.dx, h.dw = optional[T](dx), optional[T](dw)
	if o.bias {
		var db *tensor.Tensor
		db, h.add[2] = b.Into(3)
		h.db = optional[T](db)
	}
	h.backward(tensor.Data[T](b.Out(1)))
}

// newHead is a call on the inputs that in gives.
func newHead[T kernel.Float, I kernel.Index](o headOp, r *autograd.Run, in func(i int) *tensor.Tensor) *head[T, I] {
	x, w := in(0), in(1)
	h := &head[T, I]{headCut: o.cut(x.Spec(), w.Spec())}
	h.x, h.w, h.targets = tensor.Data[T](x), tensor.Data[T](w), tensor.Data[I](in(2))
	next, weights := 3, []T(nil)
	if o.bias {
		h.bias, next = tensor.Data[T](in(next)), next+1
	}
	if o.loss.weighted {
		weights = tensor.Data[T](in(next))
	}
	h.loss = crossEntropyOptions(o.loss, weights)
	h.open(r, x.DType())
	return h
}
