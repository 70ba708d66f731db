package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestRoPE(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.RoPE(t, kernel.Rotate[float32])
	})
	kerneltest.RoPE(t, kernel.Rotate[float64])
}

func BenchmarkRoPE(b *testing.B) {
	p := &kernel.RoPE{Batch: 8, Steps: 256, Heads: 6, Dim: 64, Base: 10000}
	n := p.Batch * p.Steps * p.Heads * p.Dim
	x := kernel.Rank4[float32]{Data: kerneltest.Rand[float32](n, 1), Strides: [4]int{n / 8, 6 * 64, 64, 1}}
	scratch := make([]byte, p.Scratch(4))
	perElement(b, n, 8, func() {
		for c := range p.Chunks() {
			kernel.Rotate(p, x, false, x, scratch, c)
		}
	})
}
