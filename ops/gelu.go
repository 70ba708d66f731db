package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// gelu: y = x cdf(x), the normal distribution's, or its tanh form (Hendrycks and Gimpel, 2016):
//
//	y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//
//	dx = g dy/dx, of x alone
//
// Saved: x, as in torch. The output does not tell x: the function falls before it rises.

// GELU gives x cdf(x), of x's shape, torch's default form. x is of a float dtype and any shape, and is saved.
func GELU(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, geluOp{}, x)
}

// GELUTanh gives torch's approximate='tanh' form of [GELU]. x is of a float dtype and any shape, and is saved.
func GELUTanh(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, geluOp{tanh: true}, x)
}

type geluOp struct{ tanh bool }

var (
	geluRule     = &autograd.Rule{Name: "gelu", Each: true, Reads: [][]autograd.Ref{{autograd.In(0)}}, Over: overGrad}
	geluTanhRule = &autograd.Rule{Name: "gelu_tanh", Each: true, Reads: [][]autograd.Ref{{autograd.In(0)}}, Over: overGrad}
)

func (o geluOp) Rule() *autograd.Rule {
	if o.tanh {
		return geluTanhRule
	}
	return geluRule
}

func (geluOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Like(in[0])
	sh.Chunks = kernel.Chunks(in[0].Elems())
	sh.BwdChunks = sh.Chunks
	return wantFloats(in[0])
}

func (o geluOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), geluForward[float32], geluForward[float64])(o, f)
}

func geluForward[T kernel.Float](o geluOp, f *autograd.Fwd) {
	x, y := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0])
	if len(x) <= kernel.ChunkSize {
		geluRange(o, y, x)
		return
	}
	f.Par(kernel.Chunks(len(x)), func(_, c int) {
		lo, hi := kernel.Range(len(x), c)
		geluRange(o, y[lo:hi], x[lo:hi])
	})
}

func geluRange[T kernel.Float](o geluOp, y, x []T) {
	if o.tanh {
		kernel.GELUTanh(y, x)
		return
	}
	kernel.GELU(y, x)
}

func (o geluOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, geluBackward[float32], geluBackward[float64])(o, b)
}

func geluBackward[T kernel.Float](o geluOp, b *autograd.Bwd) {
	dst, add := b.Into(0)
	dx, g, x := tensor.Data[T](dst), tensor.Data[T](b.Grad(0)), tensor.Data[T](b.In(0))
	if len(x) <= kernel.ChunkSize {
		geluBackwardRange(o, dx, add, g, x)
		return
	}
	b.Par(kernel.Chunks(len(x)), func(_, c int) {
		lo, hi := kernel.Range(len(x), c)
		geluBackwardRange(o, dx[lo:hi], add, g[lo:hi], x[lo:hi])
	})
}

func geluBackwardRange[T kernel.Float](o geluOp, dx []T, add bool, g, x []T) {
	if o.tanh {
		kernel.GELUTanhBackward(dx, add, g, x)
		return
	}
	kernel.GELUBackward(dx, add, g, x)
}
