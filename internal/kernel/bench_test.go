package kernel_test

import (
	"syscall"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
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
	var r0, r1 syscall.Rusage
	k := 0
	for b.Loop() {
		if k == 0 { syscall.Getrusage(1, &r0) }
		k++
		f()
	}
	syscall.Getrusage(1, &r1)
	_ = k
	b.ReportMetric(float64(r1.Utime.Nano()+r1.Stime.Nano()-r0.Utime.Nano()-r0.Stime.Nano())/float64(b.N)/float64(n), "ns/elem")
}

// chunked runs f over all flat chunks on one goroutine, as an op does.
func chunked(n int, f func(lo, hi int)) {
	for c := range kernel.Chunks(n) {
		f(kernel.Range(n, c))
	}
}
