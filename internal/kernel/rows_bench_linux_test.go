package kernel_test

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// BenchmarkRows times row kernels in all families, turn by turn, in time of the processor, not of the clock: other work on
// the machine stretches all alike. A length fits in the second cache, the third, or in neither.
//
//	go test ./internal/kernel -run xxx -bench Rows/adamw
func BenchmarkRows(b *testing.B) {
	for _, k := range rowKernels() {
		for _, s := range []struct {
			name string
			n    int
		}{{"384", 384}, {"16Ki", 1 << 14}, {"256Ki", 1 << 18}, {"16Mi", 1 << 24}} {
			if k.bytes*s.n <= 1<<30 {
				b.Run(k.name+"/"+s.name, func(b *testing.B) { benchmarkRow(b, k, s.n) })
			}
		}
	}
}

func benchmarkRow(b *testing.B, k rowKernel, n int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	o := &operands{r: rand.New(rand.NewPCG(1, 2)), alloc: func(n int) []float32 { return make([]float32, n) }}
	run := k.start(o, n)
	families, repeat := kernel.Families(), 1+(1<<14)/n
	best := make([]float64, len(families))
	for b.Loop() {
		for i, f := range families {
			kernel.UseFamily(b, f)
			start := threadTime()
			for range repeat {
				run()
			}
			spent := float64(threadTime()-start) / float64(repeat*n)
			if best[i] == 0 || spent < best[i] {
				best[i] = spent
			}
		}
		o.numbers = o.numbers[:0]
	}
	b.ReportMetric(0, "ns/op")
	for i, f := range families {
		b.ReportMetric(best[i], f+"-ns/elem")
		b.ReportMetric(float64(k.bytes)/best[i], f+"-GB/s")
	}
}

// threadTime is how many nanoseconds this thread has run.
func threadTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}
