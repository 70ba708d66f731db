package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// Arithmetic of two operands over the shape that both broadcast to, element by element. (add is a file of its own: it
// has no backward kernel.)
//
//	sub       y = a - b      da = g       db = -g
//	mul       y = a b        da = g b     db = g a
//	div       y = a / b      da = g / b   db = -g (a/b)/b
//	maximum   y = max(a, b)  da = g where a > b, g/2 where a = b, 0 where a < b    db the other way round
//	minimum   y = min(a, b)  likewise
//
// Each gradient is summed over the dimensions in which its input was repeated.
//
// Saved: what the table reads, and of mul and div only what the gradients that are wanted read: x times a constant saves
// the constant alone.

// Sub gives a - b, of the shape that the two broadcast to. Dtypes must be equal: a float dtype, or Int64 and Int32,
// which have no gradients. Nothing is saved.
func Sub(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, subOp, a, b)
}

// Mul gives a times b, of the shape that the two broadcast to. Dtypes are those of [Sub]. a is saved if b requires a
// gradient, b if a does.
func Mul(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, mulOp, a, b)
}

// Div gives a / b, of the shape that the two broadcast to. Both are of a float dtype: whole numbers are converted with
// [Cast] first. b is saved if a requires a gradient, both are if b does.
func Div(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, divOp, a, b)
}

// Maximum gives the larger of a and b, of the shape that the two broadcast to, and NaN where either is. Both are of a
// float dtype, and are saved. Where they are equal each gets half of the gradient, and where one is NaN both get all of it, as
// in torch.
func Maximum(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, maximumOp, a, b)
}

// Minimum gives the smaller of a and b; all else is as for [Maximum].
func Minimum(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, minimumOp, a, b)
}

// MulInPlace multiplies a by b, which must broadcast to a's shape, where a lies: the result takes a's buffer over, a itself
// must not be used afterwards, and nothing may have saved it (see the package comment). b must not require a gradient,
// which would read a as it was. Dtypes are those of [Mul]. b is saved.
func MulInPlace(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, mulInPlaceOp{binaryOp: mulOver, learned: b != nil && b.RequiresGrad() && !s.Modes().NoGrad}, a, b)
}

// mulInPlaceOp knows whether b requires a gradient.
type mulInPlaceOp struct {
	*binaryOp
	learned bool
}

func (o mulInPlaceOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if o.learned {
		return errors.New("input 1 requires a gradient, which reads input 0 as it was before this in-place operation: use Mul, or Detach input 1")
	}
	return o.binaryOp.Infer(in, sh)
}

type binaryOp struct {
	rule *autograd.Rule
	f    kernel.Binary
}

var (
	readA, readB = autograd.In(0), autograd.In(1)
	readBoth     = []autograd.Ref{readA, readB}

	// The gradient of b is made last, and may be written over the one that arrives.
	overLast = [][]autograd.Ref{1: {autograd.OutGrad}}

	subOp     = &binaryOp{&autograd.Rule{Name: "sub", Each: true, Cast: autograd.CastWidest, Pass: []bool{true}, Broadcast: true, Strided: true}, kernel.BinarySub}
	mulOp     = &binaryOp{&autograd.Rule{Name: "mul", Each: true, Cast: autograd.CastWidest, Reads: [][]autograd.Ref{{readB}, {readA}}, Over: overLast, Broadcast: true, Strided: true}, kernel.BinaryMul}
	mulOver   = &binaryOp{&autograd.Rule{Name: "mul_", Each: true, Reads: [][]autograd.Ref{{readB}}, Over: overGrad, Broadcast: true, Strided: true, InPlace: true}, kernel.BinaryMul}
	divOp     = &binaryOp{&autograd.Rule{Name: "div", Each: true, Cast: autograd.CastWidest, Reads: [][]autograd.Ref{{readB}, readBoth}, Over: overLast, Broadcast: true, Strided: true}, kernel.BinaryDiv}
	maximumOp = &binaryOp{&autograd.Rule{Name: "maximum", Each: true, Cast: autograd.CastWidest, Reads: [][]autograd.Ref{readBoth, readBoth}, Over: overLast, Broadcast: true, Strided: true}, kernel.BinaryMaximum}
	minimumOp = &binaryOp{&autograd.Rule{Name: "minimum", Each: true, Cast: autograd.CastWidest, Reads: [][]autograd.Ref{readBoth, readBoth}, Over: overLast, Broadcast: true, Strided: true}, kernel.BinaryMinimum}
)

func (o *binaryOp) Rule() *autograd.Rule { return o.rule }

func (o *binaryOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	want := wantNumbers
	if o.f != kernel.BinarySub && o.f != kernel.BinaryMul {
		want = wantFloats
	}
	if err := want(in...); err != nil {
		return err
	}
	return inferZip(in[0].DType, sh, in...)
}

// inferZip asks for one output, of the shape that the inputs broadcast to.
func inferZip(dt tensor.DType, sh *autograd.Shapes, in ...tensor.Spec) error {
	shape := in[0].Shape
	for _, s := range in[1:] {
		var err error
		if shape, err = tensor.BroadcastShapes(shape, s.Shape); err != nil {
			return err
		}
	}
	sh.Like(tensor.Spec{DType: dt, Shape: shape})
	sh.Chunks = kernel.Chunks(product(shape))
	sh.BwdChunks = sh.Chunks
	return wantRank(shape)
}

// wantNumbers refuses inputs that are not all of one of the dtypes that arithmetic and comparisons know.
func wantNumbers(in ...tensor.Spec) error {
	switch in[0].DType {
	case tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32:
	default:
		return fmt.Errorf("want a float dtype, int64 or int32, got %s"+dtypeTable, in[0].DType)
	}
	for _, s := range in[1:] {
		if s.DType != in[0].DType {
			return errDTypes
		}
	}
	return nil
}

// number is what kernels of those dtypes are instantiated with.
type number interface {
	kernel.Number
	tensor.Elem
}

// byNumber chooses by a dtype that wantNumbers has let pass.
func byNumber[F any](dt tensor.DType, f32, f64, i32, i64 F) F {
	switch dt {
	case tensor.Int32:
		return i32
	case tensor.Int64:
		return i64
	}
	return byFloat(dt, f32, f64)
}

func (o *binaryOp) Forward(f *autograd.Fwd) {
	byNumber(f.Out[0].DType(), binaryForward[float32], binaryForward[float64], binaryForward[int32], binaryForward[int64])(o, f)
}

func binaryForward[T number](o *binaryOp, f *autograd.Fwd) {
	y, a, b := operand.Of[T](&f.Out[0]), operand.Of[T](&f.In[0]), operand.Of[T](&f.In[1])
	n := f.Out[0].Elems()
	if n <= kernel.ChunkSize {
		kernel.Zip(o.f, y, a, b, 0, n)
		return
	}
	f.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Zip(o.f, y, a, b, lo, hi)
	})
}

func (o *binaryOp) Backward(b *autograd.Bwd) {
	if o.f == kernel.BinarySub {
		scale(b, 1, -1)
		return
	}
	for i := range 2 {
		if dst, _ := b.Into(i); dst != nil {
			byFloat(dst.DType(), binaryBackward[float32], binaryBackward[float64])(o, b, i)
		}
	}
}

// binaryBackward is the gradient of input i.
func binaryBackward[T kernel.Float](o *binaryOp, b *autograd.Bwd, i int) {
	dst, add := b.Into(i)
	dx, g, other := operand.Of[T](dst), operand.Of[T](b.Grad(0)), operand.Of[T](b.In(1-i))
	var own kernel.Strided[T]
	if len(o.rule.Reads[i]) == 2 {
		own = operand.Of[T](b.In(i))
	}
	n := dst.Elems()
	b.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.ZipBackward(o.f, i == 1, dx, add, g, own, other, lo, hi)
	})
}
