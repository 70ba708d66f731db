package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// SumSquares tests sums by chunk against one naive sum.
func SumSquares[T kernel.Float](t *testing.T, sumSquares func(x []T) float64) {
	for _, n := range Sizes() {
		x := Rand[T](n, 1)
		var want float64
		for _, v := range x {
			want += float64(v) * float64(v)
		}
		got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []float64) {
			parts := make([]float64, kernel.Chunks(n))
			return func(c int) {
				lo, hi := kernel.Range(n, c)
				parts[c] = sumSquares(x[lo:hi])
			}, func() []float64 { return []float64{kernel.SumParts(parts)} }
		})
		require.InEpsilon(t, want+1, got[0]+1, 1e-11)
	}
	tops := filled(1000, T(math.MaxFloat32))
	require.InEpsilon(t, 1000*math.MaxFloat32*math.MaxFloat32, sumSquares(tops), 1e-12, "beyond float32")
	require.True(t, math.IsNaN(sumSquares([]T{1, T(math.NaN()), 2})))
	require.True(t, math.IsInf(sumSquares([]T{1, 2, 3, 4, T(math.Inf(-1))}), 1))
}

// Multiply tests a factor in place, 0 times Inf included.
func Multiply[T kernel.Float](t *testing.T, multiply func(x []T, k T)) {
	for _, n := range Sizes() {
		for _, k := range []T{0, 1, -0.3} {
			x := Specials(Rand[T](n, 1), 1)
			want := clone(x)
			for i := range want {
				want[i] *= k
			}
			multiply(x, k)
			SameBits(t, want, x, n, k)
		}
	}
}

// FirstNonFinite tests every position of a short slice and some of a long one.
func FirstNonFinite[T kernel.Float](t *testing.T, first func(x []T) int) {
	for _, n := range Sizes() {
		x := Rand[T](n, 1)
		for i := range x {
			if i%3 == 0 {
				x[i] = special[T](3 + i%5) // zeros, the smallest and the largest are finite
			}
		}
		require.Equal(t, -1, first(x), n)
		for i := 0; i < n; i += 1 + n/100 {
			for k := range 3 {
				bad := clone(x)
				bad[i], bad[n-1] = special[T](k), special[T](k) // the first one counts
				require.Equal(t, i, first(bad))
			}
		}
	}
}
