package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

type (
	// CrossEntropyFunc has the signature of kernel.CrossEntropy.
	CrossEntropyFunc[T kernel.Float, I kernel.Index] = func(
		part []float64, loss, lse, x []T, targets []I, cols int, o *kernel.CrossEntropyOptions[T])
	// CrossEntropyBackwardFunc has the signature of kernel.CrossEntropyBackward.
	CrossEntropyBackwardFunc[T kernel.Float, I kernel.Index] = func(
		dx []T, add bool, g []T, scale float64, x, lse []T, targets []I, cols int, o *kernel.CrossEntropyOptions[T])
)

const ignored = -100

// ceCase is logits with targets, one in five ignored, and the naive loss, log-sum-exp and gradient of each row's loss.
type ceCase[T kernel.Float, I kernel.Index] struct {
	rows, cols int
	x          []T
	targets    []I
	o          *kernel.CrossEntropyOptions[T]
	loss, lse  []float64
	dx         []float64
	sum, kept  float64
}

// ceCases are all matrices with each option, and one with all of them.
func ceCases[T kernel.Float, I kernel.Index](run func(k *ceCase[T, I])) {
	for _, m := range Matrices() {
		weight := Rand[T](m[1], 7)
		for i := range weight {
			weight[i] = max(weight[i], -weight[i])
		}
		run(newCECase[T, I](m[0], m[1], &kernel.CrossEntropyOptions[T]{Ignore: ignored}))
		run(newCECase[T, I](m[0], m[1], &kernel.CrossEntropyOptions[T]{Ignore: ignored, Weight: weight}))
		run(newCECase[T, I](m[0], m[1], &kernel.CrossEntropyOptions[T]{Ignore: ignored, Smoothing: 0.1}))
		run(newCECase[T, I](m[0], m[1], &kernel.CrossEntropyOptions[T]{Ignore: ignored, Smoothing: 0.3, Weight: weight}))
	}
}

func newCECase[T kernel.Float, I kernel.Index](rows, cols int, o *kernel.CrossEntropyOptions[T]) *ceCase[T, I] {
	k := &ceCase[T, I]{rows: rows, cols: cols, x: Rand[T](rows*cols, 1), targets: Indices[I](rows, cols, 2), o: o}
	k.loss, k.lse, k.dx = make([]float64, rows), make([]float64, rows), make([]float64, rows*cols)
	for r := range rows {
		if r%5 == 2 {
			k.targets[r] = ignored
		}
		k.row(r)
	}
	return k
}

// row takes the loss as the cross-entropy with a mixture q of the target and all classes: sum of q w (lse - x).
func (k *ceCase[T, I]) row(r int) {
	var e float64
	row := k.x[r*k.cols:][:k.cols]
	for i, v := range row {
		row[i] = 4 * v
		e += math.Exp(float64(row[i]))
	}
	k.lse[r] = math.Log(e)
	if k.targets[r] == ignored {
		return
	}
	var mass float64
	for i, v := range row {
		q := k.o.Smoothing / float64(k.cols)
		if i == int(k.targets[r]) {
			q += 1 - k.o.Smoothing
		}
		if k.o.Weight != nil {
			q *= float64(k.o.Weight[i])
		}
		mass += q
		k.loss[r] += q * (k.lse[r] - float64(v))
		k.dx[r*k.cols+i] = -q
	}
	for i, v := range row {
		k.dx[r*k.cols+i] += mass * math.Exp(float64(v)-k.lse[r])
	}
	w := 1.0
	if k.o.Weight != nil {
		w = float64(k.o.Weight[k.targets[r]])
	}
	k.sum += k.loss[r]
	k.kept += w
}

// CrossEntropy tests losses, log-sum-exps, the sum and the weight.
func CrossEntropy[T kernel.Float, I kernel.Index](t *testing.T, forward CrossEntropyFunc[T, I]) {
	ceCases(func(k *ceCase[T, I]) {
		rows, cols := k.rows, k.cols
		var sum, kept float64
		var bad int
		got := AnyOrder(t, kernel.RowChunks(rows, cols), func() (func(int), func() []T) {
			out := dirty[T](2*rows, false)
			parts := make([]float64, kernel.CrossEntropyPart*kernel.RowChunks(rows, cols))
			return func(c int) {
					lo, hi := kernel.RowRange(rows, cols, c)
					part := parts[c*kernel.CrossEntropyPart:][:kernel.CrossEntropyPart]
					forward(part, out[lo:hi], out[rows+lo:rows+hi], k.x[lo*cols:hi*cols], k.targets[lo:hi], cols, k.o)
				}, func() []T {
					sum, kept, bad = kernel.CrossEntropyFinish(parts, rows, cols)
					return append(out, T(sum))
				}
		})
		slack := slack64[T](cols) * 32
		Close(t, append(append([]float64{}, k.loss...), k.lse...), got[:2*rows], 2, 8+slack, "loss, lse", rows, cols, k.o)
		Close64(t, []float64{k.sum}, got[2*rows:], k.sum+1, "sum", rows, cols, k.o)
		require.InEpsilon(t, k.kept+1, kept+1, 1e-12)
		require.Equal(t, -1, bad)
		part := make([]float64, kernel.CrossEntropyPart)
		forward(part, nil, nil, k.x, k.targets, cols, k.o)
		require.InDelta(t, sum, part[0], 1e-9*(1+math.Abs(sum)))
	})
}

// CrossEntropyBackward tests the gradient with and without a factor a row.
func CrossEntropyBackward[T kernel.Float, I kernel.Index](t *testing.T, backward CrossEntropyBackwardFunc[T, I]) {
	const scale = 0.75
	ceCases(func(k *ceCase[T, I]) {
		rows, cols := k.rows, k.cols
		lse := make([]T, rows)
		for r, v := range k.lse {
			lse[r] = T(v)
		}
		for _, g := range [][]T{nil, Rand[T](rows, 5)} {
			want := clone(k.dx)
			for i := range want {
				if want[i] *= scale; g != nil {
					want[i] *= float64(g[i/cols])
				}
			}
			for _, add := range []bool{false, true} {
				got := AnyOrder(t, kernel.RowChunks(rows, cols), func() (func(int), func() []T) {
					dx := dirty[T](rows*cols, add)
					return func(c int) {
						lo, hi := kernel.RowRange(rows, cols, c)
						backward(dx[lo*cols:hi*cols], add, kernel.Cut(g, lo, hi), scale, k.x[lo*cols:hi*cols], lse[lo:hi], k.targets[lo:hi], cols, k.o)
					}, func() []T { return dx }
				})
				Close(t, plus(want, dirty[T](rows*cols, add), add), got, 16, 32+32*slack64[T](cols), "dx", rows, cols, k.o, g != nil, add)
			}
		}
	})
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
	o := &kernel.CrossEntropyOptions[T]{Ignore: ignored}
	for _, r := range rows {
		part, loss, lse, x := make([]float64, kernel.CrossEntropyPart), make([]T, 2), make([]T, 2), append([]T{0, 0, 0}, r.x[:]...)
		targets := []I{1, r.target}
		forward(part, loss, lse, x, targets, 3, o)
		Close(t, []float64{math.Log(3), r.loss}, loss, 2, 2, r)
		if r.bad {
			require.Equal(t, 1.0, part[2])
			continue
		}
		require.Equal(t, -1.0, part[2])
		want, got := make([]T, 6), clone(x)
		backward(want, false, nil, 1, x, lse, targets, 3, o)
		backward(got, false, nil, 1, got, lse, targets, 3, o)
		SameBits(t, want, got, "in place")
		if r.target == ignored {
			SameBits(t, make([]T, 3), got[3:])
		} else if math.IsNaN(r.loss) {
			Close(t, filled(3, math.NaN()), got[3:], 0, 0)
		}
	}
}
