package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// SumToCases are pairs of a shape and what it is summed to.
func SumToCases() [][2][]int {
	const c = kernel.ChunkSize
	return [][2][]int{
		{{}, {}}, {{1}, {}}, {{5}, {}}, {{5}, {1}}, {{5}, {5}}, {{0}, {}}, {{0}, {1}}, {{0, 3}, {3}}, {{3, 0}, {3, 1}}, {{0}, {0}},
		{{4, 3}, {3}}, {{4, 3}, {1, 3}}, {{4, 3}, {4, 1}}, {{4, 3}, {1, 1}}, {{4, 3}, {4, 3}},
		{{3, 1, 5}, {1, 5}}, {{2, 3, 4, 5}, {3, 1, 5}}, {{2, 3, 4, 5}, {2, 1, 4, 1}}, {{2, 3, 4, 5}, {1, 4, 5}}, {{2, 3, 4, 5}, {3, 4, 1}},
		{{8192, 10}, {10}}, {{8192, 10}, {}}, {{8192, 10}, {8192, 1}}, {{200, 300}, {300}}, {{300, 200}, {300, 1}},
		{{3*c + 5}, {}}, {{c, 3}, {3}}, {{3, c}, {3, 1}}, {{2, 3*c + 1}, {3*c + 1}}, {{70, 1000}, {1000}}, {{70, 257}, {257}}, {{70, 256}, {256}},
		{{16, 7, 6, 70}, {7, 1, 1}}, {{100, 3, 200}, {3, 1}}, {{100, 3, 200}, {100, 1, 200}}, {{100, 200, 3}, {100, 1, 3}}, {{10, 30, 5, 40}, {30, 1, 40}},
		{{10, 100, 5, 7}, {100, 1, 7}}, {{4, 30, 3, 300}, {30, 1, 300}}, {{2, 1, 3, 2, 1, 2, 3, 2, 1, 2, 2, 3, 2, 2, 2, 2}, {3, 1, 1, 2, 1, 1, 1, 2, 1, 3, 1, 2, 1, 2}},
	}
}

// SumTo tests sums to the shape that was broadcast, through destinations of any layout.
func SumTo[T kernel.Float](
	t *testing.T,
	part func(p *kernel.SumTo, dst kernel.Strided[T], add bool, src []T, shared []float64, c int),
	finish func(p *kernel.SumTo, dst kernel.Strided[T], add bool, shared []float64),
) {
	for _, k := range SumToCases() {
		s, to := k[0], k[1]
		src := Rand[T](kernel.Elems(s), 1)
		want, size := sumTo(src, s, to)
		p := kernel.NewSumTo(s, to)
		require.LessOrEqual(t, p.SharedBytes(), int64(1<<18))
		for _, v := range views(to) {
			for _, add := range []bool{false, true} {
				got := AnyOrder(t, p.Chunks(), func() (func(int), func() []T) {
					dst := dirty[T](v.n, add)
					shared := filled(int(p.SharedBytes()/8), math.NaN())
					return func(c int) { part(&p, operand(v, dst, to), add, src, shared, c) },
						func() []T { finish(&p, operand(v, dst, to), add, shared); return dst }
				})
				full := make([]float64, v.n) // what lies between stays as it was
				for i, g := range dirty[T](v.n, add) {
					full[i] = float64(g)
				}
				for i, at := range offsets(v, to) {
					if add {
						full[at] += want[i]
					} else {
						full[at] = want[i]
					}
				}
				if add { // the sum is rounded before it is added
					size += Eps[T]() / Eps[float64]() * (1 + largest(want)) / 64
				}
				Close64(t, full, got, size, fmt.Sprint(s, " -> ", to, v.name, add))
			}
		}
	}
}

// sumTo is the naive sum, and the size of the largest sum of absolute values.
func sumTo[T kernel.Float](src []T, s, to []int) (want []float64, size float64) {
	sums := make([]total, kernel.Elems(to))
	abs := make([]float64, len(sums))
	for i, v := range src {
		at, rest, stride := 0, i, 1
		for d := len(s) - 1; d >= 0; d-- {
			x := rest % s[d]
			rest /= s[d]
			if j := d - len(s) + len(to); j >= 0 {
				if to[j] == s[d] {
					at += x * stride
				}
				stride *= to[j]
			}
		}
		sums[at].add(float64(v))
		abs[at] += math.Abs(float64(v))
		size = max(size, abs[at])
	}
	for _, s := range sums {
		want = append(want, s.value())
	}
	return want, size
}

// SumToSpecials tests that NaN and Inf reach the sum, and only theirs.
func SumToSpecials[T kernel.Float](
	t *testing.T,
	part func(p *kernel.SumTo, dst kernel.Strided[T], add bool, src []T, shared []float64, c int),
	finish func(p *kernel.SumTo, dst kernel.Strided[T], add bool, shared []float64),
) {
	s, to := []int{5000, 5}, []int{5}
	src := Rand[T](25000, 1)
	src[5*4000+1] = T(math.NaN())
	src[5*1+2], src[5*4999+3] = T(math.Inf(1)), T(math.Inf(-1))
	src[5*70+4], src[5*4001+4] = T(math.Inf(1)), T(math.Inf(-1))
	want, _ := sumTo(src, s, to)
	p := kernel.NewSumTo(s, to)
	dst, shared := make([]T, 5), make([]float64, p.SharedBytes()/8)
	for c := range p.Chunks() {
		part(&p, kernel.Contiguous(dst, to), false, src, shared, c)
	}
	finish(&p, kernel.Contiguous(dst, to), false, shared)
	require.False(t, math.IsNaN(want[0]))
	Close64(t, want[:1], dst[:1], 5000)
	Close64(t, want[1:], dst[1:], 0)
}

// SumInts tests sums of integers, which are exact.
func SumInts[T int32 | int64 | uint8](
	t *testing.T,
	part func(p *kernel.SumTo, dst []int64, src []T, shared []int64, c int),
	finish func(p *kernel.SumTo, dst []int64, shared []int64),
) {
	for _, k := range SumToCases() {
		s, to := k[0], k[1]
		src, wide := make([]T, kernel.Elems(s)), make([]float64, kernel.Elems(s))
		for i, v := range Indices[int64](len(src), 255, 1) {
			src[i], wide[i] = T(v), float64(T(v))
		}
		want, _ := sumTo(wide, s, to)
		p := kernel.NewSumTo(s, to)
		got := AnyOrder(t, p.Chunks(), func() (func(int), func() []float64) {
			dst, shared := filled(len(want), int64(-7)), filled(int(p.SharedBytes()/8), int64(-7))
			return func(c int) { part(&p, dst, src, shared, c) }, func() []float64 {
				finish(&p, dst, shared)
				var sums []float64
				for _, v := range dst {
					sums = append(sums, float64(v))
				}
				return sums
			}
		})
		SameBits(t, want, got, fmt.Sprint(s, " -> ", to))
	}
}
