package kerneltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Shapes are what strided kernels go through: scalars, empty ones, ones within, chunks cut in the middle of a run, the
// largest rank.
func Shapes() [][]int {
	return [][]int{
		{}, {1}, {5}, {0}, {3, 0, 2}, {2, 3}, {4, 1, 5}, {1, 7, 1}, {8, 16, 33}, {3, 7, 11, 5}, {130, 129}, {1100, 5, 3},
		{3, kernel.ChunkSize/2 + 3}, {2, 1, 2, 1, 2, 2, 1, 3, 1, 2, 2, 1, 2, 2, 1, 2},
	}
}

// A view lays a shape out over memory of n elements.
type view struct {
	name    string
	strides []int // nil for contiguous
	n       int
}

func operand[T any](v view, data []T, shape []int) kernel.Strided[T] {
	return kernel.Strided[T]{Data: data, Shape: shape, Strides: v.strides}
}

// views are layouts of a shape that name each element once: five, or the first and the last of them for large shapes.
func views(shape []int) []view {
	r := len(shape)
	order := make([]int, r)
	for d := range order {
		order[d] = d
	}
	vs := []view{
		{"contiguous", nil, kernel.Elems(shape)},
		layout("rows apart", shape, order, 0, 3),
		layout("inner apart", shape, order, r-1, 2),
	}
	if r > 1 {
		slices.Reverse(order)
		vs = append(vs, layout("transposed", shape, order, -1, 0))
		slices.Reverse(order)
		order[r-1], order[r-2] = order[r-2], order[r-1]
		vs = append(vs, layout("last two swapped", shape, order, -1, 0))
	}
	if kernel.Elems(shape) > 2000 {
		vs = []view{vs[0], vs[len(vs)-1]}
	}
	return vs
}

// broadcasts are layouts that repeat elements.
func broadcasts(shape []int) []view {
	vs := []view{{"scalar", make([]int, len(shape)), 1}}
	for _, kind := range []string{"first", "last", "every other"} {
		v := view{name: "repeats " + kind, strides: make([]int, len(shape)), n: 1}
		for d := len(shape) - 1; d >= 0; d-- {
			repeat := kind == "first" && d == 0 || kind == "last" && d == len(shape)-1 || kind == "every other" && d%2 == 0
			if !repeat {
				v.strides[d] = v.n
				v.n *= shape[d]
			}
		}
		vs = append(vs, v)
	}
	return vs
}

// layout puts dimensions in memory in the given order (outermost first) and makes one of them gap times as wide.
func layout(name string, shape, order []int, wide, gap int) view {
	v := view{name: name, strides: make([]int, len(shape)), n: 1}
	for k := len(order) - 1; k >= 0; k-- {
		d := order[k]
		if d == wide {
			v.n *= gap
		}
		v.strides[d] = v.n
		v.n *= shape[d]
	}
	return v
}

// offsets is where the elements of a shape lie, in row-major order.
func offsets(v view, shape []int) []int {
	at := make([]int, kernel.Elems(shape))
	for i := range at {
		if v.strides == nil {
			at[i] = i
			continue
		}
		rest := i
		for d := len(shape) - 1; d >= 0; d-- {
			at[i] += rest % shape[d] * v.strides[d]
			rest /= shape[d]
		}
	}
	return at
}

// Add tests dst = a + b over all pairs of layouts.
func Add[T kernel.Float](t *testing.T, add func(dst, a, b kernel.Strided[T], lo, hi int)) {
	for _, shape := range Shapes() {
		for _, dv := range views(shape) {
			for _, av := range []view{views(shape)[0], views(shape)[len(views(shape))-1]} {
				for _, bv := range append(views(shape), broadcasts(shape)...) {
					a, b := Specials(Rand[T](av.n, 1), 1), Specials(Rand[T](bv.n, 2), 2)
					at, ao, bo := offsets(dv, shape), offsets(av, shape), offsets(bv, shape)
					want := filled(dv.n, T(-7))
					for i := range at {
						want[at[i]] = a[ao[i]] + b[bo[i]]
					}
					for swap := range 2 {
						got := elementwise(t, shape, dv, func() []T { return filled(dv.n, T(-7)) }, func(dst kernel.Strided[T], lo, hi int) {
							x, y := operand(av, a, shape), operand(bv, b, shape)
							if swap == 1 {
								x, y = y, x
							}
							add(dst, x, y, lo, hi)
						})
						SameBits(t, want, got, fmt.Sprint(shape, dv.name, " = ", av.name, " + ", bv.name))
					}
				}
			}
		}
	}
}

// elementwise runs a kernel over dst by chunks in any order and gives dst's memory, gaps and all.
func elementwise[T kernel.Float](
	t *testing.T, shape []int, dv view, fresh func() []T, run func(dst kernel.Strided[T], lo, hi int),
) []T {
	n := kernel.Elems(shape)
	return AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
		dst := fresh()
		return func(c int) {
			lo, hi := kernel.Range(n, c)
			run(operand(dv, dst, shape), lo, hi)
		}, func() []T { return dst }
	})
}

// AddInPlace tests dst = dst + b, where dst is an operand.
func AddInPlace[T kernel.Float](t *testing.T, add func(dst, a, b kernel.Strided[T], lo, hi int)) {
	Accumulate(t, func(dst, src kernel.Strided[T], lo, hi int) { add(dst, dst, src, lo, hi) })
}

// Accumulate tests dst += src.
func Accumulate[T kernel.Float](t *testing.T, accumulate func(dst, src kernel.Strided[T], lo, hi int)) {
	unary(t, func(old, src T) T { return old + src }, accumulate)
}

// Copy tests dst = src.
func Copy[T kernel.Float](t *testing.T, cp func(dst, src kernel.Strided[T], lo, hi int)) {
	unary(t, func(_, src T) T { return src }, cp)
}

// Scale tests dst = or += k src.
func Scale[T kernel.Float](t *testing.T, scale func(dst, src kernel.Strided[T], k T, add bool, lo, hi int)) {
	const k = 0.5 // exact, so that a fused addition gives the same bits
	unary(t, func(_, src T) T { return k * src }, func(dst, src kernel.Strided[T], lo, hi int) {
		scale(dst, src, k, false, lo, hi)
	})
	unary(t, func(old, src T) T { return old + k*src }, func(dst, src kernel.Strided[T], lo, hi int) {
		scale(dst, src, k, true, lo, hi)
	})
}

func unary[T kernel.Float](t *testing.T, one func(old, src T) T, run func(dst, src kernel.Strided[T], lo, hi int)) {
	for _, shape := range Shapes() {
		for _, dv := range views(shape) {
			for _, sv := range append(views(shape), broadcasts(shape)...) {
				src, old := Specials(Rand[T](sv.n, 1), 1), Rand[T](dv.n, 2)
				want, at, from := clone(old), offsets(dv, shape), offsets(sv, shape)
				for i := range at {
					want[at[i]] = one(old[at[i]], src[from[i]])
				}
				got := elementwise(t, shape, dv, func() []T { return clone(old) }, func(dst kernel.Strided[T], lo, hi int) {
					run(dst, operand(sv, src, shape), lo, hi)
				})
				SameBits(t, want, got, fmt.Sprint(shape, dv.name, " <- ", sv.name))
			}
		}
	}
}

// NoAllocs fails if f allocates on Go's heap.
func NoAllocs(t *testing.T, f func()) {
	t.Helper()
	require.Zero(t, testing.AllocsPerRun(10, f))
}
