package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/philox"
)

// Dropout tests the mask against the words themselves, whatever the chunks.
func Dropout[T kernel.Float](t *testing.T, dropout func(dst []T, add bool, src []T, p float64, words kernel.Words)) {
	words := kernel.Words{Seed: 7, Stream: 3, Offset: 1<<34 - 5}
	for _, n := range Sizes() {
		src, drawn := Specials(Rand[T](n, 1), 1), make([]uint32, n)
		philox.Fill(drawn, words.Seed, words.Stream, words.Offset)
		for _, p := range []float64{0, 0.1, 0.5, 0.9, 1} {
			for _, add := range []bool{false, true} {
				want := dirty[T](n, true)
				for i, w := range drawn {
					var m T
					if float64(w) >= p*(1<<32) {
						m = T(1 / (1 - p))
					}
					if v := src[i] * m; add {
						want[i] += v
					} else {
						want[i] = v
					}
				}
				got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
					dst := dirty[T](n, add)
					return func(c int) {
						lo, hi := kernel.Range(n, c)
						dropout(dst[lo:hi], add, src[lo:hi], p, words.From(lo))
					}, func() []T { return dst }
				})
				if add { // a product may be fused into the sum
					wide := make([]float64, n)
					for i, v := range want {
						wide[i] = float64(v)
					}
					Close(t, wide, got, 1, 8, n, p)
				} else {
					SameBits(t, want, got, n, p)
				}
			}
		}
	}
	keeps(t, dropout)
}

// keeps tests the share that is kept, 5 sigma, and that the mean stays.
func keeps[T kernel.Float](t *testing.T, dropout func(dst []T, add bool, src []T, p float64, words kernel.Words)) {
	const n = 1 << 16
	for _, p := range []float64{0.1, 0.5, 0.9} {
		y := make([]T, n)
		dropout(y, false, filled(n, T(1)), p, kernel.Words{Seed: 1})
		kept := 0
		for _, v := range y {
			if v != 0 {
				require.Equal(t, T(1/(1-p)), v)
				kept++
			}
		}
		require.InDelta(t, n*(1-p), kept, 5*math.Sqrt(n*p*(1-p)))
	}
}
