package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestDropout(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Dropout(t, kernel.Dropout[float32])
	})
	kerneltest.Dropout(t, kernel.Dropout[float64])
}

func TestDropoutDoesNotAllocate(t *testing.T) {
	x := make([]float32, 2000)
	kerneltest.NoAllocs(t, func() { kernel.Dropout(x, false, x, 0.1, kernel.Words{}) })
}

func BenchmarkDropout(b *testing.B) {
	for _, s := range benchSizes {
		x, y := make([]float32, s.n), make([]float32, s.n)
		b.Run(s.name, func(b *testing.B) {
			perElement(b, s.n, 8, func() { kernel.Dropout(y, false, x, 0.1, kernel.Words{}) })
		})
	}
}
