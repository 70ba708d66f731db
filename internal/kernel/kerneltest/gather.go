package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// gatherCase is a shape of an index, the dimension that it numbers, and how many positions x has along it. x is more
// larger than the index in the other dimensions.
type gatherCase struct {
	shape        []int
	dim, n, more int
}

func gatherCases() []gatherCase {
	return []gatherCase{
		{[]int{7}, 0, 5, 0}, {[]int{1}, 0, 1, 0}, {[]int{0}, 0, 3, 0}, {[]int{2, 3}, 0, 4, 1}, {[]int{2, 3}, 1, 4, 1},
		{[]int{3, 5, 4}, 1, 2, 0}, {[]int{3, 1, 4}, 1, 6, 2}, {[]int{1, 5, 1}, 1, 3, 0}, {[]int{4, 0, 2}, 0, 3, 1},
		{[]int{kernel.ChunkSize + 3}, 0, 100, 0}, {[]int{300, 130}, 0, 20, 2}, {[]int{300, 130}, 1, 20, 2},
		{[]int{40, 30, 50}, 1, 7, 0}, {[]int{2000, 12, 3}, 1, 5, 1}, {[]int{2, 1, 2, 3, 2, 1, 2}, 3, 4, 1},
	}
}

// wide is the shape of x.
func (c gatherCase) wide() []int {
	shape := make([]int, len(c.shape))
	for d, n := range c.shape {
		if shape[d] = n + c.more; d == c.dim {
			shape[d] = c.n
		}
	}
	return shape
}

// indexViews are layouts of an index: any, and the same for all but dim, as of an index select.
func (c gatherCase) indexViews() []view {
	shared := view{name: "shared", strides: make([]int, len(c.shape)), n: c.shape[c.dim]}
	shared.strides[c.dim] = 1
	return append(views(c.shape), shared)
}

// places calls f with the number of each element of the index, and where its partner lies in x.
func (c gatherCase) places(xv view, at []int, index func(i int) int, f func(i, from int)) {
	wide := c.wide()
	from := offsets(xv, wide)
	for i := range at {
		flat, rest := 0, i
		step := 1
		for d := len(wide) - 1; d >= 0; d-- {
			k := rest % c.shape[d]
			rest /= c.shape[d]
			if d == c.dim {
				k = index(at[i])
			}
			flat += k * step
			step *= wide[d]
		}
		f(i, from[flat])
	}
}

// Gather tests elements that are picked, and bad indices.
func Gather[T kernel.Float, I kernel.Index](t *testing.T, gather func(y []T, x kernel.Strided[T], index kernel.Strided[I], dim, lo, hi int) bool) {
	for _, c := range gatherCases() {
		wide := c.wide()
		for _, xv := range append(views(wide), broadcasts(wide)[0]) {
			for _, jv := range c.indexViews() {
				x, index := Specials(Rand[T](xv.n, 1), 1), Indices[I](jv.n, c.n, 2)
				at := offsets(jv, c.shape)
				want := make([]T, len(at))
				c.places(xv, at, func(j int) int { return int(index[j]) }, func(i, from int) { want[i] = x[from] })
				n := len(want)
				got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
					y := dirty[T](n, false)
					return func(k int) {
						lo, hi := kernel.Range(n, k)
						require.True(t, gather(y, operand(xv, x, wide), operand(jv, index, c.shape), c.dim, lo, hi))
					}, func() []T { return y }
				})
				SameBits(t, want, got, fmt.Sprint(c, xv.name, jv.name))
			}
		}
	}
	for _, bad := range []I{-1, 2, math.MaxInt32, math.MinInt32} {
		x, y := kernel.Contiguous(Rand[T](8, 1), []int{2, 4}), make([]T, 4)
		for _, strides := range [][]int{{4, 1}, {1, 0}} {
			index := kernel.Strided[I]{Data: []I{bad, 1, 0, 1}, Shape: []int{1, 4}, Strides: strides}
			require.False(t, gather(y, x, index, 0, 0, 4))
			require.False(t, gather(y, kernel.Contiguous([]T{}, []int{0, 4}), index, 0, 0, 4), "no positions")
		}
	}
}

// GatherBackward tests sums of elements that meet, in the order of their places.
func GatherBackward[T kernel.Float, I kernel.Index](t *testing.T, scatter func(dx, g kernel.Strided[T], index kernel.Strided[I], dim, c int)) {
	for _, c := range gatherCases() {
		wide := c.wide()
		for _, xv := range views(wide) {
			for _, jv := range c.indexViews() {
				g, old, index := Specials(Rand[T](kernel.Elems(c.shape), 1), 1), Rand[T](xv.n, 3), Indices[I](jv.n, c.n, 2)
				want := clone(old)
				c.places(xv, offsets(jv, c.shape), func(j int) int { return int(index[j]) }, func(i, from int) { want[from] += g[i] })
				got := AnyOrder(t, kernel.GatherChunks(c.shape, c.dim), func() (func(int), func() []T) {
					dx := clone(old)
					return func(k int) {
						scatter(operand(xv, dx, wide), kernel.Contiguous(g, c.shape), operand(jv, index, c.shape), c.dim, k)
					}, func() []T { return dx }
				})
				SameBits(t, want, got, fmt.Sprint(c, xv.name, jv.name))
			}
		}
	}
}
