package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// CrossEntropyRange tests that logits which come range by range have the bits of those that come at once: losses,
// log-sum-exps and gradients, with NaN and infinities in any range.
func CrossEntropyRange[T kernel.Float, I kernel.Index](t *testing.T) {
	for _, cols := range []int{0, 1, 65, 600, 1024, 1025, 1300, 2600, 5000} {
		x, targets := rangeRows[T, I](cols)
		weight := Rand[T](cols, 7)
		for i := range weight {
			weight[i] = max(weight[i], -weight[i])
		}
		for _, o := range []kernel.CrossEntropyOptions[T]{
			{Ignore: ignored}, {Ignore: ignored, Weight: weight}, {Ignore: ignored, Smoothing: 0.1},
			{Ignore: ignored, Smoothing: 0.3, Weight: weight},
		} {
			rangeCase(t, x, targets, cols, &o)
			o.SumWeights()
			rangeCase(t, x, targets, cols, &o)
		}
	}
}

// rangeRows are logits that rise, fall, overflow and are nothing at all, in one block of classes or another.
func rangeRows[T kernel.Float, I kernel.Index](cols int) (x []T, targets []I) {
	inf := T(math.Inf(1))
	rows := []func(i int, v T) T{
		func(_ int, v T) T { return 4 * v },
		func(i int, v T) T { return v + T(i)/8 },
		func(i int, v T) T { return v - T(i)/8 },
		func(_ int, v T) T { return v + 3e4 },
		func(i int, v T) T { return pick(i < cols/2, -inf, v) },
		func(i int, v T) T { return pick(i >= cols/2, -inf, v) },
		func(int, T) T { return -inf },
		func(i int, v T) T { return pick(i == cols-1, inf, v) },
		func(i int, v T) T { return pick(i == cols/3, inf, v) },
		func(i int, v T) T { return pick(i == cols-1, T(math.NaN()), v) },
		func(i int, v T) T { return pick(i == 0, T(math.NaN()), -inf) },
		func(_ int, v T) T { return v },
	}
	x, targets = Rand[T](len(rows)*cols, 1), Indices[I](len(rows), max(1, cols), 2)
	for r, f := range rows {
		for i, v := range x[r*cols:][:cols] {
			x[r*cols+i] = f(i, v)
		}
	}
	targets[len(targets)-1] = ignored
	if cols == 0 {
		targets = slices.Repeat([]I{ignored}, len(rows))
	}
	return x, targets
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

func rangeCase[T kernel.Float, I kernel.Index](t *testing.T, x []T, targets []I, cols int, o *kernel.CrossEntropyOptions[T]) {
	rows, part := len(targets), make([]float64, kernel.CrossEntropyPart)
	loss, lse, dx := make([]T, rows), make([]T, rows), dirty[T](len(x), false)
	kernel.CrossEntropy(part, loss, lse, x, targets, cols, o)
	kernel.CrossEntropyBackward(dx, false, loss, 0.5, x, lse, targets, cols, o)
	for per := kernel.ClassBlock(cols); ; per *= 2 {
		gotLoss, gotLSE, got := dirty[T](rows, false), dirty[T](rows, false), make([]T, len(x))
		state := make([]float64, rows*kernel.CrossEntropyState)
		for i := range state {
			state[i] = math.NaN()
		}
		each := func(f func(z []T, c kernel.ClassRange)) {
			for first := 0; first == 0 || first < cols; first += per {
				c := kernel.ClassRange{First: first, Cols: min(per, cols-first), Classes: cols}
				z := make([]T, rows*c.Cols)
				for r := range rows {
					copy(z[r*c.Cols:], x[r*cols+first:][:c.Cols])
				}
				f(z, c)
			}
		}
		each(func(z []T, c kernel.ClassRange) { kernel.CrossEntropyRange(state, z, targets, c, o) })
		kernel.CrossEntropyRows(state, gotLoss, gotLSE, targets, cols, o)
		each(func(z []T, c kernel.ClassRange) {
			kernel.CrossEntropyBackwardRange(z, false, gotLoss, 0.5, z, gotLSE, targets, c, o)
			for r := range rows {
				copy(got[r*cols+c.First:][:c.Cols], z[r*c.Cols:])
			}
		})
		about := fmt.Sprintf("%d classes in ranges of %d, smoothing %v, weights %v", cols, per, o.Smoothing, o.Weight != nil)
		SameBits(t, loss, gotLoss, about, "loss")
		SameBits(t, lse, gotLSE, about, "lse")
		SameBits(t, dx, got, about, "dx")
		sum := kernel.CrossEntropySum(1, state, rows)
		require.True(t, math.IsNaN(sum) && math.IsNaN(part[0]) || sum == 1+part[0] || math.Abs(sum-1-part[0]) < 1e-9*math.Abs(sum), about)
		if per >= cols {
			return
		}
	}
}
