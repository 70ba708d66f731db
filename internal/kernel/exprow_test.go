package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows of all magnitudes that scores and logits have, against math.Exp.
func TestExpRowFast(t *testing.T) {
	if _, ok := topFast(make([]float32, 1)); !ok {
		t.Skip("no fast version")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, at := range []float64{0, -3, 90, -200, 255, 257, 300, -1e4, 1e6, -3e38} {
		for _, spread := range []float64{0, 1, 20, 200} {
			for n := 1; n < 40; n++ {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(at + spread*r.NormFloat64())
				}
				expRowNear(t, x)
			}
		}
	}
}

func expRowNear(t *testing.T, x []float32) {
	t.Helper()
	top, _ := topFast(x)
	want := float32(math.Inf(-1))
	for _, v := range x {
		want = max(want, v)
	}
	require.Equal(t, want, top)
	y := append([]float32(nil), x...)
	sum, at, _ := expRowFast(y, y, top)
	require.InDelta(t, float64(top), at, math.Ln2/2*(1+1e-12))
	var total float64
	for i, v := range y {
		e := math.Exp(float64(x[i]) - at)
		unit := max(math.Abs(e)*0x1p-23, math.SmallestNonzeroFloat32)
		require.InDelta(t, e, float64(v), unit, "x %v, top %v", x[i], top)
		total += float64(v)
	}
	require.InEpsilon(t, total, sum, 1e-14)
	want64 := 0.0
	for _, v := range x {
		want64 += math.Exp(float64(v) - float64(top))
	}
	alone, _ := expSumFast(x, float64(top))
	require.InEpsilon(t, want64, alone, 0x1p-22)
	one, _ := expSumFast([]float32{top}, float64(top))
	require.Equal(t, 1.0, one)
}

func TestExpRowFastCorners(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	if _, ok := topFast([]float32{1}); !ok {
		t.Skip("no fast version")
	}
	for _, k := range []struct {
		x    []float32
		top  float32
		want []float64
		sum  float64
	}{
		{[]float32{0, -inf, -1e30, -104.5}, 0, []float64{1, 0, 0, 0}, 1},
		{[]float32{-inf, 3e38, -3e38}, 3e38, []float64{0, 1, 0}, 1},
		{[]float32{-inf, 1000}, 1000, []float64{0, 1}, 1},
		{[]float32{-inf, -inf}, -inf, nil, math.NaN()},
		{[]float32{0, inf}, inf, nil, math.NaN()},
		{[]float32{0, nan, -1}, 0, nil, math.NaN()},
		{[]float32{nan, nan}, -inf, nil, math.NaN()},
	} {
		for _, pad := range []int{0, 8} { // in the masked end, and before it
			x := append([]float32(nil), k.x...)
			for range pad {
				x = append(x, -inf)
			}
			top, _ := topFast(x)
			require.Equal(t, k.top, top, "%v", k.x)
			y := make([]float32, len(x))
			sum, _, _ := expRowFast(y, x, top)
			if math.IsNaN(k.sum) {
				require.True(t, math.IsNaN(sum), "%v", k.x)
				continue
			}
			require.Equal(t, k.sum, sum, "%v", k.x)
			for i, w := range k.want {
				require.Equal(t, w, float64(y[i]), "%v", k.x)
			}
		}
	}
}
