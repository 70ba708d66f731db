package ops

import (
	"errors"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// tril, triu: the lower or upper triangle of the matrices x [... M N], the rest zero.
//
//	dx = the same triangle of g
//
// What is outside is not multiplied by zero but is zero, NaN and Inf included, forward and backward.
//
// Saved: nothing.

// Tril keeps the elements [... i j] of x [... M N] with j - i <= diagonal and makes the rest zero. x is of any dtype.
// Nothing is saved.
func Tril(s *autograd.Scope, x *autograd.Value, diagonal int) *autograd.Value {
	return autograd.Apply(s, triangleOp{diagonal: diagonal}, x)
}

// Triu keeps the elements with j - i >= diagonal, otherwise like [Tril].
func Triu(s *autograd.Scope, x *autograd.Value, diagonal int) *autograd.Value {
	return autograd.Apply(s, triangleOp{diagonal: diagonal, upper: true}, x)
}

type triangleOp struct {
	diagonal int
	upper    bool
}

var (
	trilRule = &autograd.Rule{Name: "tril"}
	triuRule = &autograd.Rule{Name: "triu"}
)

func (o triangleOp) Rule() *autograd.Rule {
	if o.upper {
		return triuRule
	}
	return trilRule
}

func (triangleOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if in[0].Rank() < 2 {
		return errors.New("want x [... M N]")
	}
	sh.Like(in[0])
	rows, cols := matrix(in[0], 1)
	sh.Chunks = kernel.RowChunks(rows, cols)
	sh.BwdChunks = sh.Chunks
	return nil
}

func (o triangleOp) of(x tensor.Spec) kernel.Triangle {
	m, n := x.Dim(-2), x.Dim(-1)
	return kernel.Triangle{M: m, N: n, Diagonal: min(max(o.diagonal, -m), n), Upper: o.upper}
}

func (o triangleOp) Forward(f *autograd.Fwd) { o.keep(&f.Run, &f.Out[0], &f.In[0]) }

func (o triangleOp) Backward(b *autograd.Bwd) {
	dx, add := b.Into(0)
	if !add {
		o.keep(&b.Run, dx, b.Grad(0))
		return
	}
	byFloat(dx.DType(), triangleAdd[float32], triangleAdd[float64])(o.of(dx.Spec()), b, dx)
}

func (o triangleOp) keep(r *autograd.Run, y, x *tensor.Tensor) {
	bySize(y.DType(), triangleKeep[uint8], triangleKeep[uint16], triangleKeep[uint32], triangleKeep[uint64])(o.of(y.Spec()), r, y, x)
}

func triangleKeep[W uint8 | uint16 | uint32 | uint64](t kernel.Triangle, r *autograd.Run, y, x *tensor.Tensor) {
	d, s := operand.Words[W](y).Data, operand.Words[W](x).Data
	rows, cols := matrix(y.Spec(), 1)
	r.Par(kernel.RowChunks(rows, cols), func(_, c int) {
		lo, hi := kernel.RowRange(rows, cols, c)
		kernel.KeepTriangle(t, d, s, lo, hi)
	})
}

func triangleAdd[T interface {
	kernel.Float
	tensor.Elem
}](t kernel.Triangle, b *autograd.Bwd, dx *tensor.Tensor) {
	d, g := tensor.Data[T](dx), tensor.Data[T](b.Grad(0))
	rows, cols := matrix(dx.Spec(), 1)
	b.Par(kernel.RowChunks(rows, cols), func(_, c int) {
		lo, hi := kernel.RowRange(rows, cols, c)
		kernel.AddTriangle(t, d, g, lo, hi)
	})
}
