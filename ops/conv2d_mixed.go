package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// Convolution of half types: pieces of the operands are widened as they are needed.

// halfSums is the plan of the bias' gradient.
func (conv2DOp) halfSums(p *kernel.Conv) kernel.SumTo {
	from, to := [4]int{p.N, p.O, p.Out[0], p.Out[1]}, [3]int{p.O, 1, 1}
	return kernel.NewSumTo(from[:], to[:])
}

func (o conv2DOp) forwardMixed(f *autograd.Fwd) {
	y := &f.Out[0]
	half := halfOf(y)
	g := &kernel.MixedConv{
		Conv: o.geometry(f.In[0].Spec(), f.In[1].Spec()),
		X:    mat{t: &f.In[0]}.mixed(half), W: mat{t: &f.In[1]}.mixed(half), Y: mat{t: y}.mixed(half),
	}
	if o.bias {
		g.B = mat{t: &f.In[2]}.mixed(half)
	}
	f.Par(g.MixedForwardWork().Chunks, func(lane, c int) { g.Forward(f.Lane(lane), c) })
}

func (o conv2DOp) backwardMixed(b *autograd.Bwd) {
	grad := b.Grad(0)
	half := halfOf(grad)
	g := &kernel.MixedConv{Conv: o.geometry(b.InSpec(0), b.InSpec(1)), G: mat{t: grad}.mixed(half)}
	input := func() {
		if dx, add := b.Into(0); dx != nil {
			g.DX, g.AddX, g.W = mat{t: dx}.mixed(half), add, mat{t: b.In(1)}.mixed(half)
			b.Par(g.MixedInputWork().Chunks, func(lane, c int) { g.Input(b.Lane(lane), c) })
		}
	}
	first := meets(b, 1, 2)
	if first {
		input()
	}
	if dw, add := b.Into(1); dw != nil {
		g.DW, g.AddW, g.X = mat{t: dw}.mixed(half), add, mat{t: b.In(0)}.mixed(half)
		parts := kernel.View[float32](b.Shared())
		b.Par(g.MixedWeightWork().Chunks, func(lane, c int) { g.Weight(parts, b.Lane(lane), c) })
		b.Par(g.MixedWeightFinishChunks(), func(_, c int) { g.WeightFinish(parts, c) })
	}
	if o.bias {
		if db, add := b.Into(2); db != nil {
			p := o.halfSums(&g.Conv)
			sumHalves(&b.Run, &p, shaped(db, g.O, 1, 1), add, grad)
		}
	}
	if !first {
		input()
	}
}

// shaped is t in another shape of as many elements: t is contiguous.
func shaped(t *tensor.Tensor, shape ...int) *tensor.Tensor {
	s, err := t.Reshape(shape...)
	if err != nil {
		panic(err)
	}
	return &s
}
