package kernel_test

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/thimble-ml/thimble/internal/cputime"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

// Two sizes: one that stays in the second cache, one that does not fit in the third.
var benchSizes = []struct {
	name string
	n    int
}{{"64Ki", 1 << 16}, {"8Mi", 1 << 23}}

// perElement runs f on n elements and reports bytes and nanoseconds an element.
func perElement(b *testing.B, n, bytes int, f func()) {
	b.Helper()
	b.SetBytes(int64(n) * int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/elem")
}

// chunked runs f over all flat chunks on one goroutine, as an op does.
func chunked(n int, f func(lo, hi int)) {
	for c := range kernel.Chunks(n) {
		f(kernel.Range(n, c))
	}
}

// fastest runs f and gives the least that a run took of the processor's time, to which what runs beside it does not add.
func fastest(b *testing.B, f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		from := cputime.Thread()
		f()
		best = min(best, cputime.Thread()-from)
	}
	return best
}

// perSecond reports the operations a second of the fastest run, and what part that is of the processor's peak in float32,
// which is measured beside it.
func perSecond(b *testing.B, operations float64, f func()) {
	peak := kerneltest.Peak()
	best := float64(fastest(b, f).Nanoseconds())
	b.ReportMetric(operations/best, "GFLOP/s")
	b.ReportMetric(best/1000, "us")
	if peak = max(peak, kerneltest.Peak()); peak > 0 {
		b.ReportMetric(100*operations/best/peak, "%peak")
	}
}
