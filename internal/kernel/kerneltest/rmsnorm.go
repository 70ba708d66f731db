package kerneltest

import (
	"math"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

const rmsNormEps = 1e-6

// RMSNorm tests forward with and without weight and statistics, and rows that are 0, NaN and Inf.
func RMSNorm[T kernel.Float](t *testing.T, forward func(y, rstd, x, w []T, cols int, eps float64)) {
	for _, m := range Matrices() {
		rows, cols := m[0], m[1]
		for _, weight := range []bool{true, false} {
			x, w, _ := normInputs[T](rows, cols, weight, false)
			want, wantStats := rmsNorm(x, w, cols)
			var rstd []T
			got := AnyOrder(t, kernel.RowChunks(rows, cols), func() (func(int), func() []T) {
				y := dirty[T](rows*cols, false)
				rstd = dirty[T](rows, false)
				return func(c int) {
					lo, hi := kernel.RowRange(rows, cols, c)
					forward(y[lo*cols:hi*cols], rstd[lo:hi], x[lo*cols:hi*cols], w, cols, rmsNormEps)
				}, func() []T { return y }
			})
			Close(t, want, got, 4, slack64[T](cols), "y", m, weight)
			Close(t, wantStats, rstd, 1, slack64[T](cols), "rstd", m)
			y := dirty[T](rows*cols, false)
			forward(y, nil, x, w, cols, rmsNormEps)
			SameBits(t, got, y, "without rstd")
		}
	}
	x := []T{0, 0, T(math.NaN()), 1, T(math.Inf(1)), 1, 1e-30, 0}
	y, rstd := make([]T, 8), make([]T, 4)
	forward(y, rstd, x, nil, 2, rmsNormEps)
	nan := math.NaN()
	Close(t, []float64{0, 0, nan, nan, nan, 0, 1e-27, 0}, y, 2, 0)
	Close(t, []float64{1e3, nan, 0, 1e3}, rstd, 2, 0)
}

func rmsNorm[T kernel.Float](x, w []T, cols int) (y, rstd []float64) {
	y = make([]float64, len(x))
	for lo := 0; lo < len(x); lo += cols {
		var squares total
		for _, v := range x[lo:][:cols] {
			squares.add(float64(v) * float64(v))
		}
		k := 1 / math.Sqrt(squares.value()/float64(cols)+rmsNormEps)
		rstd = append(rstd, k)
		for i, v := range x[lo:][:cols] {
			if y[lo+i] = float64(v) * k; w != nil {
				y[lo+i] *= float64(w[i])
			}
		}
	}
	return y, rstd
}

// RMSNormBackward tests the gradient of x.
func RMSNormBackward[T kernel.Float](t *testing.T, backward func(dx []T, add bool, g, x, w, rstd []T, cols int)) {
	for _, m := range Matrices() {
		rows, cols := m[0], m[1]
		for _, weight := range []bool{false, true} {
			x, w, _ := normInputs[T](rows, cols, weight, false)
			g := Rand[T](rows*cols, 4)
			xhat, rstd := rmsNorm(x, nil, cols)
			want := make([]float64, len(x))
			for lo := 0; lo < len(x); lo += cols {
				gw, mean := make([]float64, cols), 0.0
				for i := range gw {
					if gw[i] = float64(g[lo+i]); w != nil {
						gw[i] *= float64(w[i])
					}
					mean += gw[i] * xhat[lo+i] / float64(cols)
				}
				for i := range gw {
					want[lo+i] = rstd[lo/cols] * (gw[i] - xhat[lo+i]*mean)
				}
			}
			scale := largest(rstd)
			for _, add := range []bool{false, true} {
				got := AnyOrder(t, kernel.RowChunks(rows, cols), func() (func(int), func() []T) {
					dx := dirty[T](rows*cols, add)
					return func(c int) {
						lo, hi := kernel.RowRange(rows, cols, c)
						backward(dx[lo*cols:hi*cols], add, g[lo*cols:hi*cols], x[lo*cols:hi*cols], w, narrowed[T](rstd[lo:hi]), cols)
					}, func() []T { return dx }
				})
				Close(t, plus(want, dirty[T](rows*cols, add), add), got, 8, 16*max(1, scale)+slack64[T](cols), "dx", m, weight, add)
			}
		}
	}
}

// RMSNormWeight tests the gradient of the weight.
func RMSNormWeight[T kernel.Float](
	t *testing.T,
	part func(p kernel.RMSNormWeight, g, x, rstd []T, shared []float64, c int),
	finish func(p kernel.RMSNormWeight, dw []T, add bool, shared []float64),
) {
	for _, m := range Matrices() {
		rows, cols := m[0], m[1]
		x, _, _ := normInputs[T](rows, cols, false, false)
		g := Rand[T](rows*cols, 4)
		xhat, rstd := rmsNorm(x, nil, cols)
		want := make([]float64, cols)
		for i := range g {
			want[i%cols] += float64(g[i]) * xhat[i]
		}
		p := kernel.NewRMSNormWeight(rows, cols)
		for _, add := range []bool{false, true} {
			old := dirty[T](cols, add)
			got := AnyOrder(t, p.Chunks(), func() (func(int), func() []T) {
				dst := clone(old)
				shared := filled(int(p.SharedBytes()/8), math.NaN())
				return func(c int) { part(p, g, x, narrowed[T](rstd), shared, c) },
					func() []T { finish(p, dst, add, shared); return dst }
			})
			Close(t, plus(want, old, add), got, 4, 16*math.Sqrt(float64(rows+1)), "dw", m, add)
		}
	}
}
