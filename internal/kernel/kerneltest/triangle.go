package kerneltest

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Triangle tests what is kept, added and made zero.
func Triangle[T kernel.Float](
	t *testing.T, keep func(k kernel.Triangle, y, x []T, r0, r1 int), keepAdd func(k kernel.Triangle, dx, g []T, r0, r1 int),
) {
	for _, shape := range [][3]int{{1, 1, 1}, {2, 3, 4}, {3, 4, 3}, {1, 5, 0}, {0, 3, 3}, {2, 0, 3}, {3, 130, 150}} {
		matrices, m, n := shape[0], shape[1], shape[2]
		for _, diagonal := range []int{-m, -1, 0, 1, n} {
			for _, upper := range []bool{false, true} {
				k := kernel.Triangle{M: m, N: n, Diagonal: diagonal, Upper: upper}
				x, old := Specials(Rand[T](matrices*m*n, 1), 1), Rand[T](matrices*m*n, 2)
				want, sum := make([]T, len(x)), clone(old)
				for i := range x {
					if over := i%n - i/n%m; !upper && over <= diagonal || upper && over >= diagonal {
						want[i] = x[i]
						sum[i] += x[i]
					}
				}
				byRows := func(y []T, f func(lo, hi int)) (func(int), func() []T) {
					return func(c int) { f(kernel.RowRange(matrices*m, n, c)) }, func() []T { return y }
				}
				chunks := kernel.RowChunks(matrices*m, n)
				SameBits(t, want, AnyOrder(t, chunks, func() (func(int), func() []T) {
					y := dirty[T](len(x), false)
					return byRows(y, func(lo, hi int) { keep(k, y, x, lo, hi) })
				}), k)
				SameBits(t, sum, AnyOrder(t, chunks, func() (func(int), func() []T) {
					dx := clone(old)
					return byRows(dx, func(lo, hi int) { keepAdd(k, dx, x, lo, hi) })
				}), k)
			}
		}
	}
}
