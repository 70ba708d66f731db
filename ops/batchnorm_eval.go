package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// batch_norm of given statistics: y = (x - mean[c]) rstd[c] weight[c] + bias[c], rstd = 1/sqrt(variance + eps).
//
//	dx      = weight rstd g
//	dmean   = -weight rstd sum(g)             dvariance = -weight rstd^2 sum(g xhat) / 2      sums by channel
//	dweight = sum(g xhat)                     dbias = sum(g)
//
// Saved: for dx only weight and variance, [C] both. x only if weight or variance wants a gradient, so that a frozen layer
// keeps no activation.

// BatchNormEval normalizes each channel of x [N C ...] with the given mean and variance, [C] both: torch's batch_norm with
// training=False. weight and bias are [C], or nil: both, or bias alone. All are of one dtype, a float dtype; the
// result has x's shape. eps, 0 or more, is added to the variance (torch's default is 1e-5). mean and variance are inputs
// like others and may require gradients, which torch does not offer. Saved are weight and variance, and x and mean only if
// weight or variance requires a gradient.
func BatchNormEval(s *autograd.Scope, x, mean, variance, weight, bias *autograd.Value, eps float64) *autograd.Value {
	o := batchNormEvalOp{eps: eps, weight: weight != nil, bias: bias != nil}
	return autograd.Apply(s, o, withAffine(weight, bias, x, mean, variance)...)
}

type batchNormEvalOp struct {
	eps          float64
	weight, bias bool
}

var (
	batchNormEvalRule = &autograd.Rule{Name: "batch_norm_eval", Reads: [][]autograd.Ref{
		{autograd.In(2), autograd.In(3)},
		{autograd.In(2), autograd.In(3)},
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3)},
		{autograd.In(0), autograd.In(1), autograd.In(2)},
	}}
	batchNormEvalPlainRule = &autograd.Rule{Name: "batch_norm_eval", Reads: [][]autograd.Ref{
		{autograd.In(2)},
		{autograd.In(2)},
		{autograd.In(0), autograd.In(1), autograd.In(2)},
	}}
)

func (o batchNormEvalOp) Rule() *autograd.Rule {
	if o.weight {
		return batchNormEvalRule
	}
	return batchNormEvalPlainRule
}

func (o batchNormEvalOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if err := checkChannelNorm(in, 3, o.weight, o.bias, o.eps); err != nil {
		return err
	}
	x := in[0]
	n, c, p := channels(x)
	k := kernel.NewBatchNorm(n, c, p)
	sh.Like(x)
	sh.Shared = int64(2 * c * x.DType.Size())
	sh.BwdShared = batchNormShared(&k, 5*c, x.DType)
	sh.Chunks = k.RowChunks()
	sh.BwdChunks = max(k.Chunks(), k.RowChunks())
	return nil
}

func (o batchNormEvalOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), batchNormEvalForward[float32], batchNormEvalForward[float64])(o, f)
}

func batchNormEvalForward[T kernel.Float](o batchNormEvalOp, f *autograd.Fwd) {
	n, c, p := channels(f.In[0].Spec())
	k := kernel.NewBatchNorm(n, c, p)
	x, y, w, b := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0]), input[T](f, 3), input[T](f, 4)
	stats := kernel.View[T](f.Shared())
	kernel.BatchNormGiven(stats, tensor.Data[T](&f.In[1]), tensor.Data[T](&f.In[2]), o.eps)
	f.Par(k.RowChunks(), func(_, c int) { kernel.BatchNormApply(&k, y, x, stats, w, b, c) })
}

func (o batchNormEvalOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, batchNormEvalBackward[float32], batchNormEvalBackward[float64])(o, b)
}

func batchNormEvalBackward[T kernel.Float](o batchNormEvalOp, b *autograd.Bwd) {
	n, c, p := channels(b.InSpec(0))
	k := kernel.NewBatchNorm(n, c, p)
	g := tensor.Data[T](b.Grad(0))
	dst, add := b.Into(0)
	dmean, addM := b.Into(1)
	dvar, addV := b.Into(2)
	dw, db := affineGrads(b, 3, o.weight, o.bias)

	// What is not read for the gradients that are wanted is not there.
	var x, mean, variance, w []T
	xhat := dvar != nil || dw.dst != nil
	if xhat {
		x, mean = tensor.Data[T](b.In(0)), tensor.Data[T](b.In(1))
	}
	if xhat || dst != nil || dmean != nil {
		variance = tensor.Data[T](b.In(2))
	}
	if o.weight && (dst != nil || dmean != nil || dvar != nil) {
		w = tensor.Data[T](b.In(3))
	}
	room := behind[T](&b.Run, &k, 5*c)
	stats, factors := room[:2*c], room[2*c:]
	kernel.BatchNormGiven(stats, mean, variance, o.eps)

	if dst != nil {
		dx := tensor.Data[T](dst)
		kernel.BatchNormFactors(&k, factors, stats, w, nil)
		b.Par(k.RowChunks(), func(_, c int) { kernel.BatchNormBackward(&k, dx, add, g, nil, stats, factors, c) })
	}
	if dmean == nil && dvar == nil && dw.dst == nil && db.dst == nil {
		return
	}
	sums := channelSums(&b.Run, &k, g, x, stats)
	putAffine[T](dw, db, sums, c)
	if dmean != nil || dvar != nil {
		kernel.BatchNormGivenBackward(&k, optional[T](dmean), addM, optional[T](dvar), addV, stats, w, sums)
	}
}
