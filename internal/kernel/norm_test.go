package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestSumSquares(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.SumSquares(t, kernel.SumSquares[float32])
	})
	kerneltest.SumSquares(t, kernel.SumSquares[float64])
	require.InEpsilon(t, 1e76, kernel.SumSquares([]float32{1e38}), 1e-6) // beyond float32
}

func TestMultiply(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Multiply(t, kernel.Multiply[float32])
	})
	kerneltest.Multiply(t, kernel.Multiply[float64])
}

func TestFirstNonFinite(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.FirstNonFinite(t, kernel.FirstNonFinite[float32])
	})
	kerneltest.FirstNonFinite(t, kernel.FirstNonFinite[float64])
	require.True(t, kernel.AllFinite([]float32{1, 2}))
}

func BenchmarkNorm(b *testing.B) {
	for _, s := range benchSizes {
		x := kerneltest.Rand[float32](s.n, 1)
		b.Run("SumSquares/"+s.name, func(b *testing.B) { perElement(b, s.n, 4, func() { kernel.SumSquares(x) }) })
		b.Run("Multiply/"+s.name, func(b *testing.B) { perElement(b, s.n, 8, func() { kernel.Multiply(x, 1) }) })
		b.Run("FirstNonFinite/"+s.name, func(b *testing.B) { perElement(b, s.n, 4, func() { kernel.FirstNonFinite(x) }) })
	}
}
