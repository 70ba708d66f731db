package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func lossFuncs[T kernel.Float]() kerneltest.LossFuncs[T] {
	return kerneltest.LossFuncs[T]{
		Each: kernel.LossEach[T], Sum: kernel.LossSum[T], Backward: kernel.LossBackward[T], BackwardTarget: kernel.LossBackwardTarget[T],
	}
}

func TestLoss(t *testing.T) {
	kerneltest.Loss(t, lossFuncs[float32]())
	kerneltest.Loss(t, lossFuncs[float64]())
}

func TestLossCorners(t *testing.T) {
	kerneltest.LossCorners(t, lossFuncs[float32]())
	kerneltest.LossCorners(t, lossFuncs[float64]())
}

func BenchmarkLoss(b *testing.B) {
	const n = 1 << 16
	x, t, y := kerneltest.Rand[float32](n, 1), kerneltest.Rand[float32](n, 2), make([]float32, n)
	for k, name := range []string{"squared", "absolute", "smooth", "logistic", "divergence"} {
		b.Run(name, func(b *testing.B) { perElement(b, n, 8, func() { kernel.LossSum(kernel.Loss(k), x, t, 1) }) })
		b.Run(name+"/backward", func(b *testing.B) {
			perElement(b, n, 12, func() { kernel.LossBackward(kernel.Loss(k), y, false, nil, 1, x, t, 1) })
		})
	}
}
