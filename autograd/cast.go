package autograd

import (
	"fmt"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// cast: y = x in another dtype, rounded once to nearest even.
//
//	dx = g in x's dtype
//
// Saved: nothing. It is here and not in package ops because autocast records it.

// Cast gives x in dtype dt, one of the float types, of x's shape: torch's to. x is of any dtype; those that are not of
// floating point (Bool counts as 0 and 1) have no gradients. The gradient is cast back. Nothing is saved, and x itself is
// returned if it has that dtype already.
func Cast(s *Scope, x *Value, dt tensor.DType) *Value {
	if x != nil && x.DType() == dt {
		return x
	}
	return Apply(s, CastOp{dt}, x)
}

// CastOp is the op of [Cast].
type CastOp struct{ To tensor.DType }

var castRule = &Rule{Name: "cast", Strided: true, Halves: true}

// Rule is static.
func (CastOp) Rule() *Rule { return castRule }

// Infer checks the dtypes.
func (o CastOp) Infer(in []tensor.Spec, sh *Shapes) error {
	if !o.To.IsFloat() {
		return fmt.Errorf("want to cast to float32, float64, float16 or bfloat16, got %s", o.To)
	}
	sh.Like(tensor.Spec{DType: o.To, Shape: in[0].Shape})
	sh.Chunks = kernel.Chunks(in[0].Elems())
	sh.BwdChunks = sh.Chunks
	return nil
}

// Forward converts.
func (o CastOp) Forward(f *Fwd) {
	y, x := &f.Out[0], &f.In[0]
	switch {
	case isHalf(y.DType()) || isHalf(x.DType()):
		castHalf(&f.Run, y, false, x)
	case o.To == tensor.Float32:
		castTo[float32](&f.Run, y, false, x)
	default:
		castTo[float64](&f.Run, y, false, x)
	}
}

// Backward converts back.
func (o CastOp) Backward(b *Bwd) {
	dst, add := b.Into(0)
	switch g := b.Grad(0); {
	case isHalf(dst.DType()) || isHalf(g.DType()):
		castHalf(&b.Run, dst, add, g)
	case dst.DType() == tensor.Float32:
		castTo[float32](&b.Run, dst, add, g)
	default:
		castTo[float64](&b.Run, dst, add, g)
	}
}

// castTo fills dst, or adds to it: neither is of a half type.
func castTo[D kernel.Float](r *Run, dst *tensor.Tensor, add bool, x *tensor.Tensor) {
	d := operand.Of[D](dst)
	switch x.DType() {
	case tensor.Float32:
		convertTo(r, d, add, operand.Of[float32](x))
	case tensor.Float64:
		convertTo(r, d, add, operand.Of[float64](x))
	case tensor.Int64:
		convertTo(r, d, add, operand.Of[int64](x))
	case tensor.Int32:
		convertTo(r, d, add, operand.Of[int32](x))
	case tensor.Uint8:
		convertTo(r, d, add, operand.Of[uint8](x))
	default:
		convertTo(r, d, add, kernel.Truth(operand.Of[bool](x)))
	}
}

func convertTo[D kernel.Float, S kernel.Number | uint8](r *Run, dst kernel.Strided[D], add bool, src kernel.Strided[S]) {
	n := kernel.Elems(dst.Shape)
	r.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Convert(dst, add, src, lo, hi)
	})
}

// castHalf is castTo where one side is of a half type: from or to float32 on the workers, all else by package tensor,
// which rounds once whatever lies between.
func castHalf(r *Run, dst *tensor.Tensor, add bool, x *tensor.Tensor) {
	if dst.DType() == tensor.Float32 || x.DType() == tensor.Float32 {
		r.ss.convert(dst, x, add)
		return
	}
	if !add {
		if err := tensor.Convert(dst, x); err != nil {
			r.Fail(err)
		}
		return
	}
	n := dst.Elems() // only gradients are added: the other side is float64
	r.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		if dst.DType() == tensor.Float64 {
			h, s := operand.Half(x)
			kernel.AccumulateTo64(h, operand.Of[float64](dst), s, lo, hi)
		} else {
			h, d := operand.Half(dst)
			kernel.AccumulateFrom64(h, d, operand.Of[float64](x), lo, hi)
		}
	})
}
