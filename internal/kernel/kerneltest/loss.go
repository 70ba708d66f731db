package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// LossFuncs are the four routines of a loss.
type LossFuncs[T kernel.Float] struct {
	Each                     func(k kernel.Loss, y, x, t []T, beta float64)
	Sum                      func(k kernel.Loss, x, t []T, beta float64) float64
	Backward, BackwardTarget func(k kernel.Loss, dx []T, add bool, g []T, scale float64, x, t []T, beta float64)
}

// naiveLoss gives a loss with its slopes in x and in t.
func naiveLoss(k kernel.Loss, x, t, beta float64) (y, dx, dt float64) {
	d := x - t
	sign := func() float64 {
		switch {
		case d > 0:
			return 1
		case d < 0:
			return -1
		}
		return d
	}
	switch k {
	case kernel.LossSquared:
		return d * d, 2 * d, -2 * d
	case kernel.LossAbsolute:
		return math.Abs(d), sign(), -sign()
	case kernel.LossSmooth:
		if math.Abs(d) < beta {
			return 0.5 * d * d / beta, d / beta, -d / beta
		}
		return math.Abs(d) - 0.5*beta, sign(), -sign()
	case kernel.LossLogistic:
		// -t log s(x) - (1-t) log(1-s(x)) in a form that does not cancel
		soft := math.Log1p(math.Exp(-math.Abs(x)))
		return t*(soft-math.Min(x, 0)) + (1-t)*(soft+math.Max(x, 0)), 1/(1+math.Exp(-x)) - t, -x
	}
	if t == 0 {
		return -t * x, -t, 0
	}
	return t * (math.Log(t) - x), -t, math.Log(t) + 1 - x
}

// Loss tests losses, their sum and gradients, over lengths around everything that a loop may cut at.
func Loss[T kernel.Float](t *testing.T, f LossFuncs[T]) {
	for k := kernel.LossSquared; k <= kernel.LossDivergence; k++ {
		for _, beta := range []float64{0, 0.7} {
			if beta == 0 && k != kernel.LossSmooth {
				continue
			}
			for _, n := range Sizes() {
				testLoss(t, f, k, beta, n)
			}
		}
	}
}

func testLoss[T kernel.Float](t *testing.T, f LossFuncs[T], k kernel.Loss, beta float64, n int) {
	x, target, g := Rand[T](n, 1), Rand[T](n, 2), Rand[T](n, 3)
	y, dx, dt := make([]float64, n), make([]float64, n), make([]float64, n)
	var sum total
	var size float64
	for i := range x {
		if k >= kernel.LossLogistic {
			target[i] = max(target[i], -target[i]) / 4 // probabilities, more or less
		}
		switch i % 16 {
		case 3:
			target[i] = x[i]
			if k == kernel.LossDivergence {
				target[i] = 0
			}
		case 5:
			x[i] *= 100
		}
		y[i], dx[i], dt[i] = naiveLoss(k, float64(x[i]), float64(target[i]), beta)
		sum.add(y[i])
		size += math.Abs(y[i])
	}
	msg := fmt.Sprint("loss ", k, ", beta ", beta, ", ", n)
	got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
		out := dirty[T](n, false)
		return func(c int) {
			lo, hi := kernel.Range(n, c)
			f.Each(k, out[lo:hi], x[lo:hi], target[lo:hi], beta)
		}, func() []T { return out }
	})
	Close(t, y, got, 2, 4, msg)
	var parts float64
	for c := range kernel.Chunks(n) {
		lo, hi := kernel.Range(n, c)
		parts += f.Sum(k, x[lo:hi], target[lo:hi], beta)
	}
	Close(t, []float64{sum.value()}, []float64{parts}, 1e6, 64*size, "sum", msg) // exp of float32 is good for 1e-10
	const scale = 0.75
	for _, rows := range [][]T{nil, g} {
		for _, add := range []bool{false, true} {
			for w, back := range []func(k kernel.Loss, dx []T, add bool, g []T, scale float64, x, t []T, beta float64){f.Backward, f.BackwardTarget} {
				want := clone([][]float64{dx, dt}[w])
				for i := range want {
					if want[i] *= scale; rows != nil {
						want[i] *= float64(rows[i])
					}
				}
				got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
					out := dirty[T](n, add)
					return func(c int) {
						lo, hi := kernel.Range(n, c)
						back(k, out[lo:hi], add, kernel.Cut(rows, lo, hi), scale, x[lo:hi], target[lo:hi], beta)
					}, func() []T { return out }
				})
				Close(t, plus(want, dirty[T](n, add), add), got, 2, 4, "backward", w, msg, rows != nil, add)
			}
		}
	}
}

// LossCorners tests NaN, infinities and zeros.
func LossCorners[T kernel.Float](t *testing.T, f LossFuncs[T]) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		k               kernel.Loss
		x, t, y, dx, dt float64
	}{
		{kernel.LossSquared, inf, 1, inf, inf, -inf}, {kernel.LossSquared, inf, inf, nan, nan, nan}, {kernel.LossSquared, nan, 0, nan, nan, nan},
		{kernel.LossAbsolute, nan, 0, nan, nan, nan}, {kernel.LossAbsolute, -inf, 0, inf, -1, 1}, {kernel.LossAbsolute, 2, 2, 0, 0, 0},
		{kernel.LossSmooth, nan, 0, nan, nan, nan}, {kernel.LossSmooth, -inf, 0, inf, -1, 1},
		{kernel.LossLogistic, 1000, 1, 0, 0, -1000}, {kernel.LossLogistic, 1000, 0, 1000, 1, -1000}, {kernel.LossLogistic, -1000, 1, 1000, -1, 1000},
		{kernel.LossLogistic, -inf, 0, nan, 0, inf}, {kernel.LossLogistic, inf, 1, nan, 0, -inf}, {kernel.LossLogistic, nan, 0, nan, nan, nan},
		{kernel.LossDivergence, -1, 0, 0, 0, 0}, {kernel.LossDivergence, -inf, 0, nan, 0, 0}, {kernel.LossDivergence, -inf, 0.5, inf, -0.5, inf},
		{kernel.LossDivergence, -1, -0.5, nan, 0.5, nan}, {kernel.LossDivergence, -1, nan, nan, nan, nan},
	} {
		x, target, out := []T{T(c.x)}, []T{T(c.t)}, make([]T, 3)
		f.Each(c.k, out[:1], x, target, 1)
		f.Backward(c.k, out[1:2], false, nil, 1, x, target, 1)
		f.BackwardTarget(c.k, out[2:], false, nil, 1, x, target, 1)
		Close(t, []float64{c.y, c.dx, c.dt}, out, 2, 0, fmt.Sprintf("%+v", c))
		SameBits(t, []T{T(c.y)}, []T{T(f.Sum(c.k, x, target, 1))}, fmt.Sprintf("sum, %+v", c))
	}
}
