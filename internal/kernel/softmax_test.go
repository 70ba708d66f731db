package kernel_test

import (
	"fmt"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestSoftmax(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Softmax(t, kernel.Softmax[float32], kernel.LogSoftmax[float32])
	})
	kerneltest.Softmax(t, kernel.Softmax[float64], kernel.LogSoftmax[float64])
}

func TestSoftmaxBackward(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.SoftmaxBackward(t, kernel.SoftmaxBackward[float32], kernel.LogSoftmaxBackward[float32])
	})
	kerneltest.SoftmaxBackward(t, kernel.SoftmaxBackward[float64], kernel.LogSoftmaxBackward[float64])
}

func TestCumSum(t *testing.T) {
	kerneltest.CumSum(t, kernel.CumSum[float32])
	kerneltest.CumSum(t, kernel.CumSum[float64])
}

func BenchmarkSoftmax(b *testing.B) {
	for _, k := range []struct {
		shape []int
		d     int
	}{{[]int{2048, 256}, 1}, {[]int{16, 256, 128}, 1}} {
		l := kernel.LinesAlong(k.shape, k.d)
		n := l.Elems()
		x, y := kerneltest.Rand[float32](n, 1), make([]float32, n)
		each := func(name string, bytes int, f func(c int)) {
			b.Run(fmt.Sprint(name, k), func(b *testing.B) {
				perElement(b, n, bytes, func() {
					for c := range l.Chunks() {
						f(c)
					}
				})
			})
		}
		each("softmax", 8, func(c int) { kernel.Softmax(l, y, x, c) })
		each("softmax/backward", 12, func(c int) { kernel.SoftmaxBackward(l, y, false, x, x, c) })
		each("log-softmax", 8, func(c int) { kernel.LogSoftmax(l, y, x, c) })
		each("log-softmax/backward", 12, func(c int) { kernel.LogSoftmaxBackward(l, y, false, x, x, c) })
		each("cumsum", 8, func(c int) { kernel.CumSum(l, y, false, x, false, c) })
	}
}
