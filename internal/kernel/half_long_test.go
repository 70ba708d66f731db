//go:build long

package kernel_test

import (
	"math"
	"testing"

	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// All 2^32 values of float32: about a minute.
func TestF32ToF16Everywhere(t *testing.T) {
	src, dst := make([]float32, 1<<16), make([]uint16, 1<<16)
	for hi := range uint32(1 << 16) {
		for lo := range src {
			src[lo] = math.Float32frombits(hi<<16 | uint32(lo))
		}
		kernel.F32ToF16(dst, src)
		for i, x := range src {
			if want := float16.Fromfloat32(x).Bits(); dst[i] != want {
				t.Fatalf("%#08x: want %#04x, got %#04x", math.Float32bits(x), want, dst[i])
			}
		}
	}
}
