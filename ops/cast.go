package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// cast: y = x in another dtype, rounded to nearest even.
//
//	dx = g in x's dtype
//
// Saved: nothing.

// Cast gives x in dtype dt, of x's shape: torch's to. dt is Float32 or Float64; x is either of them, or Int64, Int32, Uint8
// or Bool (0 and 1), which have no gradients. The gradient is cast back. Nothing is saved, and x itself is returned if it
// has that dtype already.
func Cast(s *autograd.Scope, x *autograd.Value, dt tensor.DType) *autograd.Value {
	if x != nil && x.DType() == dt {
		return x
	}
	return autograd.Apply(s, castOp{dt}, x)
}

type castOp struct{ to tensor.DType }

var castRule = &autograd.Rule{Name: "cast", Strided: true}

func (castOp) Rule() *autograd.Rule { return castRule }

func (o castOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if o.to != tensor.Float32 && o.to != tensor.Float64 {
		return fmt.Errorf("want to cast to float32 or float64, got %s"+dtypeTable, o.to)
	}
	switch from := in[0].DType; from {
	case tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool:
	default:
		return fmt.Errorf("want to cast from float32, float64, int64, int32, uint8 or bool, got %s"+dtypeTable, from)
	}
	return inferZip(o.to, sh, in[0])
}

func (o castOp) Forward(f *autograd.Fwd) {
	byFloat(o.to, castForward[float32], castForward[float64])(f)
}

func castForward[D kernel.Float](f *autograd.Fwd) {
	y, x := operand.Of[D](&f.Out[0]), &f.In[0]
	switch x.DType() {
	case tensor.Float32:
		convert(&f.Run, y, false, operand.Of[float32](x))
	case tensor.Float64:
		convert(&f.Run, y, false, operand.Of[float64](x))
	case tensor.Int64:
		convert(&f.Run, y, false, operand.Of[int64](x))
	case tensor.Int32:
		convert(&f.Run, y, false, operand.Of[int32](x))
	case tensor.Uint8:
		convert(&f.Run, y, false, operand.Of[uint8](x))
	default:
		convert(&f.Run, y, false, kernel.Truth(operand.Of[bool](x)))
	}
}

// Backward is the other way round: the two dtypes differ, so one is float32 and the other float64.
func (o castOp) Backward(b *autograd.Bwd) {
	dst, add := b.Into(0)
	if o.to == tensor.Float64 {
		convert(&b.Run, operand.Of[float32](dst), add, operand.Of[float64](b.Grad(0)))
	} else {
		convert(&b.Run, operand.Of[float64](dst), add, operand.Of[float32](b.Grad(0)))
	}
}

func convert[D kernel.Float, S kernel.Number | uint8](r *autograd.Run, dst kernel.Strided[D], add bool, src kernel.Strided[S]) {
	n := product(dst.Shape)
	r.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Convert(dst, add, src, lo, hi)
	})
}
