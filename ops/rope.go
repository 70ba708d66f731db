package ops

import (
	"errors"
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// rope: rotary position embedding (Su et al., "RoFormer", 2021). Pair i of a head's D numbers at position t is turned by
// the angle t base^(-2i/D):
//
//	y[p] = x[p] cos - x[q] sin     y[q] = x[q] cos + x[p] sin     (p, q) = (i, i+D/2), or (2i, 2i+1) if interleaved
//
//	dx = g, turned back by the same angle
//
// Saved: nothing. Angles are computed again.

// RoPEConfig are the options of [RoPE]. The zero value is Llama's first: positions from 0, base 10000, halves.
type RoPEConfig struct {
	Offset      int     // position of the first step, 0 or more: how many steps are in a cache already
	Base        float64 // the larger, the slower the later pairs turn. 0: 10000
	Interleaved bool    // pair 2i with 2i+1 (RoFormer, GPT-J), not i with i+D/2 (Llama, GPT-NeoX: "rotate half")
}

// RoPE turns the queries or keys x [B T H D] by their positions along T, so that their products depend on the distance
// between positions. D is even; x is of a float dtype and may be a view with any strides, whose gradient is written
// where it lies. The result has x's shape. Nothing is saved. Torch has no such op; the usual chain of products, slices
// and concatenations keeps tables of cosines and sines and four copies of x, and computes the angles in float32,
// which at position 100,000 puts cosines off by 0.001. Here they are float64.
func RoPE(s *autograd.Scope, x *autograd.Value, cfg RoPEConfig) *autograd.Value {
	if cfg.Base == 0 {
		cfg.Base = 10000
	}
	return autograd.Apply(s, ropeOp{cfg}, x)
}

type ropeOp struct{ cfg RoPEConfig }

var ropeRule = &autograd.Rule{Name: "rope", Over: overGrad, Strided: true}

func (ropeOp) Rule() *autograd.Rule { return ropeRule }

func (o ropeOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x, base := in[0], o.cfg.Base
	switch {
	case x.Rank() != 4 || x.Dim(3)%2 != 0:
		return errors.New("want x [B T H D] with an even D")
	case o.cfg.Offset < 0:
		return fmt.Errorf("want a position of 0 or more for the first step, got %d", o.cfg.Offset)
	case !(base > 0) || math.IsInf(base, 1):
		return fmt.Errorf("want a base above 0, got %v", base)
	}
	p := o.plan(x, false)
	sh.Like(x)
	sh.Scratch, sh.Chunks = p.Scratch(x.DType.Size()), p.Chunks()
	sh.BwdScratch, sh.BwdChunks = sh.Scratch, sh.Chunks
	return wantFloats(x)
}

func (o ropeOp) plan(x tensor.Spec, inverse bool) kernel.RoPE {
	return kernel.RoPE{
		Batch: x.Dim(0), Steps: x.Dim(1), Heads: x.Dim(2), Dim: x.Dim(3),
		Offset: o.cfg.Offset, Base: o.cfg.Base, Interleaved: o.cfg.Interleaved, Inverse: inverse,
	}
}

func (o ropeOp) Forward(f *autograd.Fwd) {
	p := o.plan(f.In[0].Spec(), false)
	byFloat(f.Out[0].DType(), rotate[float32], rotate[float64])(&f.Run, &p, &f.Out[0], false, &f.In[0])
}

func (o ropeOp) Backward(b *autograd.Bwd) {
	p := o.plan(b.InSpec(0), true)
	dx, add := b.Into(0)
	byFloat(b.OutSpec(0).DType, rotate[float32], rotate[float64])(&b.Run, &p, dx, add, b.Grad(0))
}

// rotate is both directions.
func rotate[T kernel.Float](r *autograd.Run, p *kernel.RoPE, dst *tensor.Tensor, add bool, src *tensor.Tensor) {
	y, x := rank4[T](dst), rank4[T](src)
	r.Par(p.Chunks(), func(lane, c int) { kernel.Rotate(p, y, add, x, r.Lane(lane), c) })
}
