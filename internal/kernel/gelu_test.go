package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestGELU(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.GELU(t, kernel.GELU[float32], kernel.GELUBackward[float32])
	})
	kerneltest.GELU(t, kernel.GELU[float64], kernel.GELUBackward[float64])
}

func TestGELUTanh(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.GELUTanh(t, kernel.GELUTanh[float32], kernel.GELUTanhBackward[float32])
	})
	kerneltest.GELUTanh(t, kernel.GELUTanh[float64], kernel.GELUTanhBackward[float64])
}

func BenchmarkGELU(b *testing.B) {
	const n = 1 << 16
	x, y := kerneltest.Rand[float32](n, 1), make([]float32, n)
	b.Run("forward", func(b *testing.B) { perElement(b, n, 8, func() { kernel.GELU(y, x) }) })
	b.Run("backward", func(b *testing.B) { perElement(b, n, 12, func() { kernel.GELUBackward(y, false, x, x) }) })
	b.Run("tanh forward", func(b *testing.B) { perElement(b, n, 8, func() { kernel.GELUTanh(y, x) }) })
	b.Run("tanh backward", func(b *testing.B) { perElement(b, n, 12, func() { kernel.GELUTanhBackward(y, false, x, x) }) })
}
