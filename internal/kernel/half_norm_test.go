package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The norms of halves are those of their values; what is written is rounded.
func TestHalfNorms(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for name, h := range halves {
		for _, n := range []int{0, 1, 127, 128, 300} {
			bits, wide := make([]uint16, n), make([]float32, n)
			for i := range bits {
				bits[i] = round(h, 3*r.NormFloat64())
			}
			h.Widen(wide, bits)
			var want float64
			for _, v := range wide {
				want += float64(v) * float64(v)
			}
			require.InEpsilon(t, want+1, h.SumSquares(bits)+1, 1e-12, name)
			require.Equal(t, -1, h.FirstNonFinite(bits), name)

			twice := append([]uint16(nil), bits...)
			h.Multiply(twice, 0.3)
			for i, v := range wide {
				require.Equal(t, round(h, float64(v*0.3)), twice[i], name)
			}
			h.ClipTo(bits, 1.3)
			for i, v := range wide {
				require.Equal(t, round(h, math.Max(-float64(float32(1.3)), math.Min(float64(float32(1.3)), float64(v)))), bits[i], name)
			}
			for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
				h.Round(bits, wide)
				for at := n - 1; at >= 0; at -= 50 {
					bits[at] = round(h, bad)
					require.Equal(t, at, h.FirstNonFinite(bits), name)
					require.False(t, h.SumSquares(bits)-h.SumSquares(bits) == 0, name)
				}
			}
		}
	}
}
