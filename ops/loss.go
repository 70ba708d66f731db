package ops

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// Losses of an input x and a target t of one shape, element by element and summed in one node, d = x - t:
//
//	mse              d^2
//	l1               |d|
//	smooth_l1        d^2/2/beta where |d| < beta, |d| - beta/2 elsewhere
//	bce_with_logits  max(x,0) - x t + log(1 + exp(-|x|))
//	kl_div           t log t - t x
//
// Saved, for the gradient of either: x and t. The gradient of bce_with_logits in t reads x alone, that of kl_div in x reads
// t alone. There is no tensor of single losses between. Shapes must be equal: torch broadcasts, and [N] against [N 1] then
// trains on all pairs.

// Reduction says what a loss makes of the losses of single elements, or rows. The zero value is the mean, torch's default.
type Reduction uint8

// The reductions of losses.
const (
	ReduceMean      Reduction = iota // the mean over all that count; NaN if nothing does
	ReduceSum                        // the sum; 0 if nothing counts
	ReduceNone                       // each loss by itself
	ReduceBatchMean                  // the sum divided by the size of the first dimension: KLDiv only
)

var reductionNames = [...]string{"mean", "sum", "none", "batchmean"}

// String is torch's name.
func (r Reduction) String() string {
	if int(r) < len(reductionNames) {
		return reductionNames[r]
	}
	return fmt.Sprintf("reduction(%d)", uint8(r))
}

// MSELoss gives the mean of (x - target)^2, or what reduction says. x and target are of a float dtype, of one shape, which
// is also that of the result under ReduceNone. Gradients go to both. Saved are x and target.
func MSELoss(s *autograd.Scope, x, target *autograd.Value, reduction ...Reduction) *autograd.Value {
	return applyLoss(s, lossOp{kind: kernel.LossSquared}, x, target, reduction)
}

// L1Loss gives the mean of |x - target|, otherwise as [MSELoss]. Where the two are equal the gradient is 0; where one is
// NaN it is NaN (torch's is 0).
func L1Loss(s *autograd.Scope, x, target *autograd.Value, reduction ...Reduction) *autograd.Value {
	return applyLoss(s, lossOp{kind: kernel.LossAbsolute}, x, target, reduction)
}

// SmoothL1Loss gives the mean of |x - target| - beta/2, rounded off to a parabola where |x - target| < beta, otherwise as
// [MSELoss]. beta is 0 or more; torch's default is 1, and 0 makes it [L1Loss]. torch's huber_loss is beta times this.
func SmoothL1Loss(s *autograd.Scope, x, target *autograd.Value, beta float64, reduction ...Reduction) *autograd.Value {
	return applyLoss(s, lossOp{kind: kernel.LossSmooth, beta: beta}, x, target, reduction)
}

// BCEWithLogits gives the mean binary cross-entropy of the probabilities sigmoid(x) with target, numbers from 0 to 1,
// otherwise as [MSELoss] (torch's binary_cross_entropy_with_logits, without weights). It neither overflows nor loses small
// losses, as a sigmoid followed by a logarithm would.
func BCEWithLogits(s *autograd.Scope, x, target *autograd.Value, reduction ...Reduction) *autograd.Value {
	return applyLoss(s, lossOp{kind: kernel.LossLogistic}, x, target, reduction)
}

// KLDiv gives the Kullback-Leibler divergence of the distribution target from that whose logarithms x holds: the mean of
// target (log target - x), otherwise as [MSELoss]. A target of 0 has loss 0 and gradient 0, unless x is not finite there.
// As in torch the mean is over elements; the divergence as it is defined, one a row, is the ReduceBatchMean of [N C].
func KLDiv(s *autograd.Scope, x, target *autograd.Value, reduction ...Reduction) *autograd.Value {
	return applyLoss(s, lossOp{kind: kernel.LossDivergence}, x, target, reduction)
}

func applyLoss(s *autograd.Scope, o lossOp, x, target *autograd.Value, reduction []Reduction) *autograd.Value {
	o.reduction, o.given = ReduceMean, len(reduction)
	if o.given > 0 {
		o.reduction = reduction[0]
	}
	return autograd.Apply(s, o, x, target)
}

type lossOp struct {
	kind      kernel.Loss
	reduction Reduction
	given     int // reductions in the call
	beta      float64
}

var (
	mseRule = &autograd.Rule{Name: "mse_loss", Cast: autograd.CastFull, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1)}, {autograd.In(0), autograd.In(1)}}}
	l1Rule = &autograd.Rule{Name: "l1_loss", Cast: autograd.CastFull, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1)}, {autograd.In(0), autograd.In(1)}}}
	smoothL1Rule = &autograd.Rule{Name: "smooth_l1_loss", Cast: autograd.CastFull, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1)}, {autograd.In(0), autograd.In(1)}}}
	bceRule = &autograd.Rule{Name: "bce_with_logits", Cast: autograd.CastFull, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1)}, {autograd.In(0)}}}
	klDivRule = &autograd.Rule{Name: "kl_div", Cast: autograd.CastFull, Reads: [][]autograd.Ref{
		{autograd.In(1)}, {autograd.In(0), autograd.In(1)}}}
)

// lossRules has a rule for each loss.
var lossRules = [...]*autograd.Rule{
	kernel.LossSquared: mseRule, kernel.LossAbsolute: l1Rule, kernel.LossSmooth: smoothL1Rule, kernel.LossLogistic: bceRule,
	kernel.LossDivergence: klDivRule,
}

func (o lossOp) Rule() *autograd.Rule { return lossRules[o.kind] }

func (o lossOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x := in[0]
	if err := wantFloats(in...); err != nil {
		return err
	}
	if !slices.Equal(x.Shape, in[1].Shape) {
		return errors.New("want input and target of equal shapes")
	}
	if !(o.beta >= 0) {
		return fmt.Errorf("want beta of 0 or more, got %v", o.beta)
	}
	if o.given > 1 {
		return fmt.Errorf("want one reduction, got %d", o.given)
	}
	sh.Chunks = kernel.Chunks(x.Elems())
	sh.BwdChunks = sh.Chunks
	switch {
	case o.reduction == ReduceNone:
		sh.Like(x)
		return nil
	case o.reduction == ReduceBatchMean && o.kind == kernel.LossDivergence:
		if x.Rank() == 0 {
			return errors.New("want [N ...] for batchmean, got a scalar")
		}
	case o.reduction > ReduceSum:
		return fmt.Errorf("want reduction mean, sum or none, got %s", o.reduction)
	}
	sh.Add(x.DType)
	sh.Shared = int64(sh.Chunks) * 8
	return nil
}

// share is what a loss is multiplied by in the result.
func (r Reduction) share(x tensor.Spec) float64 {
	switch r {
	case ReduceMean:
		return 1 / float64(x.Elems())
	case ReduceBatchMean:
		return 1 / float64(x.Dim(0))
	}
	return 1
}

func (o lossOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), lossForward[float32], lossForward[float64])(o, f)
}

func lossForward[T kernel.Float](o lossOp, f *autograd.Fwd) {
	x, t, y := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.In[1]), tensor.Data[T](&f.Out[0])
	if o.reduction == ReduceNone {
		f.Par(kernel.Chunks(len(x)), func(_, c int) {
			lo, hi := kernel.Range(len(x), c)
			kernel.LossEach(o.kind, y[lo:hi], x[lo:hi], t[lo:hi], o.beta)
		})
		return
	}
	parts := kernel.View[float64](f.Shared())
	f.Par(kernel.Chunks(len(x)), func(_, c int) {
		lo, hi := kernel.Range(len(x), c)
		parts[c] = kernel.LossSum(o.kind, x[lo:hi], t[lo:hi], o.beta)
	})
	y[0] = T(kernel.SumParts(parts[:kernel.Chunks(len(x))]) * o.reduction.share(f.In[0].Spec()))
}

func (o lossOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, lossBackward[float32], lossBackward[float64])(o, b)
}

func lossBackward[T kernel.Float](o lossOp, b *autograd.Bwd) {
	g, scale := tensor.Data[T](b.Grad(0)), 1.0
	if o.reduction != ReduceNone {
		g, scale = nil, float64(g[0])*o.reduction.share(b.InSpec(0))
	}
	n := b.InSpec(0).Elems()
	if dst, add := b.Into(0); dst != nil {
		var x []T
		if o.kind != kernel.LossDivergence {
			x = tensor.Data[T](b.In(0))
		}
		dx, t := tensor.Data[T](dst), tensor.Data[T](b.In(1))
		b.Par(kernel.Chunks(n), func(_, c int) {
			lo, hi := kernel.Range(n, c)
			kernel.LossBackward(o.kind, dx[lo:hi], add, kernel.Cut(g, lo, hi), scale, kernel.Cut(x, lo, hi), t[lo:hi], o.beta)
		})
	}
	if dst, add := b.Into(1); dst != nil {
		var t []T
		if o.kind != kernel.LossLogistic {
			t = tensor.Data[T](b.In(1))
		}
		dt, x := tensor.Data[T](dst), tensor.Data[T](b.In(0))
		b.Par(kernel.Chunks(n), func(_, c int) {
			lo, hi := kernel.Range(n, c)
			kernel.LossBackwardTarget(o.kind, dt[lo:hi], add, kernel.Cut(g, lo, hi), scale, x[lo:hi], kernel.Cut(t, lo, hi), o.beta)
		})
	}
}
