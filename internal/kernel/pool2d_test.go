package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestMaxPool(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.MaxPool(t, kernel.MaxPool[float32], kernel.MaxPoolBackward[float32])
	})
	kerneltest.MaxPool(t, kernel.MaxPool[float64], kernel.MaxPoolBackward[float64])
	kerneltest.MaxPoolCodes(t)
}

func TestAvgPool(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.AvgPool(t, kernel.AvgPoolForward[float32], kernel.AvgPoolBackward[float32])
	})
	kerneltest.AvgPool(t, kernel.AvgPoolForward[float64], kernel.AvgPoolBackward[float64])
}

func BenchmarkPool(b *testing.B) {
	const planes, size = 512, 32
	p := kernel.Pool{Planes: planes, In: [2]int{size, size}, Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Out: [2]int{size / 2, size / 2}}
	over := kernel.Pool{Planes: planes, In: p.In, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}, Out: p.Out}
	x, y := kerneltest.Rand[float32](planes*size*size, 1), kerneltest.Rand[float32](planes*size*size/4, 2)
	for name, p := range map[string]*kernel.Pool{"2x2": &p, "3x3": &over} {
		codes, a := make([]uint8, p.CodeBytes(len(y))), kernel.AvgPool{Pool: *p}
		for kind, f := range map[string]func(){
			"max": func() {
				chunked(len(y), func(lo, hi int) { kernel.MaxPool(p, y, x, codes, lo, hi) })
			},
			"maxback": func() { kernel.MaxPoolBackward(p, x, false, y, codes, 0, planes) },
			"avg":     func() { kernel.AvgPoolForward(&a, y, x, 0, planes) },
			"avgback": func() { kernel.AvgPoolBackward(&a, x, false, y, 0, planes) },
		} {
			for _, family := range kernel.Families() {
				b.Run(kind+"/"+name+"/"+family, func(b *testing.B) {
					kernel.UseFamily(b, family)
					b.ReportMetric(float64(fastest(b, f).Nanoseconds())/float64(len(x)), "ns/elem")
				})
			}
		}
	}
}
