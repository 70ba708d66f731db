package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pair holds what a half and the half of its error hold: bits enough for small sums.
func TestHalfPair(t *testing.T) {
	const n = 300
	r := rand.New(rand.NewPCG(5, 6))
	for name, h := range halves {
		src, back := make([]float32, n), make([]float32, n)
		hi, lo := make([]uint16, n), make([]uint16, n)
		for i := range src {
			src[i] = float32(r.NormFloat64())
		}
		src[7], src[8], src[150] = float32(math.Inf(1)), float32(math.NaN()), 0
		h.RoundPair(hi, lo, src)
		h.WidenPair(back, hi, lo)
		for i, v := range src {
			require.Equal(t, round(h, float64(v)), hi[i], name)
			if v != v {
				require.True(t, back[i] != back[i])
				continue
			}
			lost := round(h, float64(v)-widen(h, hi[i]))
			if math.IsInf(float64(v), 0) {
				lost = 0
			}
			require.Equal(t, lost, lo[i], "%s: %v", name, v)
			require.Equal(t, float32(widen(h, hi[i]))+float32(widen(h, lost)), back[i], "%s: %v", name, v)
			if i != 7 {
				require.InDelta(t, v, back[i], 0x1p-15*math.Abs(float64(v)), name)
			}
		}
	}
}

// A master stays while the weight is it rounded, and follows a weight that is not.
func TestReconcile(t *testing.T) {
	const n = 300
	r := rand.New(rand.NewPCG(7, 8))
	for name, h := range halves {
		master, want, w := make([]float32, n), make([]float32, n), make([]uint16, n)
		for i := range master {
			master[i] = float32(r.NormFloat64())
			want[i], w[i] = master[i], round(h, float64(master[i]))
			if i%3 == 0 {
				w[i] ^= 1 << uint(i%16)
				want[i] = float32(widen(h, w[i]))
			}
		}
		h.Reconcile(master, w)
		for i, v := range want {
			if v != v {
				require.True(t, master[i] != master[i], "%s %d", name, i)
				continue
			}
			require.Equal(t, math.Float32bits(v), math.Float32bits(master[i]), "%s %d", name, i)
		}
	}
}
