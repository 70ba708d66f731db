package kernel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestMixedGEMM(t *testing.T) {
	eachFamily(t, func(t *testing.T) { kerneltest.MixedGEMM(t) })
}

func TestMixedGEMMCuts(t *testing.T) {
	for range 2000 {
		m, n, k := rand.IntN(3000), rand.IntN(3000), rand.IntN(3000)
		require.LessOrEqual(t, kernel.MixedGEMMScratch(m, n, k), int64(464<<10), "%d %d %d", m, n, k)
	}
	require.Zero(t, kernel.MixedGEMMChunks(0, 5, 5))
	require.Equal(t, 1, kernel.MixedGEMMChunks(5, 5, 0))
}

func TestMixedGEMMPanics(t *testing.T) {
	g := kernel.MixedGEMM{
		M: 3, N: 4, K: 5,
		A: kernel.Mixed{Bits: make([]uint16, 14), LD: 5}, B: kernel.Mixed{Float: make([]float32, 20), LD: 4},
		C: kernel.Mixed{Bits: make([]uint16, 12), LD: 4},
	}
	scratch := make([]byte, 1<<17)
	require.Contains(t, panics(func() { g.Chunk(scratch, 0) }), "A has 14 elements, want 3 rows of 5")
	g.A.Bits = make([]uint16, 15)
	require.Contains(t, panics(func() { g.Chunk(scratch, 1) }), "chunk 1 of 1")
	require.Contains(t, panics(func() { g.Chunk(scratch[:8], 0) }), "scratch")
}
