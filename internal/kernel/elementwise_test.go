package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestZip(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Zip(t, kernel.Zip[float32])
	})
	kerneltest.Zip(t, kernel.Zip[float64])
	eachFamily(t, func(t *testing.T) {
		kerneltest.ZipBackward(t, kernel.ZipBackward[float32])
	})
	kerneltest.ZipBackward(t, kernel.ZipBackward[float64])
}

func TestCompare(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Compare(t, kernel.Compare[float32])
	})
	kerneltest.Compare(t, kernel.Compare[float64])
	kerneltest.Logic(t, kernel.Combine)
}

func TestWhere(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Where(t, kernel.Where[float32])
	})
	kerneltest.Where(t, kernel.Where[float64])
	eachFamily(t, func(t *testing.T) {
		kerneltest.Fill(t, kernel.Fill[float32])
	})
	kerneltest.Fill(t, kernel.Fill[float64])
	eachFamily(t, func(t *testing.T) {
		kerneltest.Keep(t, kernel.Keep[float32])
	})
	kerneltest.Keep(t, kernel.Keep[float64])
}

func TestGates(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.LeakyReLU(t, kernel.LeakyReLU[float32], kernel.LeakyReLUBackward[float32])
		kerneltest.Clamp(t, kernel.Clamp[float32])
	})
	kerneltest.LeakyReLU(t, kernel.LeakyReLU[float64], kernel.LeakyReLUBackward[float64])
	kerneltest.Clamp(t, kernel.Clamp[float64])
}

func TestSwiGLU(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.SwiGLU(t, kernel.SwiGLU[float32], kernel.SwiGLUBackward[float32])
	})
	kerneltest.SwiGLU(t, kernel.SwiGLU[float64], kernel.SwiGLUBackward[float64])
}

func TestConvert(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Convert(t, kernel.Convert[float32, float64])
		kerneltest.Convert(t, kernel.Convert[float64, float32])
	})
}

func TestElementwiseIntegers(t *testing.T) {
	shape := []int{3}
	a, b := kernel.Contiguous([]int64{1, -2, 3}, shape), kernel.Contiguous([]int64{2, -2, 1 << 40}, shape)
	out, truth := make([]int64, 3), make([]bool, 3)
	kernel.Zip(kernel.BinarySub, kernel.Contiguous(out, shape), a, b, 0, 3)
	require.Equal(t, []int64{-1, 0, 3 - 1<<40}, out)
	kernel.Zip(kernel.BinaryMul, kernel.Contiguous(out, shape), a, b, 0, 3)
	require.Equal(t, []int64{2, 4, 3 << 40}, out)
	kernel.Compare(kernel.CompareLe, kernel.Contiguous(truth, shape), b, a, 0, 3)
	require.Equal(t, []bool{false, true, false}, truth)
	kernel.Where(kernel.Contiguous(out, shape), kernel.Contiguous(truth, shape), a, b, 0, 3)
	require.Equal(t, []int64{2, -2, 1 << 40}, out)
	f := make([]float32, 3)
	kernel.Convert(kernel.Contiguous(f, shape), false, b, 0, 3)
	require.Equal(t, []float32{2, -2, 1 << 40}, f)
	kernel.Convert(kernel.Contiguous(f, shape), true, kernel.Truth(kernel.Contiguous(truth, shape)), 0, 3)
	require.Equal(t, []float32{2, -1, 1 << 40}, f)
}

func BenchmarkZip(b *testing.B) {
	const n = 1 << 16
	x, y, z := kerneltest.Rand[float32](n, 1), kerneltest.Rand[float32](n, 2), make([]float32, n)
	shape := []int{n / 512, 512}
	dst, p, q := kernel.Contiguous(z, shape), kernel.Contiguous(x, shape), kernel.Contiguous(y, shape)
	bias := kernel.Strided[float32]{Data: y, Shape: shape, Strides: []int{0, 1}}
	column := kernel.Strided[float32]{Data: y, Shape: shape, Strides: []int{1, 0}}
	b.Run("mul", func(b *testing.B) { perElement(b, n, 12, func() { kernel.Zip(kernel.BinaryMul, dst, p, q, 0, n) }) })
	b.Run("mul/row", func(b *testing.B) { perElement(b, n, 8, func() { kernel.Zip(kernel.BinaryMul, dst, p, bias, 0, n) }) })
	b.Run("mul/column", func(b *testing.B) { perElement(b, n, 8, func() { kernel.Zip(kernel.BinaryMul, dst, p, column, 0, n) }) })
	b.Run("maximum", func(b *testing.B) { perElement(b, n, 12, func() { kernel.Zip(kernel.BinaryMaximum, dst, p, q, 0, n) }) })
	b.Run("mul/backward", func(b *testing.B) {
		perElement(b, n, 12, func() { kernel.ZipBackward(kernel.BinaryMul, false, dst, false, p, kernel.Strided[float32]{}, q, 0, n) })
	})
	b.Run("div/backward", func(b *testing.B) {
		perElement(b, n, 16, func() { kernel.ZipBackward(kernel.BinaryDiv, true, dst, false, p, p, q, 0, n) })
	})
	b.Run("maximum/backward", func(b *testing.B) {
		perElement(b, n, 16, func() { kernel.ZipBackward(kernel.BinaryMaximum, false, dst, false, p, p, q, 0, n) })
	})
	cond := kernel.Contiguous(kerneltest.Truths(n, 3), shape)
	b.Run("where", func(b *testing.B) { perElement(b, n, 13, func() { kernel.Where(dst, cond, p, q, 0, n) }) })
	b.Run("less", func(b *testing.B) { perElement(b, n, 9, func() { kernel.Compare(kernel.CompareLt, cond, p, q, 0, n) }) })
	b.Run("swiglu", func(b *testing.B) { perElement(b, n, 12, func() { kernel.SwiGLU(dst, p, q, 0, n) }) })
	b.Run("swiglu/backward", func(b *testing.B) {
		to := kernel.SwiGLUGrad[float32]{Dst: dst}
		perElement(b, n, 20, func() { kernel.SwiGLUBackward(to, to, p, p, q, 0, n) })
	})
	mask := make([]uint8, kernel.MaskBytes(n))
	b.Run("leaky_relu", func(b *testing.B) { perElement(b, n, 8, func() { kernel.LeakyReLU(z, x, 0.1, mask) }) })
	b.Run("clamp", func(b *testing.B) { perElement(b, n, 8, func() { kernel.Clamp(z, x, -1, 1, mask) }) })
}
