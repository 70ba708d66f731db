package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExp32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, 200_000)
	for i := range x {
		x[i] = 1400*r.Float64() - 700
	}
	e := append([]float64(nil), x...)
	exp32(e)
	for i, v := range x {
		require.InEpsilon(t, math.Exp(v), e[i], 1e-10, "x %v", v)
	}
	for _, v := range []float64{0, math.Inf(1), math.Inf(-1), 699, 700, 701, -699, -700, -745, -800, 710, math.NaN()} {
		e := []float64{v}
		exp32(e)
		if w := math.Exp(v); w == w {
			require.True(t, e[0] == w || math.Abs(e[0]/w-1) < 1e-10, "x %v", v)
		} else {
			require.True(t, math.IsNaN(e[0]))
		}
	}
}

func TestNormal32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 200_000
	x, wide := make([]float32, n), make([]float64, n)
	for i := range x {
		x[i] = float32(40*r.Float64() - 20)
		wide[i] = float64(x[i])
	}
	cdf, density, wantCDF, wantDensity := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	normal(cdf, density, x)
	normal(wantCDF, wantDensity, wide)
	for i, v := range x {
		require.InEpsilon(t, wantCDF[i], cdf[i], 1e-9, "x %v", v)
		require.InEpsilon(t, wantDensity[i], density[i], 1e-10, "x %v", v)
	}
	inf := float32(math.Inf(1))
	normal(cdf, density, []float32{-inf, inf, inf - inf})
	require.Equal(t, []float64{0, 1}, cdf[:2])
	require.Equal(t, []float64{0, 0}, density[:2])
	require.True(t, math.IsNaN(cdf[2]))
}

func BenchmarkExp(b *testing.B) {
	x := make([]float64, 4096)
	for i := range x {
		x[i] = float64(i%200)*0.1 - 15
	}
	for _, k := range []string{"exp32", "math"} {
		b.Run(k, func(b *testing.B) {
			e := make([]float64, len(x))
			for b.Loop() {
				copy(e, x)
				if k == "math" {
					exp[float64](e)
				} else {
					exp[float32](e)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(x)), "ns/elem")
		})
	}
}
