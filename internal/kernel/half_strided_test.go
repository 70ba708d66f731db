package kernel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

var halves = map[string]kernel.Half{"float16": kernel.F16, "bfloat16": kernel.BF16}

func widen(h kernel.Half, x uint16) float64 {
	var y [1]float32
	h.Widen(y[:], []uint16{x})
	return float64(y[0])
}

func round(h kernel.Half, x float64) uint16 {
	var y [1]uint16
	h.Round(y[:], []float32{float32(x)})
	return y[0]
}

func strided(n, step int, f func(i int) float32) ([]float32, kernel.Strided[float32]) {
	data := make([]float32, n*step)
	for i := range n {
		data[i*step] = f(i)
	}
	return data, kernel.Strided[float32]{Data: data, Shape: []int{n}, Strides: []int{step}}
}

// Widen, Round, Quantize and the sums agree with element by element, for every stride and piece.
func TestHalfStrided(t *testing.T) {
	const n = 300
	r := rand.New(rand.NewPCG(3, 4))
	for name, h := range halves {
		for _, step := range []int{1, 2, 3} {
			x, y := make([]float32, n), make([]float32, n)
			for i := range n {
				x[i], y[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
			}
			bits := make([]uint16, n*step)
			for i := range n {
				bits[i*step] = round(h, float64(x[i]))
			}
			hs := kernel.Strided[uint16]{Data: bits, Shape: []int{n}, Strides: []int{step}}
			_, ys := strided(n, step, func(i int) float32 { return y[i] })

			got, dst := strided(n, step, func(int) float32 { return 7 })
			kernel.Widen(h, dst, false, hs, 0, n)
			for i := range n {
				require.Equal(t, float32(widen(h, bits[i*step])), got[i*step], name)
			}
			kernel.Widen(h, dst, true, hs, 100, n)
			require.Equal(t, float32(widen(h, bits[150*step]))*2, got[150*step])
			require.Equal(t, float32(widen(h, bits[50*step])), got[50*step])
			kernel.Quantize(h, dst, ys, 0, n)
			require.Equal(t, float32(widen(h, round(h, float64(y[9])))), got[9*step])

			sum := append([]uint16(nil), bits...)
			to := kernel.Strided[uint16]{Data: sum, Shape: []int{n}, Strides: []int{step}}
			kernel.Round(h, to, true, ys, 0, n)
			for i := range n {
				require.Equal(t, round(h, float64(float32(widen(h, bits[i*step]))+y[i])), sum[i*step], "%s: rounded once", name)
			}
			copy(sum, bits)
			kernel.AccumulateHalf(h, to, hs, 0, n)
			for i := range n {
				require.Equal(t, round(h, 2*widen(h, bits[i*step])), sum[i*step], name)
			}
			copy(sum, bits)
			wide := make([]float64, n)
			for i := range wide {
				wide[i] = r.NormFloat64()
			}
			kernel.AccumulateFrom64(h, to, kernel.Contiguous(wide, []int{n}), 0, n)
			for i := range n {
				require.InDelta(t, widen(h, bits[i*step])+wide[i], widen(h, sum[i*step]), 0x1p-7*3, name)
			}
			before := append([]float64(nil), wide...)
			kernel.AccumulateTo64(h, kernel.Contiguous(wide, []int{n}), hs, 0, n)
			for i := range n {
				require.Equal(t, before[i]+widen(h, bits[i*step]), wide[i], name)
			}
		}
	}
}
