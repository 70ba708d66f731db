package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestSGD(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.SGD(t, kernel.SGDStep[float32])
	})
	kerneltest.SGD(t, kernel.SGDStep[float64])
	kerneltest.OptimSpecials(t, func(scale float64, p, g []float32) {
		kernel.SGDStep(&kernel.SGD{LR: 0.1, Momentum: 0.9, GradScale: scale, First: true}, p, g, make([]float32, len(p)))
	})
}

func TestAdam(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Adam(t, kernel.AdamStep[float32])
	})
	kerneltest.Adam(t, kernel.AdamStep[float64])
	kerneltest.OptimSpecials(t, func(scale float64, p, g []float32) {
		h := kernel.Adam{LR: 0.1, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Correct1: 0.1, Correct2: 0.001, GradScale: scale}
		kernel.AdamStep(&h, p, g, make([]float32, len(p)), make([]float32, len(p)), nil)
	})
}

func TestRMSprop(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.RMSprop(t, kernel.RMSpropStep[float32])
	})
	kerneltest.RMSprop(t, kernel.RMSpropStep[float64])
	kerneltest.OptimSpecials(t, func(scale float64, p, g []float32) {
		h := kernel.RMSprop{LR: 0.1, Alpha: 0.9, Eps: 1e-4, GradScale: scale}
		kernel.RMSpropStep(&h, p, g, make([]float32, len(p)), make([]float32, len(p)), make([]float32, len(p)))
	})
}

func TestAdagrad(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Adagrad(t, kernel.AdagradStep[float32])
	})
	kerneltest.Adagrad(t, kernel.AdagradStep[float64])
	kerneltest.OptimSpecials(t, func(scale float64, p, g []float32) {
		kernel.AdagradStep(&kernel.Adagrad{Rate: 0.1, Eps: 1e-4, GradScale: scale}, p, g, make([]float32, len(p)))
	})
}

func TestLion(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Lion(t, kernel.LionStep[float32])
	})
	kerneltest.Lion(t, kernel.LionStep[float64])
	kerneltest.OptimSpecials(t, func(scale float64, p, g []float32) {
		kernel.LionStep(&kernel.Lion{LR: 0.1, Beta1: 0.9, Beta2: 0.99, GradScale: scale}, p, g, make([]float32, len(p)))
	})
	p, m := []float32{1, 1}, []float32{0, 0}
	kernel.LionStep(&kernel.Lion{LR: 0.1, Beta1: 0.9, Beta2: 0.99, GradScale: 1}, p, []float32{0, 2}, m)
	if p[0] != 1 || p[1] != 1-float32(0.1) {
		t.Fatalf("sign(0) is 0: got %v", p)
	}
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
