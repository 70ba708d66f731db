package ops

import (
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// where, masked_fill: a choice for each element.
//
//	where         y = cond ? a : b         da = cond ? g : 0    db = cond ? 0 : g
//	masked_fill   y = mask ? value : x     dx = mask ? 0 : g
//
// Saved: cond or mask, one byte an element of its own shape. What is not chosen does not matter, neither forward nor
// backward, NaN or not; a gradient computed from it may, so guard the argument and not the result:
// Log(Where(x > 0, x, 1)) and not Where(x > 0, Log(x), 0).

// Where gives a where cond holds and b elsewhere, of the shape that all three broadcast to. cond is Bool; a and b have
// equal dtypes: a float dtype, or Int64 and Int32, which have no gradients. cond is saved.
func Where(s *autograd.Scope, cond, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, whereOp{}, cond, a, b)
}

// MaskedFill gives value where mask holds and x elsewhere, of the shape that the two broadcast to. mask is Bool, x of
// the dtypes of [Where]; value is rounded to it, and must be whole for Int64 and Int32. mask is saved.
func MaskedFill(s *autograd.Scope, x, mask *autograd.Value, value float64) *autograd.Value {
	return autograd.Apply(s, maskedFillOp{value}, x, mask)
}

type whereOp struct{}

var (
	byCond    = []autograd.Ref{autograd.In(0)}
	whereRule = &autograd.Rule{Name: "where", Each: true, Cast: autograd.CastWidest, Reads: [][]autograd.Ref{nil, byCond, byCond}, Broadcast: true, Strided: true}
)

func (whereOp) Rule() *autograd.Rule { return whereRule }

func (whereOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if in[0].DType != tensor.Bool {
		return fmt.Errorf("want a bool condition, got %s"+dtypeTable, in[0].DType)
	}
	if err := wantNumbers(in[1:]...); err != nil {
		return err
	}
	return inferZip(in[1].DType, sh, in...)
}

func (whereOp) Forward(f *autograd.Fwd) {
	byNumber(f.Out[0].DType(), whereForward[float32], whereForward[float64], whereForward[int32], whereForward[int64])(f)
}

func whereForward[T number](f *autograd.Fwd) {
	y, cond, a, b := operand.Of[T](&f.Out[0]), operand.Of[bool](&f.In[0]), operand.Of[T](&f.In[1]), operand.Of[T](&f.In[2])
	n := f.Out[0].Elems()
	f.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Where(y, cond, a, b, lo, hi)
	})
}

func (whereOp) Backward(b *autograd.Bwd) {
	keep := byFloat(b.OutSpec(0).DType, keepWhere[float32], keepWhere[float64])
	for i := 1; i <= 2; i++ {
		if dst, _ := b.Into(i); dst != nil {
			keep(b, i, b.In(0), i == 1)
		}
	}
}

// keepWhere gives input i the gradient where cond is when.
func keepWhere[T kernel.Float](b *autograd.Bwd, i int, cond *tensor.Tensor, when bool) {
	dst, add := b.Into(i)
	dx, g, c, n := operand.Of[T](dst), operand.Of[T](b.Grad(0)), operand.Of[bool](cond), dst.Elems()
	b.Par(kernel.Chunks(n), func(_, k int) {
		lo, hi := kernel.Range(n, k)
		kernel.Keep(dx, add, g, c, when, lo, hi)
	})
}

type maskedFillOp struct{ value float64 }

var maskedFillRule = &autograd.Rule{Name: "masked_fill", Each: true, Reads: [][]autograd.Ref{{autograd.In(1)}}, Broadcast: true, Strided: true}

func (maskedFillOp) Rule() *autograd.Rule { return maskedFillRule }

func (o maskedFillOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if in[1].DType != tensor.Bool {
		return fmt.Errorf("want a bool mask, got %s"+dtypeTable, in[1].DType)
	}
	if err := wantNumbers(in[0]); err != nil {
		return err
	}
	if in[0].DType.IsInteger() && !holds(in[0].DType, o.value) {
		return fmt.Errorf("want a value that %s holds, got %v", in[0].DType, o.value)
	}
	return inferZip(in[0].DType, sh, in...)
}

// holds tells whether v is a value of the integer dtype dt.
func holds(dt tensor.DType, v float64) bool {
	limit := float64(1 << 63)
	if dt == tensor.Int32 {
		limit = 1 << 31
	}
	return -limit <= v && v < limit && math.Trunc(v) == v
}

func (o maskedFillOp) Forward(f *autograd.Fwd) {
	byNumber(f.Out[0].DType(), maskedFill[float32], maskedFill[float64], maskedFill[int32], maskedFill[int64])(o, f)
}

func maskedFill[T number](o maskedFillOp, f *autograd.Fwd) {
	y, x, mask := operand.Of[T](&f.Out[0]), operand.Of[T](&f.In[0]), operand.Of[bool](&f.In[1])
	n := f.Out[0].Elems()
	f.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Fill(y, x, mask, T(o.value), lo, hi)
	})
}

func (maskedFillOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, keepWhere[float32], keepWhere[float64])(b, 0, b.In(1), false)
}
