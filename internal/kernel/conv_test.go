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
	kerneltest.Conv(t, convRoutines[float32]())
	kerneltest.Conv(t, convRoutines[float64]())
}

func TestConvSpecial(t *testing.T) {
	kerneltest.ConvSpecial(t, convRoutines[float32]())
	kerneltest.ConvSpecial(t, convRoutines[float64]())
}

func TestConvBounds(t *testing.T) { kerneltest.ConvBounds(t) }

func BenchmarkConv(b *testing.B) {
	pair := func(n int) [2]int { return [2]int{n, n} }
	for _, c := range []struct {
		name                     string
		n, in, out, groups, k, s int
		size                     int
	}{
		{"first", 32, 3, 32, 1, 3, 1, 32},
		{"middle", 8, 64, 64, 1, 3, 1, 32},
		{"last", 32, 256, 256, 1, 3, 1, 8},
		{"strided", 8, 64, 128, 1, 3, 2, 32},
		{"plain", 8, 64, 256, 1, 1, 1, 32},
		{"depthwise", 8, 128, 128, 128, 3, 1, 32},
	} {
		p := kernel.Conv{
			N: c.n, C: c.in, O: c.out, Groups: c.groups, In: pair(c.size), Kernel: pair(c.k), Stride: pair(c.s),
			Pad: pair(c.k / 2), Dilation: pair(1), Out: pair((c.size-1)/c.s + 1),
		}
		x, y := kerneltest.Rand[float32](c.n*c.in*c.size*c.size, 1), kerneltest.Rand[float32](c.n*c.out*p.Out[0]*p.Out[1], 2)
		w := kerneltest.Rand[float32](c.out*c.in/c.groups*c.k*c.k, 3)
		run := func(name string, work kernel.ConvWork, f func(scratch []byte, shared []float32, chunk int)) {
			scratch, shared := make([]byte, work.Scratch+64), make([]float32, work.Shared/4)
			b.Run(c.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					for i := range work.Chunks {
						f(scratch, shared, i)
					}
				}
				b.ReportMetric(2*float64(len(y)*len(w)/c.out)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				b.ReportMetric(float64(work.Scratch), "scratch-B")
				b.ReportMetric(float64(work.Shared), "shared-B")
			})
		}
		run("forward", p.ForwardWork(4), func(s []byte, _ []float32, i int) { kernel.ConvForward(&p, y, x, w, nil, s, i) })
		run("dx", p.InputWork(4), func(s []byte, _ []float32, i int) { kernel.ConvInput(&p, x, false, y, w, s, i) })
		run("dw", p.WeightWork(4), func(s []byte, shared []float32, i int) { kernel.ConvWeight(&p, w, false, y, x, shared, s, i) })
	}
}
