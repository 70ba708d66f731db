package kerneltest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// ReLU tests forward with and without bits, and backward from the bits.
func ReLU[T kernel.Float](
	t *testing.T, forward func(y, x []T, mask []uint8), backward func(dst []T, add bool, g []T, mask []uint8),
) {
	for _, n := range Sizes() {
		x, g := Specials(Rand[T](n, 1), 1), Specials(Rand[T](n, 2), 2)
		wantY, wantG, wantBits := make([]T, n), make([]T, n), make([]uint8, kernel.MaskBytes(n))
		for i, v := range x {
			if !(v <= 0) {
				wantY[i], wantG[i] = v, g[i]
				wantBits[i/8] |= 1 << (i % 8)
			}
		}
		bits := filled(kernel.MaskBytes(n), uint8(0xa5))
		cut := func(c int) (lo, hi int, mask []uint8) {
			lo, hi = kernel.Range(n, c)
			return lo, hi, bits[lo/8 : kernel.MaskBytes(hi)]
		}
		SameBits(t, wantY, AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
			y := dirty[T](n, false)
			return func(c int) {
				lo, hi, mask := cut(c)
				forward(y[lo:hi], x[lo:hi], mask)
			}, func() []T { return y }
		}), "forward", n)
		require.Equal(t, wantBits, bits, "n %d", n)
		y := dirty[T](n, false)
		forward(y, x, nil)
		SameBits(t, wantY, y, "forward without mask", n)

		for _, add := range []bool{false, true} {
			want := clone(wantG)
			for i, old := range dirty[T](n, true) {
				if add {
					want[i] += old
				}
			}
			SameBits(t, want, AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
				dst := dirty[T](n, add)
				return func(c int) {
					lo, hi, mask := cut(c)
					backward(dst[lo:hi], add, g[lo:hi], mask)
				}, func() []T { return dst }
			}), "backward", n, add)
		}
	}
}
