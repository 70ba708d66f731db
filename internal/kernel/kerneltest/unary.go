package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// function is one of the table in kernel/unary.go. slope is a function of y where fromY is set, else of x; nil where the
// kernel has none.
type function struct {
	name     string
	f        kernel.Unary
	a        float64
	y, slope func(v float64) float64
	fromY    bool
	above    float64 // arguments lie above it: the function has a pole, or ends, there
}

func functions() []function {
	anywhere := math.Inf(-1)
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	pow := func(a float64) func(float64) float64 { return func(x float64) float64 { return math.Pow(x, a) } }
	power := func(a, above float64) function {
		slope := func(x float64) float64 {
			if a == 0 {
				return 0
			}
			return a * math.Pow(x, a-1)
		}
		return function{fmt.Sprint("pow ", a), kernel.UnaryPow, a, pow(a), slope, false, above}
	}
	return []function{
		{"shift", kernel.UnaryShift, 2.5, func(x float64) float64 { return x + 2.5 }, nil, false, anywhere},
		{"scale", kernel.UnaryScale, -0.75, func(x float64) float64 { return -0.75 * x }, nil, false, anywhere},
		{"exp", kernel.UnaryExp, 0, math.Exp, func(y float64) float64 { return y }, true, anywhere},
		{"log", kernel.UnaryLog, 0, math.Log, func(x float64) float64 { return 1 / x }, false, 0},
		{"sqrt", kernel.UnarySqrt, 0, math.Sqrt, func(y float64) float64 { return 1 / (2 * y) }, true, 0},
		{"rsqrt", kernel.UnaryRsqrt, 0, func(x float64) float64 { return 1 / math.Sqrt(x) }, func(y float64) float64 { return -y * y * y / 2 }, true, 0},
		{"reciprocal", kernel.UnaryReciprocal, 0, func(x float64) float64 { return 1 / x }, func(y float64) float64 { return -y * y }, true, anywhere},
		{"square", kernel.UnarySquare, 0, func(x float64) float64 { return x * x }, func(x float64) float64 { return 2 * x }, false, anywhere},
		power(2, anywhere), power(3, anywhere), power(-2, anywhere), power(1, anywhere), power(0, 0), power(2.5, 0), power(-0.3, 0), power(0.5, 0),
		{"abs", kernel.UnaryAbs, 0, math.Abs, func(x float64) float64 {
			if x == 0 || math.IsNaN(x) {
				return x
			}
			return math.Copysign(1, x)
		}, false, anywhere},
		{"sin", kernel.UnarySin, 0, math.Sin, math.Cos, false, anywhere},
		{"cos", kernel.UnaryCos, 0, math.Cos, func(x float64) float64 { return -math.Sin(x) }, false, anywhere},
		{"erf", kernel.UnaryErf, 0, math.Erf, func(x float64) float64 { return 2 / math.Sqrt(math.Pi) * math.Exp(-x*x) }, false, anywhere},
		{"tanh", kernel.UnaryTanh, 0, math.Tanh, func(y float64) float64 { return 1 - y*y }, true, anywhere},
		{"sigmoid", kernel.UnarySigmoid, 0, sigmoid, func(y float64) float64 { return y * (1 - y) }, true, anywhere},
		{"silu", kernel.UnarySiLU, 0, func(x float64) float64 { return x / (1 + math.Exp(-x)) },
			func(x float64) float64 { return sigmoid(x) * (1 + x*(1-sigmoid(x))) }, false, anywhere},
		{"softplus", kernel.UnarySoftplus, 0, func(x float64) float64 {
			if x > 20 {
				return x
			}
			return math.Log1p(math.Exp(x))
		}, func(x float64) float64 {
			if x > 20 {
				return 1
			}
			return sigmoid(x)
		}, false, anywhere},
		elu(1), elu(-0.5),
	}
}

func elu(a float64) function {
	return function{fmt.Sprint("elu ", a), kernel.UnaryELU, a, func(x float64) float64 {
		if x > 0 {
			return x
		}
		return a * math.Expm1(x)
	}, func(x float64) float64 {
		if x > 0 {
			return 1
		}
		return a * math.Exp(x)
	}, false, math.Inf(-1)}
}

// arguments are values around 0, into the tails, with what arithmetic trips over.
func (fn *function) arguments(n int) []float64 {
	x := Rand[float64](n, 1)
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1e-30, -1e-30, 1e-3, -1e-3, 19.9, 20.1, 90, -90, 1e4, -1e4}
	for i := range x {
		x[i] *= 3
		if i%10 == 3 {
			x[i] = odd[i/10%len(odd)]
		}
		if x[i] < fn.above {
			x[i] = -x[i]
		}
	}
	return x
}

// Map tests the functions of one operand and their gradients, each within 2 units in the last place (of the slope, where a
// difference cancels, that many of 1 besides), and that strides change no bit.
func Map[T kernel.Float](
	t *testing.T,
	forward func(f kernel.Unary, a float64, dst, src kernel.Strided[T], lo, hi int),
	backward func(f kernel.Unary, a float64, dst kernel.Strided[T], add bool, g, r kernel.Strided[T], lo, hi int),
) {
	for _, fn := range functions() {
		for _, n := range []int{0, 1, 7, 127, 128, 129, kernel.ChunkSize + 300} {
			mapValues(t, &fn, n, forward, backward)
		}
		if fn.f == kernel.UnarySquare || fn.f == kernel.UnaryTanh { // all go the same way through memory
			mapStrides(t, &fn, forward, backward)
		}
	}
}

func mapValues[T kernel.Float](
	t *testing.T, fn *function, n int,
	forward func(f kernel.Unary, a float64, dst, src kernel.Strided[T], lo, hi int),
	backward func(f kernel.Unary, a float64, dst kernel.Strided[T], add bool, g, r kernel.Strided[T], lo, hi int),
) {
	x, g, shape := make([]T, n), Rand[T](n, 2), []int{n}
	wantY, wantG := make([]float64, n), make([]float64, n)
	for i, v := range fn.arguments(n) {
		x[i] = T(v)
		wantY[i] = fn.y(float64(x[i]))
	}
	y := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
		y := dirty[T](n, false)
		return func(c int) {
			lo, hi := kernel.Range(n, c)
			forward(fn.f, fn.a, kernel.Contiguous(y, shape), kernel.Contiguous(x, shape), lo, hi)
		}, func() []T { return y }
	})
	Close(t, wantY, y, 2, 0, fn.name, n)
	over := clone(x)
	forward(fn.f, fn.a, kernel.Contiguous(over, shape), kernel.Contiguous(over, shape), 0, n)
	SameBits(t, y, over, fn.name, "in place", n)
	if fn.slope == nil {
		return
	}

	read := x
	if fn.fromY {
		read = y
	}
	for i, r := range read {
		wantG[i] = float64(g[i]) * fn.slope(float64(r))
	}
	for _, add := range []bool{false, true} {
		got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
			dst := dirty[T](n, add)
			return func(c int) {
				lo, hi := kernel.Range(n, c)
				backward(fn.f, fn.a, kernel.Contiguous(dst, shape), add, kernel.Contiguous(g, shape), kernel.Contiguous(read, shape), lo, hi)
			}, func() []T { return dst }
		})
		Close(t, plus(wantG, dirty[T](n, add), add), got, 3, 8, fn.name, "backward", n, add)
	}
}

func mapStrides[T kernel.Float](
	t *testing.T, fn *function,
	forward func(f kernel.Unary, a float64, dst, src kernel.Strided[T], lo, hi int),
	backward func(f kernel.Unary, a float64, dst kernel.Strided[T], add bool, g, r kernel.Strided[T], lo, hi int),
) {
	single := func(v T) kernel.Strided[T] { return kernel.Contiguous([]T{v}, []int{1}) }
	positive := func(v T) T { return T(math.Abs(float64(v))) }
	unary(t, func(_, src T) T {
		y := single(0)
		forward(fn.f, fn.a, y, single(positive(src)), 0, 1)
		return y.Data[0]
	}, func(dst, src kernel.Strided[T], lo, hi int) {
		src.Data = clone(src.Data)
		for i, v := range src.Data {
			src.Data[i] = positive(v)
		}
		forward(fn.f, fn.a, dst, src, lo, hi)
	})
	unary(t, func(old, src T) T {
		dst := single(old)
		backward(fn.f, fn.a, dst, true, single(2), single(src), 0, 1)
		return dst.Data[0]
	}, func(dst, src kernel.Strided[T], lo, hi int) {
		g := filled(kernel.Elems(src.Shape), T(2))
		backward(fn.f, fn.a, dst, true, kernel.Contiguous(g, src.Shape), src, lo, hi)
	})
}
