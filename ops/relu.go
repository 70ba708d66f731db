package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// relu: y = x where x > 0, else 0; NaN stays NaN.
//
//	dx = g where x > 0, else 0
//
// Saved: one bit an element, in a hidden Uint8 output. torch saves y, which costs 32 times as much wherever nobody else
// saves it, and which cannot then be overwritten.

// ReLU gives max(x, 0), of x's shape. x is of a float dtype and any shape. One bit an element is saved.
func ReLU(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, reluOp{}, x)
}

// ReLUInPlace is ReLU written over x, whose buffer the result takes over: x itself must not be used afterwards, and
// nothing may have saved it (see the package comment).
func ReLUInPlace(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, reluOp{inPlace: true}, x)
}

type reluOp struct{ inPlace bool }

var (
	reluRule        = &autograd.Rule{Name: "relu", Each: true, Reads: [][]autograd.Ref{{autograd.Out(1)}}, Over: overGrad}
	reluInPlaceRule = &autograd.Rule{Name: "relu_", Each: true, Reads: [][]autograd.Ref{{autograd.Out(1)}}, Over: overGrad, InPlace: true}
)

func (o reluOp) Rule() *autograd.Rule {
	if o.inPlace {
		return reluInPlaceRule
	}
	return reluRule
}

func (reluOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	n := in[0].Elems()
	sh.Like(in[0])
	sh.Add(tensor.Uint8, kernel.MaskBytes(n))
	sh.Hidden = 1
	sh.Chunks = kernel.Chunks(n)
	sh.BwdChunks = sh.Chunks
	return wantFloats(in[0])
}

func (reluOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), reluForward[float32], reluForward[float64])(f)
}

func reluForward[T kernel.Float](f *autograd.Fwd) {
	x, y, mask := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0]), optional[uint8](&f.Out[1])
	if len(x) <= kernel.ChunkSize {
		kernel.ReLU(y, x, mask)
		return
	}
	f.Par(kernel.Chunks(len(x)), func(_, c int) {
		lo, hi := kernel.Range(len(x), c)
		kernel.ReLU(y[lo:hi], x[lo:hi], kernel.Cut(mask, lo/8, kernel.MaskBytes(hi)))
	})
}

func (reluOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, reluBackward[float32], reluBackward[float64])(b)
}

func reluBackward[T kernel.Float](b *autograd.Bwd) {
	dst, add := b.Into(0)
	dx, g, mask := tensor.Data[T](dst), tensor.Data[T](b.Grad(0)), tensor.Data[uint8](b.Out(1))
	if len(g) <= kernel.ChunkSize {
		kernel.ReLUBackward(dx, add, g, mask)
		return
	}
	b.Par(kernel.Chunks(len(g)), func(_, c int) {
		lo, hi := kernel.Range(len(g), c)
		kernel.ReLUBackward(dx[lo:hi], add, g[lo:hi], mask[lo/8:])
	})
}
