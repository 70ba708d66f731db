package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestSGD(t *testing.T) {
	kerneltest.SGD(t, kernel.SGDStep[float32])
	kerneltest.SGD(t, kernel.SGDStep[float64])
	kerneltest.OptimSpecials(t, func(scale float64, p, g []float32) {
		kernel.SGDStep(&kernel.SGD{LR: 0.1, Momentum: 0.9, GradScale: scale, First: true}, p, g, make([]float32, len(p)))
	})
}

func TestAdam(t *testing.T) {
	kerneltest.Adam(t, kernel.AdamStep[float32])
	kerneltest.Adam(t, kernel.AdamStep[float64])
	kerneltest.OptimSpecials(t, func(scale float64, p, g []float32) {
		h := kernel.Adam{LR: 0.1, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Correct1: 0.1, Correct2: 0.001, GradScale: scale}
		kernel.AdamStep(&h, p, g, make([]float32, len(p)), make([]float32, len(p)), nil)
	})
}

func BenchmarkSGD(b *testing.B) {
	for _, s := range benchSizes {
		p, g, buf := make([]float32, s.n), kerneltest.Rand[float32](s.n, 1), make([]float32, s.n)
		b.Run("plain/"+s.name, func(b *testing.B) {
			perElement(b, s.n, 12, func() { kernel.SGDStep(&kernel.SGD{LR: 0.1, GradScale: 1}, p, g, nil) })
		})
		b.Run("momentum/"+s.name, func(b *testing.B) {
			perElement(b, s.n, 20, func() { kernel.SGDStep(&kernel.SGD{LR: 0.1, GradScale: 1, Momentum: 0.9}, p, g, buf) })
		})
	}
}

func BenchmarkAdamW(b *testing.B) {
	h := kernel.Adam{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1, Correct1: 0.1, Correct2: 0.001, GradScale: 1}
	for _, s := range benchSizes {
		p, g, m, v := make([]float32, s.n), kerneltest.Rand[float32](s.n, 1), make([]float32, s.n), make([]float32, s.n)
		b.Run(s.name, func(b *testing.B) {
			perElement(b, s.n, 28, func() { kernel.AdamStep(&h, p, g, m, v, nil) })
		})
	}
}
