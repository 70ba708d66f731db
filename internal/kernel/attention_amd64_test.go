//go:build amd64 && !purego

package kernel

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Weights are powers of two to within 1.5 units in the last place, from where they are 0 to where they are Inf.
func TestAttentionWeights(t *testing.T) {
	if !canAVX2 {
		t.Skip("no AVX2")
	}
	var p, lse [panelCols]float32
	worst := 0.0
	for x := -140.0; x < 140; x += 0.00137 {
		for i := range p {
			p[i], lse[i] = float32(x), float32(i)
		}
		attentionWeights(1, &p[0], &lse[0])
		for i, got := range p {
			y := float64(float32(x) - lse[i])
			want := math.Exp2(y)
			switch {
			case y < -126.5:
				want = 0
			case y > 127.5:
				want = math.Inf(1)
			}
			if float64(got) != want {
				worst = max(worst, math.Abs(float64(got)/want-1)) // NaN stays
			}
		}
	}
	require.LessOrEqual(t, worst, 1.5*0x1p-23)
	for in, want := range map[float32]float32{0: 1, float32(math.Inf(-1)): 0, float32(math.Inf(1)): float32(math.Inf(1))} {
		p, lse = [panelCols]float32{in}, [panelCols]float32{}
		finite := attentionWeights(1, &p[0], &lse[0]) == 0
		require.Equal(t, want, p[0])
		require.Equal(t, !math.IsInf(float64(want), 0), finite)
	}
	p[3] = float32(math.NaN())
	require.NotZero(t, attentionWeights(1, &p[0], &lse[0]))
	require.True(t, p[3] != p[3])
}

// The rows that panelGroups makes of n are at least n, and stay below the next multiple of 8.
func TestPanelGroups(t *testing.T) {
	for n := 1; n < 300; n++ {
		six, four := panelGroups(n)
		m := 6*six + 4*four
		require.True(t, m >= n && m <= roundUp(n, 8) && (m <= n+1 || n < 7), "%d: %d and %d", n, six, four)
	}
}
