package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Embedding tests the rows that are gathered, and bad indices.
func Embedding[T kernel.Float, I kernel.Index](t *testing.T, gather func(y, w []T, index []I, cols int) int) {
	for _, m := range Matrices() {
		rows, cols := m[0], m[1]
		const n = 37
		w, index := Specials(Rand[T](n*cols, 1), 1), Indices[I](rows, n, 2)
		want := make([]T, 0, rows*cols)
		for _, v := range index {
			want = append(want, w[int(v)*cols:][:cols]...)
		}
		got := AnyOrder(t, kernel.RowChunks(rows, cols), func() (func(int), func() []T) {
			y := dirty[T](rows*cols, false)
			return func(c int) {
				lo, hi := kernel.RowRange(rows, cols, c)
				require.Equal(t, -1, gather(y[lo*cols:hi*cols], w, index[lo:hi], cols))
			}, func() []T { return y }
		})
		SameBits(t, want, got, m)
	}
	for _, bad := range []I{-1, 4, math.MaxInt32, math.MinInt32} {
		y := make([]T, 12)
		require.Equal(t, 2, gather(y, Rand[T](12, 1), []I{0, 3, bad, bad}, 3))
	}
}

// EmbeddingBackward tests sums of rows that meet, in index order, with and without a padding index.
func EmbeddingBackward[T kernel.Float, I kernel.Index](
	t *testing.T, scatter func(dw []T, add bool, g []T, index []I, cols, c0, c1 int, pad int64),
) {
	for _, m := range Matrices() {
		rows, cols := m[0], m[1]
		for _, k := range []struct {
			n   int
			pad int64
		}{{3, -1}, {100, 0}} {
			n, pad := k.n, k.pad
			g, index := Specials(Rand[T](rows*cols, 1), 1), Indices[I](rows, n, 2)
			for _, add := range []bool{false, true} {
				want := make([]T, n*cols)
				if add {
					want = dirty[T](n*cols, true)
				}
				for r, v := range index {
					for i := range cols {
						if int64(v) != pad {
							want[int(v)*cols+i] += g[r*cols+i]
						}
					}
				}
				got := AnyOrder(t, kernel.ColChunks(cols), func() (func(int), func() []T) {
					dw := dirty[T](n*cols, add)
					return func(c int) {
						c0, c1 := kernel.ColRange(cols, c)
						scatter(dw, add, g, index, cols, c0, c1, pad)
					}, func() []T { return dw }
				})
				SameBits(t, want, got, m, n, pad, add)
			}
		}
	}
}
