package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// avg_pool2d: y = the mean of x in each window, zeros of the padding included; adaptive_avg_pool2d: in each of a given
// number of bins, from floor(o H/H') up to and without ceil((o+1) H/H').
//
//	dx[i] = the sum of g[o] / size over the windows o that i lies in
//
// Saved: nothing.

// AvgPool2D gives the mean of each window of x [... H W], a float dtype: [... H' W'], where
// H' = floor((H + 2 padding - KH) / stride) + 1. Padding counts as zeros (torch's count_include_pad, its default). Nothing
// is saved.
func AvgPool2D(s *autograd.Scope, x *autograd.Value, cfg Pool2DConfig) *autograd.Value {
	return autograd.Apply(s, avgPool2DOp{cfg: cfg}, x)
}

// AdaptiveAvgPool2D gives the means of out[0] x out[1] bins of each plane of x [... H W], a float dtype: of height
// bin i the rows from floor(i H/out[0]) up to and without ceil((i+1) H/out[0]), which overlap where out[0] does not divide
// H, as in torch. 0 keeps the size of x (torch's None); {1, 1} is the mean of the plane. Nothing is saved.
func AdaptiveAvgPool2D(s *autograd.Scope, x *autograd.Value, out [2]int) *autograd.Value {
	return autograd.Apply(s, avgPool2DOp{adaptive: true, out: out}, x)
}

type avgPool2DOp struct {
	cfg      Pool2DConfig
	adaptive bool
	out      [2]int
}

var (
	avgPool2DRule         = &autograd.Rule{Name: "avg_pool2d"}
	adaptiveAvgPool2DRule = &autograd.Rule{Name: "adaptive_avg_pool2d"}
)

func (o avgPool2DOp) Rule() *autograd.Rule {
	if o.adaptive {
		return adaptiveAvgPool2DRule
	}
	return avgPool2DRule
}

func (o avgPool2DOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	p, err := o.geometry(in[0])
	if err != nil {
		return err
	}
	addPlanes(sh, in[0], &p.Pool)
	sh.Chunks = p.Chunks()
	sh.BwdChunks = sh.Chunks
	return nil
}

func (o avgPool2DOp) geometry(x tensor.Spec) (kernel.AvgPool, error) {
	if !o.adaptive {
		p, err := o.cfg.pool2D(x)
		return kernel.AvgPool{Pool: p}, err
	}
	p := kernel.AvgPool{Adaptive: true}
	if min(o.out[0], o.out[1]) < 0 {
		return p, fmt.Errorf("want 1 bin or more, or 0 to keep the size of x, got %v", o.out)
	}
	if err := wantPlanes(x); err != nil {
		return p, err
	}
	p.Planes, _ = matrix(x, 2)
	p.In, p.Out = [2]int{x.Dim(-2), x.Dim(-1)}, o.out
	for d, n := range p.In {
		if p.Out[d] == 0 {
			p.Out[d] = n
		}
	}
	return p, nil
}

// plan is the geometry that Infer has checked.
func (o avgPool2DOp) plan(x tensor.Spec) kernel.AvgPool {
	p, err := o.geometry(x)
	if err != nil {
		panic(fmt.Sprintf("ops: %v", err))
	}
	return p
}

func (o avgPool2DOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), avgPool2DForward[float32], avgPool2DForward[float64])(o, f)
}

func avgPool2DForward[T kernel.Float](o avgPool2DOp, f *autograd.Fwd) {
	p := o.plan(f.In[0].Spec())
	x, y := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0])
	f.Par(p.Chunks(), func(_, c int) {
		lo, hi := p.PlaneRange(c)
		kernel.AvgPoolForward(&p, y, x, lo, hi)
	})
}

func (o avgPool2DOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, avgPool2DBackward[float32], avgPool2DBackward[float64])(o, b)
}

func avgPool2DBackward[T kernel.Float](o avgPool2DOp, b *autograd.Bwd) {
	p := o.plan(b.InSpec(0))
	dst, add := b.Into(0)
	dx, g := tensor.Data[T](dst), tensor.Data[T](b.Grad(0))
	b.Par(p.Chunks(), func(_, c int) {
		lo, hi := p.PlaneRange(c)
		kernel.AvgPoolBackward(&p, dx, add, g, lo, hi)
	})
}
