package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestRMSNorm(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.RMSNorm(t, kernel.RMSNorm[float32])
	})
	kerneltest.RMSNorm(t, kernel.RMSNorm[float64])
}

func TestRMSNormBackward(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.RMSNormBackward(t, kernel.RMSNormBackward[float32])
	})
	kerneltest.RMSNormBackward(t, kernel.RMSNormBackward[float64])
}

func TestRMSNormWeight(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.RMSNormWeight(t, kernel.RMSNormWeightPart[float32], kernel.RMSNormWeightFinish[float32])
	})
	kerneltest.RMSNormWeight(t, kernel.RMSNormWeightPart[float64], kernel.RMSNormWeightFinish[float64])
}

func BenchmarkRMSNorm(b *testing.B) {
	const rows, cols = 2048, 384
	const n = rows * cols
	x, y, w := kerneltest.Rand[float32](n, 1), make([]float32, n), kerneltest.Rand[float32](cols, 2)
	rstd := make([]float32, rows)
	b.Run("forward", func(b *testing.B) {
		perElement(b, n, 8, func() { kernel.RMSNorm(y, rstd, x, w, cols, 1e-5) })
	})
	b.Run("backward", func(b *testing.B) {
		perElement(b, n, 12, func() { kernel.RMSNormBackward(y, false, x, x, w, rstd, cols) })
	})
}
