package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestMap(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Map(t, kernel.Map[float32], kernel.MapBackward[float32])
	})
	kerneltest.Map(t, kernel.Map[float64], kernel.MapBackward[float64])
}

func TestElementwiseDoesNotAllocate(t *testing.T) {
	x := make([]float32, 24)
	shape := []int{2, 3, 4}
	flat := kernel.Contiguous(x, shape)
	odd := kernel.Strided[float32]{Data: x, Shape: shape, Strides: []int{1, 2, 6}}
	truth := kernel.Contiguous(make([]bool, 24), shape)
	kerneltest.NoAllocs(t, func() {
		kernel.Map(kernel.UnaryTanh, 0, flat, odd, 0, 24)
		kernel.MapBackward(kernel.UnaryTanh, 0, odd, true, flat, flat, 0, 24)
		kernel.Zip(kernel.BinaryMul, flat, odd, flat, 0, 24)
		kernel.ZipBackward(kernel.BinaryDiv, true, odd, true, flat, flat, odd, 0, 24)
		kernel.Compare(kernel.CompareLt, truth, flat, odd, 0, 24)
		kernel.Combine(kernel.LogicAnd, truth, truth, truth, 0, 24)
		kernel.Where(flat, truth, odd, flat, 0, 24)
		kernel.Fill(flat, odd, truth, 3, 0, 24)
		kernel.Keep(odd, true, flat, truth, true, 0, 24)
		kernel.SwiGLU(flat, odd, flat, 0, 24)
		kernel.SwiGLUBackward(kernel.SwiGLUGrad[float32]{Dst: odd}, kernel.SwiGLUGrad[float32]{Dst: odd}, flat, odd, flat, 0, 24)
		kernel.Convert(flat, true, kernel.Truth(truth), 0, 24)
	})
}

func BenchmarkMap(b *testing.B) {
	const n = 1 << 16
	x, y := kerneltest.Rand[float32](n, 1), make([]float32, n)
	for i := range x {
		x[i] = max(x[i], -x[i]) // in every domain
	}
	shape := []int{n / 64, 64}
	src, dst := kernel.Contiguous(x, shape), kernel.Contiguous(y, shape)
	half := kernel.Strided[float32]{Data: x, Shape: []int{n / 128, 64}, Strides: []int{128, 1}}
	for _, f := range []struct {
		name string
		f    kernel.Unary
		a    float64
	}{
		{"exp", kernel.UnaryExp, 0}, {"log", kernel.UnaryLog, 0}, {"sqrt", kernel.UnarySqrt, 0}, {"rsqrt", kernel.UnaryRsqrt, 0},
		{"reciprocal", kernel.UnaryReciprocal, 0}, {"square", kernel.UnarySquare, 0}, {"pow2.5", kernel.UnaryPow, 2.5}, {"abs", kernel.UnaryAbs, 0},
		{"sin", kernel.UnarySin, 0}, {"erf", kernel.UnaryErf, 0}, {"tanh", kernel.UnaryTanh, 0}, {"sigmoid", kernel.UnarySigmoid, 0},
		{"silu", kernel.UnarySiLU, 0}, {"softplus", kernel.UnarySoftplus, 0}, {"elu", kernel.UnaryELU, 1},
	} {
		b.Run(f.name+"/forward", func(b *testing.B) { perElement(b, n, 8, func() { kernel.Map(f.f, f.a, dst, src, 0, n) }) })
		b.Run(f.name+"/backward", func(b *testing.B) {
			perElement(b, n, 12, func() { kernel.MapBackward(f.f, f.a, dst, false, src, src, 0, n) })
		})
	}
	b.Run("square/half of the columns", func(b *testing.B) {
		perElement(b, n/2, 8, func() {
			kernel.Map(kernel.UnarySquare, 0, kernel.Contiguous(y[:n/2], half.Shape), half, 0, n/2)
		})
	})
}
