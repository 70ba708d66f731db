package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Matrices are row and column counts around unrolling and chunks.
func Matrices() [][2]int {
	return [][2]int{
		{0, 5}, {1, 1}, {3, 1}, {1, 2}, {2, 3}, {5, 4}, {7, 5}, {4, 8}, {3, 17}, {33, 64}, {130, 127}, {1000, 65}, {70, 300}, {9, 5000},
		{2, kernel.ChunkSize - 1}, {2, kernel.ChunkSize + 1}, {20000, 3},
	}
}

const layerNormEps = 1e-5

// LayerNorm tests forward with and without weight, bias and statistics.
func LayerNorm[T kernel.Float](t *testing.T, forward func(y, stats, x, w, b []T, cols int, eps float64)) {
	for _, m := range Matrices() {
		rows, cols := m[0], m[1]
		for _, affine := range []struct{ w, b bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
			x, w, b := normInputs[T](rows, cols, affine.w, affine.b)
			want, wantStats, _ := layerNorm(x, w, b, cols)
			var stats []T
			got := AnyOrder(t, kernel.RowChunks(rows, cols), func() (func(int), func() []T) {
				y := dirty[T](rows*cols, false)
				stats = dirty[T](2*rows, false)
				return func(c int) {
					lo, hi := kernel.RowRange(rows, cols, c)
					forward(y[lo*cols:hi*cols], stats[2*lo:2*hi], x[lo*cols:hi*cols], w, b, cols, layerNormEps)
				}, func() []T { return y }
			})
			Close(t, want, got, 8, 16*largestScale(wantStats)+slack64[T](cols), "y", m, affine)
			Close(t, wantStats, stats, 2, 1+slack64[T](cols), "stats", m)
			y := dirty[T](rows*cols, false)
			forward(y, nil, x, w, b, cols, layerNormEps)
			SameBits(t, got, y, "without stats")
		}
	}
}

// normInputs have a mean that is not small.
func normInputs[T kernel.Float](rows, cols int, weight, bias bool) (x, w, b []T) {
	x = Rand[T](rows*cols, 1)
	for i := range x {
		x[i] += 2
	}
	if weight {
		w = Rand[T](cols, 2)
	}
	if bias {
		b = Rand[T](cols, 3)
	}
	return x, w, b
}

// largestScale is the largest rstd, or 1: what a row of nearly equal elements makes of the rounding of its mean.
func largestScale(stats []float64) float64 {
	s := 1.0
	for i := 1; i < len(stats); i += 2 {
		s = max(s, stats[i])
	}
	return s
}

// slack64 is what a float64 sum of n terms loses, in Eps of T.
func slack64[T kernel.Float](n int) float64 { return math.Sqrt(float64(n)) * Eps[float64]() / Eps[T]() }

func layerNorm[T kernel.Float](x, w, b []T, cols int) (y, stats, xhat []float64) {
	y, xhat = make([]float64, len(x)), make([]float64, len(x))
	for lo := 0; lo < len(x); lo += cols {
		var sum, squares total
		for _, v := range x[lo:][:cols] {
			sum.add(float64(v))
		}
		mean := sum.value() / float64(cols)
		for _, v := range x[lo:][:cols] {
			squares.add((float64(v) - mean) * (float64(v) - mean))
		}
		rstd := 1 / math.Sqrt(squares.value()/float64(cols)+layerNormEps)
		stats = append(stats, mean, rstd)
		for i, v := range x[lo:][:cols] {
			z := (float64(v) - mean) * rstd
			xhat[lo+i] = z
			if w != nil {
				z *= float64(w[i])
			}
			if b != nil {
				z += float64(b[i])
			}
			y[lo+i] = z
		}
	}
	return y, stats, xhat
}

// LayerNormConstant tests rows without variance, which the two passes must not make negative, and rows with NaN or Inf.
func LayerNormConstant[T kernel.Float](t *testing.T, forward func(y, stats, x, w, b []T, cols int, eps float64)) {
	x := append(filled(50, T(1e4)), filled(50, T(1))...)
	x[51] = T(math.NaN())
	x = append(x, filled(50, T(1))...)
	x[101] = T(math.Inf(1))
	y, stats := make([]T, 150), make([]T, 6)
	forward(y, stats, x, nil, nil, 50, layerNormEps)
	Close(t, make([]float64, 50), y[:50], 0, 0)
	Close(t, filled(100, math.NaN()), y[50:], 0, 0)
	Close(t, []float64{1e4, 1 / math.Sqrt(layerNormEps)}, stats[:2], 1, 0)
}

// LayerNormBackward tests the gradient of x.
func LayerNormBackward[T kernel.Float](t *testing.T, backward func(dx []T, add bool, g, x, w, stats []T, cols int)) {
	for _, m := range Matrices() {
		rows, cols := m[0], m[1]
		for _, weight := range []bool{false, true} {
			x, w, _ := normInputs[T](rows, cols, weight, false)
			g := Rand[T](rows*cols, 4)
			_, stats, xhat := layerNorm(x, nil, nil, cols)
			want := layerNormBackward(g, w, stats, xhat, cols)
			rounded := make([]T, len(stats))
			for i, v := range stats {
				rounded[i] = T(v)
			}
			for _, add := range []bool{false, true} {
				got := AnyOrder(t, kernel.RowChunks(rows, cols), func() (func(int), func() []T) {
					dx := dirty[T](rows*cols, add)
					return func(c int) {
						lo, hi := kernel.RowRange(rows, cols, c)
						backward(dx[lo*cols:hi*cols], add, g[lo*cols:hi*cols], x[lo*cols:hi*cols], w, rounded[2*lo:2*hi], cols)
					}, func() []T { return dx }
				})
				scale := largestScale(stats)
				Close(t, plus(want, dirty[T](rows*cols, add), add), got, 8, 16*scale*scale+slack64[T](cols), "dx", m, weight, add)
			}
		}
	}
}

func layerNormBackward[T kernel.Float](g, w []T, stats, xhat []float64, cols int) []float64 {
	dx := make([]float64, len(g))
	gw := func(i int) float64 {
		if w == nil {
			return float64(g[i])
		}
		return float64(g[i]) * float64(w[i%cols])
	}
	for lo := 0; lo < len(g); lo += cols {
		var m1, m2 float64
		for i := lo; i < lo+cols; i++ {
			m1 += gw(i) / float64(cols)
			m2 += gw(i) * xhat[i] / float64(cols)
		}
		for i := lo; i < lo+cols; i++ {
			dx[i] = stats[2*(lo/cols)+1] * (gw(i) - m1 - xhat[i]*m2)
		}
	}
	return dx
}

// LayerNormAffine tests the gradients of weight and bias, together and one alone.
func LayerNormAffine[T kernel.Float](
	t *testing.T,
	part func(p kernel.LayerNormAffine, g, x, stats []T, shared []float64, c int),
	finish func(p kernel.LayerNormAffine, dw []T, addW bool, db []T, addB bool, shared []float64),
) {
	for _, m := range Matrices() {
		rows, cols := m[0], m[1]
		x, _, _ := normInputs[T](rows, cols, false, false)
		g := Rand[T](rows*cols, 4)
		_, stats, xhat := layerNorm(x, nil, nil, cols)
		rounded := make([]T, len(stats))
		for i, v := range stats {
			rounded[i] = T(v)
		}
		want := make([]float64, 2*cols) // dw, db
		for i := range g {
			want[i%cols] += float64(g[i]) * xhat[i]
			want[cols+i%cols] += float64(g[i])
		}
		p := kernel.NewLayerNormAffine(rows, cols)
		size := 16 * math.Sqrt(float64(rows+1))
		for _, add := range []bool{false, true} {
			old := append(dirty[T](cols, add), dirty[T](cols, !add)...)
			var shared []float64
			got := AnyOrder(t, p.Chunks(), func() (func(int), func() []T) {
				dst := clone(old)
				shared = filled(int(p.SharedBytes()/8), math.NaN())
				return func(c int) { part(p, g, x, rounded, shared, c) },
					func() []T { finish(p, dst[:cols], add, dst[cols:], !add, shared); return dst }
			})
			full := append(plus(want[:cols:cols], old[:cols], add), plus(want[cols:], old[cols:], !add)...)
			Close(t, full, got, 8, size*largestScale(stats), "affine", m, add)
			alone := dirty[T](cols, false)
			finish(p, nil, false, alone, false, shared)
			Close(t, want[cols:], alone, 2, size, "bias alone", m)
			finish(p, alone, false, nil, false, shared)
			require.Len(t, alone, cols)
		}
	}
}
