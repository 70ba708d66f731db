package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Pieces cover everything once, in order, and none is empty.
func covers(t *testing.T, n, chunks int, piece func(c int) (lo, hi int)) {
	t.Helper()
	at := 0
	for c := range chunks {
		lo, hi := piece(c)
		require.Equal(t, at, lo)
		require.Greater(t, hi, lo)
		at = hi
	}
	require.Equal(t, n, at)
}

func TestCuts(t *testing.T) {
	const size = kernel.ChunkSize
	require.Zero(t, size%8)
	for _, n := range []int{0, 1, size - 1, size, size + 1, 10*size - 1} {
		covers(t, n, kernel.Chunks(n), func(c int) (int, int) { return kernel.Range(n, c) })
	}
	for _, rows := range []int{0, 1, 2, 1000, size + 1} {
		for _, cols := range []int{0, 1, 3, 64, 65, 1000, size, size + 1} {
			covers(t, rows, kernel.RowChunks(rows, cols), func(c int) (int, int) { return kernel.RowRange(rows, cols, c) })
			covers(t, cols, kernel.ColChunks(cols), func(c int) (int, int) { return kernel.ColRange(cols, c) })
		}
	}
}

func TestCut(t *testing.T) {
	require.Nil(t, kernel.Cut([]int(nil), 1, 2))
	require.Equal(t, []int{8}, kernel.Cut([]int{7, 8, 9}, 1, 2))
}
