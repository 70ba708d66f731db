package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

type (
	// CrossEntropyFunc has the signature of kernel.CrossEntropy.
	CrossEntropyFunc[T kernel.Float, I kernel.Index] = func(part []float64, loss, lse, x []T, targets []I, cols int, ignore int64)
	// CrossEntropyBackwardFunc has the signature of kernel.CrossEntropyBackward.
	CrossEntropyBackwardFunc[T kernel.Float, I kernel.Index] = func(
		dx []T, add bool, g []T, scale float64, x, lse []T, targets []I, cols int, ignore int64)
)

const ignored = -100

// ceCase is logits with targets, one in five ignored, and the naive loss and log-sum-exp of each row.
type ceCase[T kernel.Float, I kernel.Index] struct {
	rows, cols int
	x          []T
	targets    []I
	loss, lse  []float64
	sum        float64
	kept       int
}

func newCECase[T kernel.Float, I kernel.Index](rows, cols int) *ceCase[T, I] {
	k := &ceCase[T, I]{rows: rows, cols: cols, x: Rand[T](rows*cols, 1), targets: Indices[I](rows, cols, 2)}
	k.loss, k.lse = make([]float64, rows), make([]float64, rows)
	for r := range rows {
		if r%5 == 2 {
			k.targets[r] = ignored
		}
		var e float64
		row := k.x[r*cols:][:cols]
		for i, v := range row {
			row[i] = 4 * v
			e += math.Exp(float64(row[i]))
		}
		k.lse[r] = math.Log(e)
		if k.targets[r] != ignored {
			k.loss[r] = k.lse[r] - float64(row[k.targets[r]])
			k.sum += k.loss[r]
			k.kept++
		}
	}
	return k
}

// CrossEntropy tests losses, log-sum-exps, the sum and the count.
func CrossEntropy[T kernel.Float, I kernel.Index](t *testing.T, forward CrossEntropyFunc[T, I]) {
	for _, m := range Matrices() {
		k := newCECase[T, I](m[0], m[1])
		rows, cols := k.rows, k.cols
		var sum float64
		var kept, bad int
		got := AnyOrder(t, kernel.RowChunks(rows, cols), func() (func(int), func() []T) {
			out := dirty[T](2*rows, false)
			parts := make([]float64, kernel.CrossEntropyPart*kernel.RowChunks(rows, cols))
			return func(c int) {
					lo, hi := kernel.RowRange(rows, cols, c)
					part := parts[c*kernel.CrossEntropyPart:][:kernel.CrossEntropyPart]
					forward(part, out[lo:hi], out[rows+lo:rows+hi], k.x[lo*cols:hi*cols], k.targets[lo:hi], cols, ignored)
				}, func() []T {
					sum, kept, bad = kernel.CrossEntropyFinish(parts, rows, cols)
					return append(out, T(sum))
				}
		})
		Close(t, append(append([]float64{}, k.loss...), k.lse...), got[:2*rows], 2, 8, "loss, lse", m)
		Close64(t, []float64{k.sum}, got[2*rows:], k.sum+1, "sum", m)
		require.Equal(t, k.kept, kept)
		require.Equal(t, -1, bad)
		part := make([]float64, kernel.CrossEntropyPart)
		forward(part, nil, nil, k.x, k.targets, cols, ignored)
		require.InDelta(t, sum, part[0], 1e-9*(1+math.Abs(sum)))
	}
}

// CrossEntropyBackward tests the gradient with and without a factor a row.
func CrossEntropyBackward[T kernel.Float, I kernel.Index](t *testing.T, backward CrossEntropyBackwardFunc[T, I]) {
	const scale = 0.75
	for _, m := range Matrices() {
		k := newCECase[T, I](m[0], m[1])
		rows, cols := k.rows, k.cols
		lse := make([]T, rows)
		for r, v := range k.lse {
			lse[r] = T(v)
		}
		for _, g := range [][]T{nil, Rand[T](rows, 5)} {
			want := make([]float64, rows*cols)
			for i := range want {
				r := i / cols
				factor := scale
				if g != nil {
					factor *= float64(g[r])
				}
				if k.targets[r] != ignored {
					want[i] = factor * math.Exp(float64(k.x[i])-k.lse[r])
					if int(k.targets[r]) == i%cols {
						want[i] -= factor
					}
				}
			}
			for _, add := range []bool{false, true} {
				got := AnyOrder(t, kernel.RowChunks(rows, cols), func() (func(int), func() []T) {
					dx := dirty[T](rows*cols, add)
					return func(c int) {
						lo, hi := kernel.RowRange(rows, cols, c)
						backward(dx[lo*cols:hi*cols], add, kernel.Cut(g, lo, hi), scale, k.x[lo*cols:hi*cols], lse[lo:hi], k.targets[lo:hi], cols, ignored)
					}, func() []T { return dx }
				})
				Close(t, plus(want, dirty[T](rows*cols, add), add), got, 16, 16, "dx", m, g != nil, add)
			}
		}
	}
}

// CrossEntropyCorners tests extreme logits, NaN, infinities, bad targets, and the gradient over the logits themselves.
func CrossEntropyCorners[T kernel.Float, I kernel.Index](
	t *testing.T, forward CrossEntropyFunc[T, I], backward CrossEntropyBackwardFunc[T, I],
) {
	inf, nan := T(math.Inf(1)), T(math.NaN())
	rows := []struct {
		x      [3]T
		target I
		loss   float64
		bad    bool
	}{
		{x: [3]T{1e4, 0, -1e4}, target: 0, loss: 0},
		{x: [3]T{1e4, 0, -1e4}, target: 2, loss: 2e4},
		{x: [3]T{-1e4, -1e4, -1e4}, target: 1, loss: math.Log(3)},
		{x: [3]T{0, -inf, 0}, target: 0, loss: math.Log(2)},
		{x: [3]T{0, -inf, 0}, target: 1, loss: math.Inf(1)},
		{x: [3]T{-inf, -inf, -inf}, target: 1, loss: math.NaN()},
		{x: [3]T{0, inf, 0}, target: 0, loss: math.NaN()},
		{x: [3]T{0, inf, 0}, target: 1, loss: math.NaN()},
		{x: [3]T{0, nan, 0}, target: 0, loss: math.NaN()},
		{x: [3]T{nan, nan, nan}, target: 0, loss: math.NaN()},
		{x: [3]T{nan, inf, 0}, target: ignored, loss: 0},
		{x: [3]T{0, 0, 0}, target: 3, loss: math.NaN(), bad: true},
		{x: [3]T{0, 0, 0}, target: -1, loss: math.NaN(), bad: true},
	}
	for _, r := range rows {
		part, loss, lse, x := make([]float64, kernel.CrossEntropyPart), make([]T, 2), make([]T, 2), append([]T{0, 0, 0}, r.x[:]...)
		targets := []I{1, r.target}
		forward(part, loss, lse, x, targets, 3, ignored)
		Close(t, []float64{math.Log(3), r.loss}, loss, 2, 2, r)
		if r.bad {
			require.Equal(t, 1.0, part[2])
			continue
		}
		require.Equal(t, -1.0, part[2])
		want, got := make([]T, 6), clone(x)
		backward(want, false, nil, 1, x, lse, targets, 3, ignored)
		backward(got, false, nil, 1, got, lse, targets, 3, ignored)
		SameBits(t, want, got, "in place")
		if r.target == ignored {
			SameBits(t, make([]T, 3), got[3:])
		} else if math.IsNaN(r.loss) {
			Close(t, filled(3, math.NaN()), got[3:], 0, 0)
		}
	}
}
