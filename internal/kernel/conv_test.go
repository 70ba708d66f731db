package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func convRoutines[T kernel.Float]() kerneltest.ConvRoutines[T] {
	return kerneltest.ConvRoutines[T]{
		Forward: kernel.ConvForward[T], Input: kernel.ConvInput[T], Weight: kernel.ConvWeight[T], Finish: kernel.ConvWeightFinish[T],
	}
}

func TestConv(t *testing.T) {
	eachFamily(t, func(t *testing.T) { kerneltest.Conv(t, convRoutines[float32]()) })
	kerneltest.Conv(t, convRoutines[float64]())
}

func TestConvSpecial(t *testing.T) {
	eachFamily(t, func(t *testing.T) { kerneltest.ConvSpecial(t, convRoutines[float32]()) })
	kerneltest.ConvSpecial(t, convRoutines[float64]())
}

func TestConvBounds(t *testing.T) { kerneltest.ConvBounds(t) }

func TestConvDoesNotAllocate(t *testing.T) {
	p := kernel.Conv{
		N: 2, C: 3, O: 5, Groups: 1, In: [2]int{9, 9}, Kernel: [2]int{3, 3}, Out: [2]int{9, 9},
		Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1},
	}
	x, w, y := make([]float32, 2*3*81), make([]float32, 5*27), make([]float32, 2*5*81)
	work := p.WeightWork(4)
	scratch, shared := make([]byte, max(p.ForwardWork(4).Scratch, p.InputWork(4).Scratch, work.Scratch)), make([]float32, work.Shared/4)
	eachFamily(t, func(t *testing.T) {
		kerneltest.NoAllocs(t, func() {
			kernel.ConvForward(&p, y, x, w, nil, scratch, 0)
			kernel.ConvInput(&p, x, false, y, w, scratch, 0)
			kernel.ConvWeight(&p, w, false, y, x, shared, scratch, 0)
		})
	})
}

func BenchmarkConv(b *testing.B) {
	pair := func(n int) [2]int { return [2]int{n, n} }
	for _, c := range []struct {
		name                     string
		n, in, out, groups, k, s int
		size, pad                int
	}{
		{"cnn1", 64, 1, 32, 1, 3, 1, 28, 0},
		{"cnn2", 64, 32, 64, 1, 3, 1, 26, 0},
		{"patches", 64, 3, 192, 1, 4, 4, 32, 0},
		{"first", 32, 3, 32, 1, 3, 1, 32, 1},
		{"middle", 8, 64, 64, 1, 3, 1, 32, 1},
		{"last", 32, 256, 256, 1, 3, 1, 8, 1},
		{"strided", 8, 64, 128, 1, 3, 2, 32, 1},
		{"plain", 8, 64, 256, 1, 1, 1, 32, 0},
		{"depthwise", 8, 128, 128, 128, 3, 1, 32, 1},
	} {
		p := kernel.Conv{
			N: c.n, C: c.in, O: c.out, Groups: c.groups, In: pair(c.size), Kernel: pair(c.k), Stride: pair(c.s),
			Pad: pair(c.pad), Dilation: pair(1), Out: pair((c.size+2*c.pad-c.k)/c.s + 1),
		}
		x, y := kerneltest.Rand[float32](c.n*c.in*c.size*c.size, 1), kerneltest.Rand[float32](c.n*c.out*p.Out[0]*p.Out[1], 2)
		w := kerneltest.Rand[float32](c.out*c.in/c.groups*c.k*c.k, 3)
		run := func(name string, work kernel.ConvWork, f func(scratch []byte, shared []float32, chunk int)) {
			scratch, shared := make([]byte, work.Scratch+64), make([]float32, work.Shared/4)
			b.Run(c.name+"/"+name, func(b *testing.B) {
				perSecond(b, 2*float64(len(y)*len(w)/c.out), func() {
					for i := range work.Chunks {
						f(scratch, shared, i)
					}
				})
				b.ReportMetric(float64(work.Scratch), "scratch-B")
				b.ReportMetric(float64(work.Shared), "shared-B")
			})
		}
		run("forward", p.ForwardWork(4), func(s []byte, _ []float32, i int) { kernel.ConvForward(&p, y, x, w, nil, s, i) })
		run("dx", p.InputWork(4), func(s []byte, _ []float32, i int) { kernel.ConvInput(&p, x, false, y, w, s, i) })
		run("dw", p.WeightWork(4), func(s []byte, shared []float32, i int) { kernel.ConvWeight(&p, w, false, y, x, shared, s, i) })
	}
}
