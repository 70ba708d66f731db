package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// batch_norm in training, of x [N C ...]: each channel normalized over all images and pixels of the batch (Ioffe and
// Szegedy, 2015), with the biased variance:
//
//	xhat = (x - mean[c]) rstd[c]     rstd = 1/sqrt(var + eps)     y = xhat weight[c] + bias[c]
//
//	dx      = weight rstd (g - mean(g) - xhat mean(g xhat))     means by channel
//	dweight = the sums by channel of g xhat                     dbias = the sums by channel of g
//
// Saved: x, weight (for dx), and in a hidden output mean and rstd of each channel.

// BatchStats are what a batch says about each channel: constants, without history.
type BatchStats struct {
	Mean     *autograd.Value // [C]
	Variance *autograd.Value // [C], unbiased, as torch keeps it: the squares divided by Count-1
	Count    int             // numbers in each channel
}

// BatchNorm normalizes each channel of x [N C ...] with the mean and the biased variance of the batch: torch's batch_norm
// with training=True. weight and bias are [C], or nil: both, or bias alone. All are of one dtype, a float dtype; y has
// x's shape. eps, 0 or more, is added to the variance (torch's default is 1e-5). A batch with one number a channel is an
// error, since that would be normalized to 0; one without any gives an empty y and statistics of 0. Saved are x, weight, and two numbers a
// channel.
//
// stats are for running averages; see [UpdateRunning]. Whoever does not need them frees them or lets their scope do it.
// For evaluation there is [BatchNormEval].
func BatchNorm(s *autograd.Scope, x, weight, bias *autograd.Value, eps float64) (y *autograd.Value, stats BatchStats) {
	o := batchNormOp{eps: eps, weight: weight != nil, bias: bias != nil}
	out := autograd.ApplyN(s, o, withAffine(weight, bias, x)...)
	stats = BatchStats{Mean: out[1].Detach(s), Variance: out[2].Detach(s), Count: x.Spec().Elems() / max(1, x.Dim(1))}
	s.Free(out[1], out[2])
	return out[0], stats
}

type batchNormOp struct {
	eps          float64
	weight, bias bool
}

var (
	batchNormRule = &autograd.Rule{Name: "batch_norm", Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1), autograd.Out(3)},
		{autograd.In(0), autograd.Out(3)},
	}}
	batchNormPlainRule = &autograd.Rule{Name: "batch_norm", Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.Out(3)},
	}}
)

func (o batchNormOp) Rule() *autograd.Rule {
	if o.weight {
		return batchNormRule
	}
	return batchNormPlainRule
}

func (o batchNormOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if err := checkChannelNorm(in, 1, o.weight, o.bias, o.eps); err != nil {
		return err
	}
	x := in[0]
	n, c, p := channels(x)
	if n*p == 1 {
		return fmt.Errorf("x has one number a channel, whose variance is 0: want a larger batch, or BatchNormEval")
	}
	sh.Like(x)
	sh.Add(x.DType, c)
	sh.Add(x.DType, c)
	sh.Add(x.DType, c, 2)
	sh.Hidden = 1
	k := kernel.NewBatchNorm(n, c, p)
	sh.Shared = batchNormShared(&k, 2*c, x.DType)
	sh.BwdShared = batchNormShared(&k, 3*c, x.DType)
	sh.Chunks = max(k.Chunks(), k.RowChunks())
	sh.BwdChunks = sh.Chunks
	return nil
}

// batchNormShared is room for partial sums and, behind them, so many numbers.
func batchNormShared(k *kernel.ChannelNorm, n int, dt tensor.DType) int64 {
	return int64(k.Parts())*8 + int64(n*dt.Size())
}

// behind is the n numbers behind the partial sums.
func behind[T kernel.Float](r *autograd.Run, k *kernel.ChannelNorm, n int) []T {
	return kernel.View[T](r.Shared()[k.Parts()*8:])[:n]
}

func (o batchNormOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), batchNormForward[float32], batchNormForward[float64])(o, f)
}

func batchNormForward[T kernel.Float](o batchNormOp, f *autograd.Fwd) {
	n, c, p := channels(f.In[0].Spec())
	k := kernel.NewBatchNorm(n, c, p)
	x, y, w, b := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0]), input[T](f, 1), input[T](f, 2)
	stats := optional[T](&f.Out[3])
	if stats == nil {
		stats = behind[T](&f.Run, &k, 2*c)
	}
	parts := kernel.View[float64](f.Shared())[:k.Parts()]
	f.Par(k.Chunks(), func(_, c int) { kernel.BatchNormPart(&k, x, parts, c) })
	kernel.BatchNormFinish(&k, stats, tensor.Data[T](&f.Out[1]), tensor.Data[T](&f.Out[2]), parts, o.eps)
	f.Par(k.RowChunks(), func(_, c int) { kernel.BatchNormApply(&k, y, x, stats, w, b, c) })
}

func (o batchNormOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, batchNormBackward[float32], batchNormBackward[float64])(o, b)
}

func batchNormBackward[T kernel.Float](o batchNormOp, b *autograd.Bwd) {
	n, c, p := channels(b.InSpec(0))
	k := kernel.NewBatchNorm(n, c, p)
	g := tensor.Data[T](b.Grad(0))
	dst, add := b.Into(0)
	dw, db := affineGrads(b, 1, o.weight, o.bias)
	var x, stats []T
	if dst != nil || dw.dst != nil {
		x, stats = tensor.Data[T](b.In(0)), tensor.Data[T](b.Out(3))
	}
	sums := channelSums(&b.Run, &k, g, x, stats)
	putAffine[T](dw, db, sums, c)
	if dst == nil {
		return
	}
	var w []T
	if o.weight {
		w = tensor.Data[T](b.In(1))
	}
	dx, factors := tensor.Data[T](dst), behind[T](&b.Run, &k, 3*c)
	kernel.BatchNormFactors(&k, factors, stats, w, sums)
	b.Par(k.RowChunks(), func(_, c int) { kernel.BatchNormBackward(&k, dx, add, g, x, stats, factors, c) })
}
