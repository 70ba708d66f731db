package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestLayerNorm(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.LayerNorm(t, kernel.LayerNorm[float32])
	})
	kerneltest.LayerNorm(t, kernel.LayerNorm[float64])
	eachFamily(t, func(t *testing.T) {
		kerneltest.LayerNormConstant(t, kernel.LayerNorm[float32])
	})
	kerneltest.LayerNormConstant(t, kernel.LayerNorm[float64])
}

func TestLayerNormBackward(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.LayerNormBackward(t, kernel.LayerNormBackward[float32])
	})
	kerneltest.LayerNormBackward(t, kernel.LayerNormBackward[float64])
}

func TestLayerNormAffine(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.LayerNormAffine(t, kernel.LayerNormAffinePart[float32], kernel.LayerNormAffineFinish[float32])
	})
	kerneltest.LayerNormAffine(t, kernel.LayerNormAffinePart[float64], kernel.LayerNormAffineFinish[float64])
}

func BenchmarkLayerNorm(b *testing.B) {
	const rows, cols = 2048, 384
	const n = rows * cols
	x, y, w := kerneltest.Rand[float32](n, 1), make([]float32, n), kerneltest.Rand[float32](cols, 2)
	stats, dw := make([]float32, 2*rows), make([]float32, cols)
	b.Run("forward", func(b *testing.B) {
		perElement(b, n, 8, func() { kernel.LayerNorm(y, stats, x, w, w, cols, 1e-5) })
	})
	b.Run("backward", func(b *testing.B) {
		perElement(b, n, 12, func() { kernel.LayerNormBackward(y, false, x, x, w, stats, cols) })
	})
	p := kernel.NewLayerNormAffine(rows, cols)
	shared := make([]float64, p.SharedBytes()/8)
	b.Run("affine", func(b *testing.B) {
		perElement(b, n, 8, func() {
			for c := range p.Chunks() {
				kernel.LayerNormAffinePart(p, x, x, stats, shared, c)
			}
			kernel.LayerNormAffineFinish(p, dw, false, dw, false, shared)
		})
	})
}
