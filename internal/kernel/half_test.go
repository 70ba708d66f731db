package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestHalf(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		t.Run("F16ToF32", func(t *testing.T) { kerneltest.F16ToF32(t, kernel.F16ToF32) })
		t.Run("F32ToF16", func(t *testing.T) { kerneltest.F32ToF16(t, kernel.F32ToF16) })
		t.Run("BF16ToF32", func(t *testing.T) { kerneltest.BF16ToF32(t, kernel.BF16ToF32) })
		t.Run("F32ToBF16", func(t *testing.T) { kerneltest.F32ToBF16(t, kernel.F32ToBF16) })
	})
}

func BenchmarkHalf(b *testing.B) {
	for _, s := range benchSizes {
		x, h := kerneltest.Rand[float32](s.n, 1), make([]uint16, s.n)
		b.Run("F32ToF16/"+s.name, func(b *testing.B) { perElement(b, s.n, 6, func() { kernel.F32ToF16(h, x) }) })
		b.Run("F16ToF32/"+s.name, func(b *testing.B) { perElement(b, s.n, 6, func() { kernel.F16ToF32(x, h) }) })
		b.Run("F32ToBF16/"+s.name, func(b *testing.B) { perElement(b, s.n, 6, func() { kernel.F32ToBF16(h, x) }) })
		words := kernel.Words{Seed: 1}
		b.Run("StochasticF16/"+s.name, func(b *testing.B) { perElement(b, s.n, 6, func() { kernel.F16.RoundStochastic(h, x, words) }) })
		b.Run("StochasticBF16/"+s.name, func(b *testing.B) { perElement(b, s.n, 6, func() { kernel.BF16.RoundStochastic(h, x, words) }) })
		b.Run("BF16ToF32/"+s.name, func(b *testing.B) { perElement(b, s.n, 6, func() { kernel.BF16ToF32(x, h) }) })
	}
}
