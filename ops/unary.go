package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// Functions of one operand, element by element: y = f(x), dx = g f'. They differ in the kernel alone; the table of f and
// f' is in internal/kernel/unary.go.
//
// Saved: y where f' is simple in y, so that x may be overwritten and need not live on, else x, as in torch; nothing where
// f' is a constant. Inputs and destinations may have any strides.

// AddScalar gives x + c, of x's shape; c is rounded to x's dtype first. x is of a float dtype and any shape. Nothing is
// saved, and the gradient is handed on as it is.
func AddScalar(s *autograd.Scope, x *autograd.Value, c float64) *autograd.Value {
	return autograd.Apply(s, &unaryOp{addScalarRule, kernel.UnaryShift, c}, x)
}

// MulScalar gives c times x, of x's shape; c is rounded to x's dtype first. x is of a float dtype and any shape. Nothing
// is saved.
func MulScalar(s *autograd.Scope, x *autograd.Value, c float64) *autograd.Value {
	return autograd.Apply(s, &unaryOp{mulScalarRule, kernel.UnaryScale, c}, x)
}

// Neg gives -x, of x's shape. x is of a float dtype and any shape. Nothing is saved.
func Neg(s *autograd.Scope, x *autograd.Value) *autograd.Value { return autograd.Apply(s, negOp, x) }

// Exp gives e^x, of x's shape. x is of a float dtype and any shape. The output is saved.
func Exp(s *autograd.Scope, x *autograd.Value) *autograd.Value { return autograd.Apply(s, expOp, x) }

// Log gives the natural logarithm of x, of x's shape: -Inf at 0, NaN below. x is of a float dtype and any shape, and is
// saved.
func Log(s *autograd.Scope, x *autograd.Value) *autograd.Value { return autograd.Apply(s, logOp, x) }

// Sqrt gives the square root of x, of x's shape: NaN below 0. Its gradient at 0 is g times Inf. x is of a float dtype of
// any shape. The output is saved.
func Sqrt(s *autograd.Scope, x *autograd.Value) *autograd.Value { return autograd.Apply(s, sqrtOp, x) }

// Rsqrt gives 1 over the square root of x, of x's shape. x is of a float dtype and any shape. The output is saved.
func Rsqrt(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, rsqrtOp, x)
}

// Reciprocal gives 1/x, of x's shape. x is of a float dtype and any shape. The output is saved.
func Reciprocal(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, reciprocalOp, x)
}

// Square gives x times x, of x's shape. x is of a float dtype and any shape, and is saved.
func Square(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, squareOp, x)
}

// PowScalar gives x to the power of exponent, of x's shape: torch's pow with a number. A negative x has a power for whole
// exponents only, else NaN. x is of a float dtype and any shape, and is saved. With exponent 0 the gradient is 0 whatever
// x is.
func PowScalar(s *autograd.Scope, x *autograd.Value, exponent float64) *autograd.Value {
	return autograd.Apply(s, &unaryOp{powRule, kernel.UnaryPow, exponent}, x)
}

// Abs gives |x|, of x's shape. x is of a float dtype and any shape, and is saved. The gradient at 0 is 0, and NaN where x
// is (torch's depends on how the loop was compiled).
func Abs(s *autograd.Scope, x *autograd.Value) *autograd.Value { return autograd.Apply(s, absOp, x) }

// Sin gives the sine of x, of x's shape. x is of a float dtype and any shape, and is saved.
func Sin(s *autograd.Scope, x *autograd.Value) *autograd.Value { return autograd.Apply(s, sinOp, x) }

// Cos gives the cosine of x, of x's shape. x is of a float dtype and any shape, and is saved.
func Cos(s *autograd.Scope, x *autograd.Value) *autograd.Value { return autograd.Apply(s, cosOp, x) }

// Erf gives the error function of x, of x's shape. x is of a float dtype and any shape, and is saved.
func Erf(s *autograd.Scope, x *autograd.Value) *autograd.Value { return autograd.Apply(s, erfOp, x) }

// Tanh gives the hyperbolic tangent of x, of x's shape. x is of a float dtype and any shape. The output is saved.
func Tanh(s *autograd.Scope, x *autograd.Value) *autograd.Value { return autograd.Apply(s, tanhOp, x) }

// Sigmoid gives 1/(1+e^-x), of x's shape. x is of a float dtype and any shape. The output is saved.
func Sigmoid(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, sigmoidOp, x)
}

// SiLU gives x sigmoid(x), of x's shape. x is of a float dtype and any shape, and is saved. Where SiLU is multiplied by
// something, as in SwiGLU, use [SwiGLU].
func SiLU(s *autograd.Scope, x *autograd.Value) *autograd.Value { return autograd.Apply(s, siluOp, x) }

// Softplus gives ln(1 + e^x), and x itself where x > 20, of x's shape: torch's with beta 1 and threshold 20. x is of
// a float dtype of any shape, and is saved.
func Softplus(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, softplusOp, x)
}

// ELU gives x where x > 0, else alpha (e^x - 1), of x's shape. x is of a float dtype and any shape, and is saved.
func ELU(s *autograd.Scope, x *autograd.Value, alpha float64) *autograd.Value {
	return autograd.Apply(s, &unaryOp{eluRule, kernel.UnaryELU, alpha}, x)
}

// unaryOp is one function; a is its constant, if it has one.
type unaryOp struct {
	rule *autograd.Rule
	f    kernel.Unary
	a    float64
}

var (
	ofX = [][]autograd.Ref{{autograd.In(0)}}
	ofY = [][]autograd.Ref{{autograd.Out(0)}}

	// overGrad: each element of the gradient is computed from the same element of the one that arrives.
	overGrad = [][]autograd.Ref{{autograd.OutGrad}}

	addScalarRule = &autograd.Rule{Name: "add_scalar", Each: true, Pass: []bool{true}, Strided: true}
	mulScalarRule = &autograd.Rule{Name: "mul_scalar", Each: true, Over: overGrad, Strided: true}
	negOp         = &unaryOp{&autograd.Rule{Name: "neg", Each: true, Over: overGrad, Strided: true}, kernel.UnaryScale, -1}

	expOp        = &unaryOp{&autograd.Rule{Name: "exp", Each: true, Cast: autograd.CastFull, Reads: ofY, Over: overGrad, Strided: true}, kernel.UnaryExp, 0}
	logOp        = &unaryOp{&autograd.Rule{Name: "log", Each: true, Cast: autograd.CastFull, Reads: ofX, Over: overGrad, Strided: true}, kernel.UnaryLog, 0}
	sqrtOp       = &unaryOp{&autograd.Rule{Name: "sqrt", Each: true, Reads: ofY, Over: overGrad, Strided: true}, kernel.UnarySqrt, 0}
	rsqrtOp      = &unaryOp{&autograd.Rule{Name: "rsqrt", Each: true, Cast: autograd.CastFull, Reads: ofY, Over: overGrad, Strided: true}, kernel.UnaryRsqrt, 0}
	reciprocalOp = &unaryOp{&autograd.Rule{Name: "reciprocal", Each: true, Cast: autograd.CastFull, Reads: ofY, Over: overGrad, Strided: true}, kernel.UnaryReciprocal, 0}
	squareOp     = &unaryOp{&autograd.Rule{Name: "square", Each: true, Cast: autograd.CastFull, Reads: ofX, Over: overGrad, Strided: true}, kernel.UnarySquare, 0}
	powRule      = &autograd.Rule{Name: "pow", Each: true, Cast: autograd.CastFull, Reads: ofX, Over: overGrad, Strided: true}
	absOp        = &unaryOp{&autograd.Rule{Name: "abs", Each: true, Reads: ofX, Over: overGrad, Strided: true}, kernel.UnaryAbs, 0}
	sinOp        = &unaryOp{&autograd.Rule{Name: "sin", Each: true, Reads: ofX, Over: overGrad, Strided: true}, kernel.UnarySin, 0}
	cosOp        = &unaryOp{&autograd.Rule{Name: "cos", Each: true, Reads: ofX, Over: overGrad, Strided: true}, kernel.UnaryCos, 0}
	erfOp        = &unaryOp{&autograd.Rule{Name: "erf", Each: true, Reads: ofX, Over: overGrad, Strided: true}, kernel.UnaryErf, 0}
	tanhOp       = &unaryOp{&autograd.Rule{Name: "tanh", Each: true, Reads: ofY, Over: overGrad, Strided: true}, kernel.UnaryTanh, 0}
	sigmoidOp    = &unaryOp{&autograd.Rule{Name: "sigmoid", Each: true, Reads: ofY, Over: overGrad, Strided: true}, kernel.UnarySigmoid, 0}
	siluOp       = &unaryOp{&autograd.Rule{Name: "silu", Each: true, Reads: ofX, Over: overGrad, Strided: true}, kernel.UnarySiLU, 0}
	softplusOp   = &unaryOp{&autograd.Rule{Name: "softplus", Each: true, Cast: autograd.CastFull, Reads: ofX, Over: overGrad, Strided: true}, kernel.UnarySoftplus, 0}
	eluRule      = &autograd.Rule{Name: "elu", Each: true, Reads: ofX, Over: overGrad, Strided: true}
)

func (o *unaryOp) Rule() *autograd.Rule { return o.rule }

func (o *unaryOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error { return inferMap(in[0], sh) }

// inferMap is Infer of an op from one value of floating point to one of the same spec.
func inferMap(x tensor.Spec, sh *autograd.Shapes) error {
	if err := wantFloats(x); err != nil {
		return err
	}
	sh.Like(x)
	sh.Chunks = kernel.Chunks(x.Elems())
	sh.BwdChunks = sh.Chunks
	return wantRank(x.Shape)
}

func (o *unaryOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), unaryForward[float32], unaryForward[float64])(o, f)
}

func unaryForward[T kernel.Float](o *unaryOp, f *autograd.Fwd) {
	y, x := operand.Of[T](&f.Out[0]), operand.Of[T](&f.In[0])
	n := f.Out[0].Elems()
	if n <= kernel.ChunkSize {
		kernel.Map(o.f, o.a, y, x, 0, n)
		return
	}
	f.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Map(o.f, o.a, y, x, lo, hi)
	})
}

func (o *unaryOp) Backward(b *autograd.Bwd) {
	if o.f == kernel.UnaryScale {
		scale(b, 0, o.a)
		return
	}
	byFloat(b.OutSpec(0).DType, unaryBackward[float32], unaryBackward[float64])(o, b)
}

func unaryBackward[T kernel.Float](o *unaryOp, b *autograd.Bwd) {
	dst, add := b.Into(0)
	dx, g, r := operand.Of[T](dst), operand.Of[T](b.Grad(0)), operand.Of[T](o.reads(b))
	n := dst.Elems()
	if n <= kernel.ChunkSize {
		kernel.MapBackward(o.f, o.a, dx, add, g, r, 0, n)
		return
	}
	b.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.MapBackward(o.f, o.a, dx, add, g, r, lo, hi)
	})
}

// scale gives input i the gradient c g.
func scale(b *autograd.Bwd, i int, c float64) {
	byFloat(b.OutSpec(0).DType, scaleBackward[float32], scaleBackward[float64])(b, i, c)
}

func scaleBackward[T kernel.Float](b *autograd.Bwd, i int, c float64) {
	dst, add := b.Into(i)
	dx, g, n := operand.Of[T](dst), operand.Of[T](b.Grad(0)), dst.Elems()
	b.Par(kernel.Chunks(n), func(_, k int) {
		lo, hi := kernel.Range(n, k)
		kernel.Scale(dx, g, T(c), add, lo, hi)
	})
}

// reads is x or y, whichever the rule names.
func (o *unaryOp) reads(b *autograd.Bwd) *tensor.Tensor {
	if o.rule.Reads[0][0] == autograd.Out(0) {
		return b.Out(0)
	}
	return b.In(0)
}
