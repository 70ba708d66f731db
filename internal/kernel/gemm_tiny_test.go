package kernel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// A tiny product, which has a way of its own without scratch, has the bits of the corner of a large one.
func TestGEMMTiny(t *testing.T) { eachFamily(t, gemmTiny) }

func gemmTiny(t *testing.T) {
	for _, s := range [][3]int{{1, 1, 1}, {2, 4, 4}, {8, 8, 8}, {3, 16, 10}, {100, 5, 1}, {1, 8, 64}, {7, 1, 64}, {2, 15, 17}} {
		m, n, k := s[0], s[1], s[2]
		require.True(t, kernel.GEMMTiny(m, n, k))
		require.Zero(t, kernel.GEMMScratch(m, n, k, 4))
		require.Equal(t, 1, kernel.GEMMChunks(m, n, k))
		for way := range 16 {
			g := randomGEMM[float32](m+200, n+30, k, way&1 > 0, way&2 > 0)
			g.Add = way&4 > 0
			if way&8 > 0 {
				g.Bias = g.B[:n+30]
			}
			require.False(t, kernel.GEMMTiny(g.M, g.N, g.K))
			for i := range g.C {
				g.C[i] = float32(i%7) - 3
			}
			corner := *g
			corner.M, corner.N, corner.C = m, n, append([]float32(nil), g.C...)
			corner.Chunk(nil, 0)
			runGEMM(nil, 1, g, newRoom[float32](g, 1))
			for i := range m {
				at := i * g.LDC
				requireSame(t, g.C[at:at+n], corner.C[at:at+n], fmt.Sprint(s, way))
			}
		}
	}
}

func TestGEMMTinyBounds(t *testing.T) {
	require.False(t, kernel.GEMMTiny(0, 4, 4))
	require.False(t, kernel.GEMMTiny(9, 8, 8))
	require.False(t, kernel.GEMMTiny(1, 17, 1))
	require.False(t, kernel.GEMMTiny(1, 1, 65))
	require.False(t, kernel.GEMMTiny(1<<40, 1<<40, 1<<40))
}
