package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestReLU(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.ReLU(t, kernel.ReLU[float32], kernel.ReLUBackward[float32])
	})
	kerneltest.ReLU(t, kernel.ReLU[float64], kernel.ReLUBackward[float64])
}

func BenchmarkReLU(b *testing.B) {
	for _, s := range benchSizes {
		x, y, mask := kerneltest.Rand[float32](s.n, 1), make([]float32, s.n), make([]uint8, kernel.MaskBytes(s.n))
		b.Run("forward/"+s.name, func(b *testing.B) { perElement(b, s.n, 8, func() { kernel.ReLU(y, x, mask) }) })
		b.Run("nomask/"+s.name, func(b *testing.B) { perElement(b, s.n, 8, func() { kernel.ReLU(y, x, nil) }) })
		b.Run("backward/"+s.name, func(b *testing.B) { perElement(b, s.n, 8, func() { kernel.ReLUBackward(y, false, x, mask) }) })
		b.Run("add/"+s.name, func(b *testing.B) { perElement(b, s.n, 12, func() { kernel.ReLUBackward(y, true, x, mask) }) })
	}
}
