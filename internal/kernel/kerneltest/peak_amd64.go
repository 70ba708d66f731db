//go:build amd64 && !purego

package kerneltest

import (
	"slices"
	"time"

	"github.com/thimble-ml/thimble/internal/kernel"
)

//go:generate go -C ../_gen/peak run main.go -out ../../kerneltest/peak_amd64.s

// multiplyAdds does n times 12 multiply-adds of eight float32, none of which waits for another. n is at least 1.
//
//go:noescape
func multiplyAdds(n int)

// Peak is how many float32 operations a nanosecond one core does at best, measured for about a millisecond: what a product
// could reach. It is 0 where products do not use AVX2.
func Peak() float64 {
	if has := kernel.CPUFeatures(); !slices.Contains(has, "avx2") || !slices.Contains(has, "fma") {
		return 0
	}
	const n, flop = 100_000, 12 * 8 * 2
	var best time.Duration
	for range 5 {
		start := time.Now()
		multiplyAdds(n)
		if d := time.Since(start); best == 0 || d < best {
			best = d
		}
	}
	return n * flop / float64(best.Nanoseconds())
}
