package ops

import (
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// leaky_relu, clamp: straight on both sides of a bend.
//
//	leaky_relu   y = x where x > 0, else slope x          dx = g where x > 0, else slope g
//	clamp        y = lo where x < lo, hi where x > hi, else x     dx = g where lo <= x <= hi, else 0
//
// Saved: one bit an element, in a hidden Uint8 output, as for relu. torch saves x, 32 times as much.

// LeakyReLU gives x where x > 0, else slope times x, of x's shape. x is of a float dtype and any shape. One bit an
// element is saved, so that slope may be negative.
func LeakyReLU(s *autograd.Scope, x *autograd.Value, slope float64) *autograd.Value {
	return autograd.Apply(s, leakyReLUOp{slope}, x)
}

// Clamp gives x with what is below lo raised to lo, and what is above hi lowered to hi, of x's shape; infinities leave a
// side open. NaN stays. x is of a float dtype and any shape; lo and hi are rounded to its dtype. The gradient passes
// where lo <= x <= hi, bounds included, and is 0 elsewhere, also where x is NaN, as in torch. With lo > hi, where torch
// gives hi throughout, it is an error. One bit an element is saved.
func Clamp(s *autograd.Scope, x *autograd.Value, lo, hi float64) *autograd.Value {
	return autograd.Apply(s, clampOp{lo, hi}, x)
}

var ofBits = [][]autograd.Ref{{autograd.Out(1)}}

// inferGate asks for y and a bit an element.
func inferGate(x tensor.Spec, sh *autograd.Shapes) error {
	n := x.Elems()
	sh.Like(x)
	sh.Add(tensor.Uint8, kernel.MaskBytes(n))
	sh.Hidden = 1
	sh.Chunks = kernel.Chunks(n)
	sh.BwdChunks = sh.Chunks
	return wantFloats(x)
}

type leakyReLUOp struct{ slope float64 }

var leakyReLURule = &autograd.Rule{Name: "leaky_relu", Each: true, Reads: ofBits}

func (leakyReLUOp) Rule() *autograd.Rule { return leakyReLURule }

func (o leakyReLUOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if math.IsNaN(o.slope) {
		return fmt.Errorf("want a number for a slope, got %v", o.slope)
	}
	return inferGate(in[0], sh)
}

func (o leakyReLUOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), leakyReLUForward[float32], leakyReLUForward[float64])(o, f)
}

func leakyReLUForward[T kernel.Float](o leakyReLUOp, f *autograd.Fwd) {
	x, y, mask := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0]), optional[uint8](&f.Out[1])
	f.Par(kernel.Chunks(len(x)), func(_, c int) {
		lo, hi := kernel.Range(len(x), c)
		kernel.LeakyReLU(y[lo:hi], x[lo:hi], o.slope, kernel.Cut(mask, lo/8, kernel.MaskBytes(hi)))
	})
}

func (o leakyReLUOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, leakyReLUBackward[float32], leakyReLUBackward[float64])(o, b)
}

func leakyReLUBackward[T kernel.Float](o leakyReLUOp, b *autograd.Bwd) {
	dst, add := b.Into(0)
	dx, g, mask := tensor.Data[T](dst), tensor.Data[T](b.Grad(0)), tensor.Data[uint8](b.Out(1))
	b.Par(kernel.Chunks(len(g)), func(_, c int) {
		lo, hi := kernel.Range(len(g), c)
		kernel.LeakyReLUBackward(dx[lo:hi], add, g[lo:hi], o.slope, mask[lo/8:])
	})
}

type clampOp struct{ lo, hi float64 }

var clampRule = &autograd.Rule{Name: "clamp", Each: true, Reads: ofBits}

func (clampOp) Rule() *autograd.Rule { return clampRule }

func (o clampOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if !(o.lo <= o.hi) {
		return fmt.Errorf("from %v to %v: want a lower bound and an upper one that is not below it", o.lo, o.hi)
	}
	return inferGate(in[0], sh)
}

func (o clampOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), clampForward[float32], clampForward[float64])(o, f)
}

func clampForward[T kernel.Float](o clampOp, f *autograd.Fwd) {
	x, y, mask := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0]), optional[uint8](&f.Out[1])
	f.Par(kernel.Chunks(len(x)), func(_, c int) {
		lo, hi := kernel.Range(len(x), c)
		kernel.Clamp(y[lo:hi], x[lo:hi], T(o.lo), T(o.hi), kernel.Cut(mask, lo/8, kernel.MaskBytes(hi)))
	})
}

func (clampOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, reluBackward[float32], reluBackward[float64])(b)
}
