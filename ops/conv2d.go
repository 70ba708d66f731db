package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// conv2d: y[n o] = b[o] + sum over the group's channels c of x[n c] correlated with w[o c], each plane padded with zeros.
//
//	dx = w^T g, taken back to where the taps had read from     dw = g times what the taps read     db = the sums of g
//
// Three matrix products whose right operand, the pixels that each tap reads (im2col: the input as many times as the
// kernel has taps), is never made whole: a chunk packs one tile after the other into its lane's scratch.
//
// Saved: x only if w wants a gradient, w only if x does.

// Conv2DConfig says how the kernel of a convolution moves. Pairs are height and width; see [Both].
type Conv2DConfig struct {
	Stride   [2]int // zero: 1 and 1
	Padding  [2]int // zeros on each side; zero: none
	Dilation [2]int // distance between taps; zero: 1 and 1
	Groups   int    // into which channels are shared out; 0: 1
}

// Both is n for height and width.
func Both(n int) [2]int { return [2]int{n, n} }

// Conv2D convolves x [N C H W] with the weight w [O C/groups KH KW] and adds b [O], unless it is nil. The result is
// [N O H' W'], H' = floor((H + 2 padding - dilation (KH-1) - 1) / stride) + 1 and W' likewise, each at least 1. All are of
// one dtype, a float dtype. Both C and O must be multiples of the groups; with as many groups as channels (depthwise)
// direct loops run instead of matrix products.
//
// Saved are x, if w requires a gradient, and w, if x does. Scratch is at most 256 KiB a lane for Float32, twice that for
// Float64, and for half types room for pieces of the operands besides, at most 96 KiB each or what one channel of a piece takes. Zeros of the padding are factors like others: where the weight is Inf the border is NaN, as in torch without
// oneDNN.
func Conv2D(s *autograd.Scope, x, w, b *autograd.Value, cfg Conv2DConfig) *autograd.Value {
	o := conv2DOp{cfg: cfg.withDefaults(), bias: b != nil}
	if b == nil {
		return autograd.Apply(s, o, x, w)
	}
	return autograd.Apply(s, o, x, w, b)
}

func (c Conv2DConfig) withDefaults() Conv2DConfig {
	if c.Stride == [2]int{} {
		c.Stride = Both(1)
	}
	if c.Dilation == [2]int{} {
		c.Dilation = Both(1)
	}
	if c.Groups == 0 {
		c.Groups = 1
	}
	return c
}

type conv2DOp struct {
	cfg  Conv2DConfig
	bias bool
}

var conv2DRule = &autograd.Rule{Name: "conv2d", Cast: autograd.CastLow, Reads: [][]autograd.Ref{{autograd.In(1)}, {autograd.In(0)}}, Over: overInput, Dear: true, Halves: true}

func (conv2DOp) Rule() *autograd.Rule { return conv2DRule }

func (o conv2DOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if err := o.check(in); err != nil {
		return err
	}
	p := o.geometry(in[0], in[1])
	for d := range p.Out {
		if p.Out[d] < 1 || p.Kernel[d] < 1 {
			return fmt.Errorf("want a kernel of at least 1 x 1 that fits into x: it spans %d x %d, x with its padding %d x %d",
				span(&p, 0), span(&p, 1), p.In[0]+2*p.Pad[0], p.In[1]+2*p.Pad[1])
		}
	}
	dt, err := wantFactors(in...)
	if err != nil {
		return err
	}
	sh.Add(dt, p.N, p.O, p.Out[0], p.Out[1])
	var fwd, dx, dw kernel.ConvWork
	if size := dt.Size(); isHalf(dt) {
		fwd, dx, dw = p.MixedForwardWork(), p.MixedInputWork(), p.MixedWeightWork()
		sh.BwdChunks = p.MixedWeightFinishChunks()
	} else {
		fwd, dx, dw = p.ForwardWork(size), p.InputWork(size), p.WeightWork(size)
		sh.BwdChunks = p.WeightFinishChunks()
	}
	sh.Scratch, sh.Chunks = fwd.Scratch, fwd.Chunks
	sh.BwdScratch, sh.BwdShared = max(dx.Scratch, dw.Scratch), dw.Shared
	sh.BwdChunks = max(sh.BwdChunks, dx.Chunks, dw.Chunks)
	if o.bias && isHalf(dt) {
		k := o.halfSums(&p)
		sh.BwdShared, sh.BwdChunks = max(sh.BwdShared, k.SharedBytes()), max(sh.BwdChunks, k.Chunks())
	} else if o.bias {
		k := o.sums(&p)
		sh.BwdShared, sh.BwdChunks = max(sh.BwdShared, int64(k.Parts())*8), max(sh.BwdChunks, k.Chunks())
	}
	return nil
}

// check is everything but whether the kernel fits.
func (o conv2DOp) check(in []tensor.Spec) error {
	x, w, c := in[0], in[1], o.cfg
	switch {
	case x.Rank() != 4 || w.Rank() != 4:
		return errors.New("want x [N C H W] and weight [O C/groups KH KW]")
	case min(c.Stride[0], c.Stride[1]) < 1:
		return fmt.Errorf("want strides of 1 or more, got %v", c.Stride)
	case min(c.Dilation[0], c.Dilation[1]) < 1:
		return fmt.Errorf("want dilations of 1 or more, got %v", c.Dilation)
	case min(c.Padding[0], c.Padding[1]) < 0:
		return fmt.Errorf("want padding of 0 or more, got %v", c.Padding)
	case c.Groups < 1 || x.Dim(1)%c.Groups != 0 || w.Dim(0)%c.Groups != 0:
		return fmt.Errorf("want a number of groups that divides the %d channels of x and the %d of the result, got %d", x.Dim(1), w.Dim(0), c.Groups)
	case w.Dim(1) != x.Dim(1)/c.Groups:
		return fmt.Errorf("want weight [%d %d %d %d]: the %d channels of x over %d groups", w.Dim(0), x.Dim(1)/c.Groups, w.Dim(2), w.Dim(3), x.Dim(1), c.Groups)
	case o.bias && (in[2].Rank() != 1 || in[2].Dim(0) != w.Dim(0)):
		return fmt.Errorf("want bias [%d], one for each channel of the result", w.Dim(0))
	}
	_, err := wantFactors(in...)
	return err
}

func (o conv2DOp) geometry(x, w tensor.Spec) kernel.Conv {
	p := kernel.Conv{
		N: x.Dim(0), C: x.Dim(1), O: w.Dim(0), Groups: o.cfg.Groups,
		In: [2]int{x.Dim(2), x.Dim(3)}, Kernel: [2]int{w.Dim(2), w.Dim(3)},
		Stride: o.cfg.Stride, Pad: o.cfg.Padding, Dilation: o.cfg.Dilation,
	}
	for d := range p.Out {
		if room := p.In[d] + 2*p.Pad[d] - span(&p, d); room >= 0 {
			p.Out[d] = room/p.Stride[d] + 1
		}
	}
	return p
}

// span is how far the kernel reaches.
func span(p *kernel.Conv, d int) int { return p.Dilation[d]*(p.Kernel[d]-1) + 1 }

// sums is the plan of the bias' gradient.
func (conv2DOp) sums(p *kernel.Conv) kernel.ChannelNorm {
	return kernel.NewBatchNorm(p.N, p.O, p.Out[0]*p.Out[1])
}

func (o conv2DOp) Forward(f *autograd.Fwd) {
	if isHalf(f.Out[0].DType()) {
		o.forwardMixed(f)
		return
	}
	byFloat(f.Out[0].DType(), conv2DForward[float32], conv2DForward[float64])(o, f)
}

func conv2DForward[T kernel.Float](o conv2DOp, f *autograd.Fwd) {
	p := o.geometry(f.In[0].Spec(), f.In[1].Spec())
	y, x, w, b := tensor.Data[T](&f.Out[0]), tensor.Data[T](&f.In[0]), tensor.Data[T](&f.In[1]), input[T](f, 2)
	f.Par(p.ForwardWork(f.Out[0].DType().Size()).Chunks, func(lane, c int) { kernel.ConvForward(&p, y, x, w, b, f.Lane(lane), c) })
}

func (o conv2DOp) Backward(b *autograd.Bwd) {
	if isHalf(b.OutSpec(0).DType) {
		o.backwardMixed(b)
		return
	}
	byFloat(b.OutSpec(0).DType, conv2DBackward[float32], conv2DBackward[float64])(o, b)
}

func conv2DBackward[T kernel.Float](o conv2DOp, b *autograd.Bwd) {
	p := o.geometry(b.InSpec(0), b.InSpec(1))
	g, size := tensor.Data[T](b.Grad(0)), b.OutSpec(0).DType.Size()
	input := func() {
		if dst, add := b.Into(0); dst != nil {
			dx, w := tensor.Data[T](dst), tensor.Data[T](b.In(1))
			b.Par(p.InputWork(size).Chunks, func(lane, c int) { kernel.ConvInput(&p, dx, add, g, w, b.Lane(lane), c) })
		}
	}
	first := meets(b, 1, 2)
	if first {
		input()
	}
	if dst, add := b.Into(1); dst != nil {
		dw, x, parts := tensor.Data[T](dst), tensor.Data[T](b.In(0)), kernel.View[T](b.Shared())
		b.Par(p.WeightWork(size).Chunks, func(lane, c int) { kernel.ConvWeight(&p, dw, add, g, x, parts, b.Lane(lane), c) })
		b.Par(p.WeightFinishChunks(), func(_, c int) { kernel.ConvWeightFinish(&p, dw, add, parts, c) })
	}
	if o.bias {
		if dst, add := b.Into(2); dst != nil {
			k := o.sums(&p)
			kernel.PutSums(tensor.Data[T](dst), add, channelSums[T](&b.Run, &k, g, nil, nil)[:p.O])
		}
	}
	if !first {
		input()
	}
}

// channelSums gives the sums of g by channel and, unless x is nil, behind them those of g xhat. They are in shared scratch.
func channelSums[T kernel.Float](r *autograd.Run, k *kernel.ChannelNorm, g, x, stats []T) []float64 {
	parts := kernel.View[float64](r.Shared())[:k.Parts()]
	r.Par(k.Chunks(), func(_, c int) { kernel.ChannelSumsPart(k, g, x, stats, parts, c) })
	return kernel.ChannelSumsFinish(k, parts)
}
