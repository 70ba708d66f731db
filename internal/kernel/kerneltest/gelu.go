package kerneltest

import (
	"math"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// GELU tests the exact form.
func GELU[T kernel.Float](t *testing.T, forward func(y, x []T), backward func(dst []T, add bool, g, x []T)) {
	flat(t, forward, backward, func(x float64) (y, slope float64) {
		cdf := 0.5 * math.Erfc(-x/math.Sqrt2)
		return x * cdf, cdf + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	})
}

// GELUTanh tests the tanh form.
func GELUTanh[T kernel.Float](t *testing.T, forward func(y, x []T), backward func(dst []T, add bool, g, x []T)) {
	flat(t, forward, backward, func(x float64) (y, slope float64) {
		k := math.Sqrt(2 / math.Pi)
		u := k * (x + 0.044715*x*x*x)
		half, sech := 1/(1+math.Exp(-2*u)), 1/math.Cosh(u) // (1 + tanh u)/2, sqrt(1 - tanh^2 u)
		return x * half, half + x/2*sech*sech*k*(1+3*0.044715*x*x)
	})
}

// flat tests an element-wise function and its gradient from x against f, within 2 units in the last place and 2 Eps.
func flat[T kernel.Float](
	t *testing.T, forward func(y, x []T), backward func(dst []T, add bool, g, x []T), f func(x float64) (y, slope float64),
) {
	slack := 4.0
	if Eps[T]() < 1e-10 {
		slack = 256 // 1 - sigmoid cancels, and is multiplied by x
	}
	for _, n := range Sizes() {
		x, g := Rand[T](n, 1), Rand[T](n, 2)
		for i := range x {
			x[i] *= 3 // into the tails
			if i%10 == 3 {
				x[i] = []T{T(math.NaN()), T(math.Inf(1)), T(math.Inf(-1)), 0, T(math.Copysign(0, -1)), 1e-30, -1e-30, 14, -14, 1e4, -1e4}[i/10%11]
			}
		}
		wantY, wantG := make([]float64, n), make([]float64, n)
		for i, v := range x {
			y, slope := f(float64(v))
			wantY[i], wantG[i] = y, float64(g[i])*slope
		}
		got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
			y := dirty[T](n, false)
			return func(c int) {
				lo, hi := kernel.Range(n, c)
				forward(y[lo:hi], x[lo:hi])
			}, func() []T { return y }
		})
		Close(t, wantY, got, 2, 2, "forward", n)
		for _, add := range []bool{false, true} {
			got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
				dst := dirty[T](n, add)
				return func(c int) {
					lo, hi := kernel.Range(n, c)
					backward(dst[lo:hi], add, g[lo:hi], x[lo:hi])
				}, func() []T { return dst }
			})
			Close(t, plus(wantG, dirty[T](n, add), add), got, 3, slack, "backward", n, add)
		}
	}
}
