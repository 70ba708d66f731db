package ops

import (
	"errors"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// swiglu (Shazeer, "GLU variants improve transformer", 2020): y = silu(gate) up, s = sigmoid(gate).
//
//	dgate = g up s (1 + gate (1-s))     dup = g gate s
//
// Saved: gate and up. A chain of silu and mul would save silu(gate) as well, half as much again. Strides may be any, so gate
// and up may be the halves of one product, and their gradients go into its halves: no copies.

// SwiGLU gives silu(gate) up, element by element, as one node. gate and up are of a float dtype, of one shape and dtype,
// and are saved; up only if gate requires a gradient.
func SwiGLU(s *autograd.Scope, gate, up *autograd.Value) *autograd.Value {
	return autograd.Apply(s, swigluOp{}, gate, up)
}

type swigluOp struct{}

var swigluRule = &autograd.Rule{
	Name: "swiglu", Each: true, Reads: [][]autograd.Ref{{autograd.In(0), autograd.In(1)}, {autograd.In(0)}}, Strided: true,
	Over: [][]autograd.Ref{{autograd.In(1)}}, // which no other gradient reads
}

func (swigluOp) Rule() *autograd.Rule { return swigluRule }

func (swigluOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if err := wantFloats(in...); err != nil {
		return err
	}
	if !slices.Equal(in[0].Shape, in[1].Shape) {
		return errors.New("want equal shapes")
	}
	return inferMap(in[0], sh)
}

func (swigluOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), swigluForward[float32], swigluForward[float64])(f)
}

func swigluForward[T kernel.Float](f *autograd.Fwd) {
	y, gate, up := operand.Of[T](&f.Out[0]), operand.Of[T](&f.In[0]), operand.Of[T](&f.In[1])
	n := f.Out[0].Elems()
	f.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.SwiGLU(y, gate, up, lo, hi)
	})
}

func (swigluOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, swigluBackward[float32], swigluBackward[float64])(b)
}

func swigluBackward[T kernel.Float](b *autograd.Bwd) {
	var up kernel.Strided[T]
	dgate, dup := swigluGrad[T](b, 0), swigluGrad[T](b, 1)
	g, gate := operand.Of[T](b.Grad(0)), operand.Of[T](b.In(0))
	if dgate.Dst.Data != nil {
		up = operand.Of[T](b.In(1))
	}
	run := func(dgate, dup kernel.SwiGLUGrad[T]) {
		n := b.OutSpec(0).Elems()
		b.Par(kernel.Chunks(n), func(_, c int) {
			lo, hi := kernel.Range(n, c)
			kernel.SwiGLUBackward(dgate, dup, g, gate, up, lo, hi)
		})
	}
	d0, _ := b.Into(0)
	d1, _ := b.Into(1)
	if d0 == nil || d1 == nil || d0.Buffer() != d1.Buffer() || !d0.Overlaps(d1) {
		run(dgate, dup)
		return
	}
	run(dgate, kernel.SwiGLUGrad[T]{}) // views of one value: the second is added to all of the first
	run(kernel.SwiGLUGrad[T]{}, dup)
}

func swigluGrad[T kernel.Float](b *autograd.Bwd, i int) (grad kernel.SwiGLUGrad[T]) {
	if dst, add := b.Into(i); dst != nil {
		grad.Dst, grad.Add = operand.Of[T](dst), add
	}
	return grad
}
