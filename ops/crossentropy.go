package ops

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// cross_entropy of logits[... C] with one target class a row (the formula with options stands in
// internal/kernel/crossentropy.go):
//
//	lse[r] = log sum exp(logits[r])     loss[r] = lse[r] - logits[r][target]     0 in ignored rows
//
//	dlogits[r] = k (exp(logits[r] - lse[r]) - onehot(target))                    0 in ignored rows
//
// with k = g[r], g, or g/n for none, sum and mean over the n rows that count.
//
// Saved: logits, targets, class weights, and one number a row, lse, in a hidden output. A log-softmax would be another
// tensor as large as the logits, which are the largest of a language model.

// IgnoreIndex is the target of a row that does not count, as in torch, unless [IgnoreTarget] says otherwise.
const IgnoreIndex = -100

// CrossEntropy gives the mean cross-entropy, a scalar, of logits [... C], a float dtype, with targets [...], Int64 or
// Int32: classes from 0 to C-1, or [IgnoreIndex] for rows that do not count. Any other target is an error. Options are a
// [Reduction] (mean, sum, or none, which gives [...], 0 for rows that do not count), [IgnoreTarget], [LabelSmoothing] and
// [ClassWeights]. torch's layout [N C d1 ...] wants the classes moved to the end.
//
// If no row counts the mean is NaN (0/0), as in torch, rather than a 0 that looks like success; gradients are 0 then, so
// nothing is spoiled. Micro-batches that may be empty want the sum, divided by the count of the whole window.
//
// Saved are logits, targets, class weights if there are any, and one number a row.
func CrossEntropy(s *autograd.Scope, logits, targets *autograd.Value, opts ...CrossEntropyOption) *autograd.Value {
	c := crossEntropyCall{op: crossEntropyOp{ignore: IgnoreIndex}}
	for _, o := range opts {
		o.crossEntropy(&c)
	}
	if c.weights == nil {
		return autograd.Apply(s, c.op, logits, targets)
	}
	return autograd.Apply(s, c.op, logits, targets, c.weights)
}

// CrossEntropyOption changes what [CrossEntropy] does: a [Reduction], [IgnoreTarget], [LabelSmoothing] or [ClassWeights].
// All of them are options of [LinearCrossEntropy] too.
type CrossEntropyOption interface {
	LinearCrossEntropyOption
	crossEntropy(c *crossEntropyCall)
}

// crossEntropyCall is what options set.
type crossEntropyCall struct {
	op      crossEntropyOp
	weights *autograd.Value
}

// IgnoreTarget is the target of rows that do not count, in place of [IgnoreIndex]. It may be a class, such as padding.
type IgnoreTarget int64

// LabelSmoothing spreads that share, from 0 to 1, of each target evenly over all classes (Szegedy et al., 2015).
type LabelSmoothing float64

// ClassWeights multiplies the loss of each row by the weight of its target, one of w [C], of the logits' dtype; with label
// smoothing, each class's share by its own. The mean is divided by the weights of the targets that count. w must not
// require a gradient, and is saved.
func ClassWeights(w *autograd.Value) CrossEntropyOption { return classWeights{w} }

type classWeights struct{ w *autograd.Value }

func (r Reduction) crossEntropy(c *crossEntropyCall)      { c.op.reduction = r }
func (t IgnoreTarget) crossEntropy(c *crossEntropyCall)   { c.op.ignore = int64(t) }
func (v LabelSmoothing) crossEntropy(c *crossEntropyCall) { c.op.smoothing = float64(v) }

func (o classWeights) crossEntropy(c *crossEntropyCall) {
	c.weights, c.op.weighted = o.w, o.w != nil
	c.op.learned = o.w != nil && o.w.RequiresGrad()
}

type crossEntropyOp struct {
	reduction Reduction
	ignore    int64
	smoothing float64
	weighted  bool
	learned   bool // the weights require a gradient, which there is not
}

var (
	crossEntropyRule = &autograd.Rule{
		Name: "cross_entropy", Cast: autograd.CastFull,
		Reads: [][]autograd.Ref{{autograd.In(0), autograd.In(1), autograd.Out(1)}},
		Over:  [][]autograd.Ref{{autograd.In(0)}},
	}
	crossEntropyWeightedRule = &autograd.Rule{
		Name: "cross_entropy", Cast: autograd.CastFull,
		Reads: [][]autograd.Ref{{autograd.In(0), autograd.In(1), autograd.In(2), autograd.Out(1)}},
		Over:  [][]autograd.Ref{{autograd.In(0)}},
	}
)

func (o crossEntropyOp) Rule() *autograd.Rule {
	if o.weighted {
		return crossEntropyWeightedRule
	}
	return crossEntropyRule
}

func (o crossEntropyOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	logits, targets := in[0], in[1]
	if err := wantFloats(logits); err != nil {
		return err
	}
	if err := wantIndex("targets", targets); err != nil {
		return err
	}
	if logits.Rank() < 1 || !slices.Equal(logits.Shape[:logits.Rank()-1], targets.Shape) {
		return errors.New("want logits [... C] and targets [...]")
	}
	if err := o.check(in); err != nil {
		return err
	}
	rows, cols := matrix(logits, 1)
	if o.reduction == ReduceNone {
		sh.Add(logits.DType, targets.Shape...)
	} else {
		sh.Add(logits.DType)
	}
	sh.Add(logits.DType, rows)
	sh.Hidden = 1
	sh.Chunks = kernel.RowChunks(rows, cols)
	sh.Shared = int64(sh.Chunks) * kernel.CrossEntropyPart * 8
	sh.BwdChunks = sh.Chunks
	return nil
}

func (o crossEntropyOp) badTarget(at []int, target int64, classes int) error {
	return fmt.Errorf("row %v has target %d: want 0 to %d, one of %d classes, or %d to ignore the row", at, target, classes-1, classes, o.ignore)
}

// check refuses options that make no sense.
func (o crossEntropyOp) check(in []tensor.Spec) error {
	switch {
	case o.reduction > ReduceNone:
		return fmt.Errorf("want reduction mean, sum or none, got %s", o.reduction)
	case !(o.smoothing >= 0 && o.smoothing <= 1):
		return fmt.Errorf("want label smoothing from 0 to 1, got %v", o.smoothing)
	case !o.weighted:
		return nil
	case o.learned:
		return errors.New("class weights have no gradient: Detach them")
	}
	if w, c := in[2], in[0].Dim(-1); w.Rank() != 1 || w.Dim(0) != c {
		return fmt.Errorf("want class weights [%d], one a class", c)
	}
	return wantFloats(in[0], in[2])
}

// crossEntropyOptions are those of the kernel.
func crossEntropyOptions[T kernel.Float](o crossEntropyOp, weights []T) kernel.CrossEntropyOptions[T] {
	k := kernel.CrossEntropyOptions[T]{Ignore: o.ignore, Weight: weights, Smoothing: o.smoothing}
	if o.weighted && o.smoothing != 0 {
		k.SumWeights()
	}
	return k
}

func (o crossEntropyOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(),
		byIndex(f.In[1].DType(), crossEntropyForward[float32, int32], crossEntropyForward[float32, int64]),
		byIndex(f.In[1].DType(), crossEntropyForward[float64, int32], crossEntropyForward[float64, int64]))(o, f)
}

func crossEntropyForward[T kernel.Float, I kernel.Index](o crossEntropyOp, f *autograd.Fwd) {
	rows, cols := matrix(f.In[0].Spec(), 1)
	x, targets, y, lse := tensor.Data[T](&f.In[0]), tensor.Data[I](&f.In[1]), tensor.Data[T](&f.Out[0]), optional[T](&f.Out[1])
	parts, options := kernel.View[float64](f.Shared()), crossEntropyOptions(o, input[T](f, 2))
	var losses []T
	if o.reduction == ReduceNone {
		losses = y
	}
	f.Par(kernel.RowChunks(rows, cols), func(_, c int) {
		lo, hi := kernel.RowRange(rows, cols, c)
		part, k := parts[c*kernel.CrossEntropyPart:], options
		kernel.CrossEntropy(part, kernel.Cut(losses, lo, hi), kernel.Cut(lse, lo, hi), x[lo*cols:hi*cols], targets[lo:hi], cols, &k)
	})
	sum, n, bad := kernel.CrossEntropyFinish(parts, rows, cols)
	if bad >= 0 {
		f.Fail(o.badTarget(place(bad, f.In[1].Shape()), int64(targets[bad]), cols))
	}
	switch o.reduction {
	case ReduceMean:
		y[0] = T(sum / n)
	case ReduceSum:
		y[0] = T(sum)
	}
}

func (o crossEntropyOp) Backward(b *autograd.Bwd) {
	dt := b.InSpec(1).DType
	byFloat(b.OutSpec(0).DType,
		byIndex(dt, crossEntropyBackward[float32, int32], crossEntropyBackward[float32, int64]),
		byIndex(dt, crossEntropyBackward[float64, int32], crossEntropyBackward[float64, int64]))(o, b)
}

func crossEntropyBackward[T kernel.Float, I kernel.Index](o crossEntropyOp, b *autograd.Bwd) {
	rows, cols := matrix(b.InSpec(0), 1)
	dst, add := b.Into(0)
	dx, x, targets, lse := tensor.Data[T](dst), tensor.Data[T](b.In(0)), tensor.Data[I](b.In(1)), tensor.Data[T](b.Out(1))
	var weights []T
	if o.weighted {
		weights = tensor.Data[T](b.In(2))
	}
	g, scale := tensor.Data[T](b.Grad(0)), 1.0
	if o.reduction != ReduceNone {
		g, scale = nil, float64(g[0])
	}
	if o.reduction == ReduceMean {
		scale /= counted(targets, o.ignore, weights)
	}
	options := crossEntropyOptions(o, weights)
	b.Par(kernel.RowChunks(rows, cols), func(_, c int) {
		lo, hi := kernel.RowRange(rows, cols, c)
		k := options
		kernel.CrossEntropyBackward(
			dx[lo*cols:hi*cols], add, kernel.Cut(g, lo, hi), scale, x[lo*cols:hi*cols], lse[lo:hi], targets[lo:hi], cols, &k)
	})
}

// counted is what the mean divides by: the number of rows that count, or the weights of their targets.
func counted[T kernel.Float, I kernel.Index](targets []I, ignore int64, weights []T) (n float64) {
	for _, t := range targets {
		switch {
		case int64(t) == ignore:
		case weights == nil:
			n++
		default:
			n += float64(weights[t])
		}
	}
	return n
}
