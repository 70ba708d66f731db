package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// LeakyReLU tests forward with and without bits, and backward from the bits.
func LeakyReLU[T kernel.Float](
	t *testing.T, forward func(y, x []T, slope float64, mask []uint8), backward func(dst []T, add bool, g []T, slope float64, mask []uint8),
) {
	const slope = 0.25 // exact
	for _, n := range Sizes() {
		x, g := Specials(Rand[T](n, 1), 1), Specials(Rand[T](n, 2), 2)
		gate(t, x, func(v T) (T, bool) {
			if v > 0 {
				return v, true
			}
			return slope * v, false
		}, func(y, x []T, mask []uint8) { forward(y, x, slope, mask) })
		bits := filled(kernel.MaskBytes(n), uint8(0xa5))
		forward(make([]T, n), x, slope, bits)
		for _, add := range []bool{false, true} {
			want := dirty[T](n, add)
			for i, v := range g {
				if !(x[i] > 0) {
					v *= slope
				}
				if add {
					v += want[i]
				}
				want[i] = v
			}
			SameBits(t, want, AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
				dst := dirty[T](n, add)
				return func(c int) {
					lo, hi := kernel.Range(n, c)
					backward(dst[lo:hi], add, g[lo:hi], slope, bits[lo/8:])
				}, func() []T { return dst }
			}), "backward", n, add)
		}
	}
}

// Clamp tests values and bits, for bounds that are finite, infinite, and the wrong way round.
func Clamp[T kernel.Float](t *testing.T, clamp func(y, x []T, lo, hi T, mask []uint8)) {
	inf := T(math.Inf(1))
	for _, bounds := range [][2]T{{-0.5, 0.75}, {0, inf}, {-inf, 0.5}, {1, -1}} {
		lo, hi := bounds[0], bounds[1]
		for _, n := range []int{0, 1, 7, 8, 9, 300, kernel.ChunkSize + 9} {
			x := Specials(Rand[T](n, 1), 1)
			for i := 2; i < n; i += 11 {
				x[i] = bounds[i%2]
			}
			gate(t, x, func(v T) (T, bool) {
				if v != v {
					return v, false
				}
				return T(math.Min(math.Max(float64(v), float64(lo)), float64(hi))), lo <= v && v <= hi
			}, func(y, x []T, mask []uint8) { clamp(y, x, lo, hi, mask) })
		}
	}
}

// gate tests a function that sets a bit an element.
func gate[T kernel.Float](t *testing.T, x []T, one func(v T) (y T, bit bool), forward func(y, x []T, mask []uint8)) {
	t.Helper()
	n := len(x)
	wantY, wantBits := make([]T, n), make([]uint8, kernel.MaskBytes(n))
	for i, v := range x {
		y, bit := one(v)
		if wantY[i] = y; bit {
			wantBits[i/8] |= 1 << (i % 8)
		}
	}
	bits := filled(kernel.MaskBytes(n), uint8(0xa5))
	got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
		y := dirty[T](n, false)
		return func(c int) {
			lo, hi := kernel.Range(n, c)
			forward(y[lo:hi], x[lo:hi], bits[lo/8:kernel.MaskBytes(hi)])
		}, func() []T { return y }
	})
	for i := range got { // which zero it is does not matter
		got[i], wantY[i] = got[i]+0, wantY[i]+0
	}
	SameBits(t, wantY, got, n)
	require.Equal(t, wantBits, bits, n)
	y := clone(x)
	forward(y, y, nil)
	for i := range y {
		y[i] += 0
	}
	SameBits(t, wantY, y, "without bits, in place", n)
}
