package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// max_pool2d: y = the largest of x in each window, padded with -Inf.
//
//	dx[winner of o] += g[o]
//
// Saved: which element of its window won, in a hidden Uint8 output: 2 bits an output for 2 x 2, 4 bits up to 16 elements,
// 8 up to 256, 16 beyond. torch saves an int64 index an output and x as well: for 2 x 2 in float32, 96 times as much.

// MaxPool2D gives the largest element of each window of x [... H W], a float dtype: [... H' W'], where
// H' = floor((H + 2 padding - KH) / stride) + 1. Of equal elements the first gets the gradient, of NaNs, which beat all,
// the last: torch's choices. The window has at most 65536 elements. 2 bits an output are saved for a window of 2 x 2, 4
// for up to 16 elements, 8 for up to 256.
func MaxPool2D(s *autograd.Scope, x *autograd.Value, cfg Pool2DConfig) *autograd.Value {
	return autograd.Apply(s, maxPool2DOp{cfg}, x)
}

type maxPool2DOp struct{ cfg Pool2DConfig }

var maxPool2DRule = &autograd.Rule{Name: "max_pool2d", Reads: [][]autograd.Ref{{autograd.Out(1)}}}

func (maxPool2DOp) Rule() *autograd.Rule { return maxPool2DRule }

func (o maxPool2DOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	p, err := o.cfg.pool2D(in[0])
	if err != nil {
		return err
	}
	if n := p.Kernel[0] * p.Kernel[1]; n > kernel.MaxPoolWindow {
		return fmt.Errorf("want a window of at most %d elements, got %d", kernel.MaxPoolWindow, n)
	}
	addPlanes(sh, in[0], &p)
	n := sh.Out[0].Elems()
	sh.Add(tensor.Uint8, p.CodeBytes(n))
	sh.Hidden = 1
	sh.Chunks, sh.BwdChunks = kernel.Chunks(n), p.Chunks()
	return nil
}

func (o maxPool2DOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), maxPool2DForward[float32], maxPool2DForward[float64])(o, f)
}

func maxPool2DForward[T kernel.Float](o maxPool2DOp, f *autograd.Fwd) {
	p := poolOf(o.cfg, f.In[0].Spec())
	x, y, codes := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0]), optional[uint8](&f.Out[1])
	f.Par(kernel.Chunks(len(y)), func(_, c int) {
		lo, hi := kernel.Range(len(y), c)
		kernel.MaxPool(&p, y, x, codes, lo, hi)
	})
}

func (o maxPool2DOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, maxPool2DBackward[float32], maxPool2DBackward[float64])(o, b)
}

func maxPool2DBackward[T kernel.Float](o maxPool2DOp, b *autograd.Bwd) {
	p := poolOf(o.cfg, b.InSpec(0))
	dst, add := b.Into(0)
	dx, g, codes := tensor.Data[T](dst), tensor.Data[T](b.Grad(0)), tensor.Data[uint8](b.Out(1))
	b.Par(p.Chunks(), func(_, c int) {
		lo, hi := p.PlaneRange(c)
		kernel.MaxPoolBackward(&p, dx, add, g, codes, lo, hi)
	})
}

// poolOf is the geometry that Infer has checked.
func poolOf(cfg Pool2DConfig, x tensor.Spec) kernel.Pool {
	p, err := cfg.pool2D(x)
	if err != nil {
		panic(fmt.Sprintf("ops: %v", err))
	}
	return p
}
