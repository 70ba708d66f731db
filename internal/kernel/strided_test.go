package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestAdd(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Add(t, kernel.Add[float32])
	})
	kerneltest.Add(t, kernel.Add[float64])
	eachFamily(t, func(t *testing.T) {
		kerneltest.AddInPlace(t, kernel.Add[float32])
	})
}

func TestAccumulate(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Accumulate(t, kernel.Accumulate[float32])
	})
	kerneltest.Accumulate(t, kernel.Accumulate[float64])
}

func TestCopy(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Copy(t, kernel.Copy[float32])
	})
	kerneltest.Copy(t, kernel.Copy[float64])
}

func TestScale(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.Scale(t, kernel.Scale[float32])
	})
	kerneltest.Scale(t, kernel.Scale[float64])
}

func TestStridedOtherTypes(t *testing.T) {
	shape := []int{2, 3}
	dst := make([]bool, 6)
	kernel.Copy(kernel.Strided[bool]{Data: dst, Shape: shape, Strides: []int{1, 2}},
		kernel.Contiguous([]bool{true, false, false, true, true, false}, shape), 0, 6)
	require.Equal(t, []bool{true, true, false, true, false, false}, dst)

	sum := make([]int64, 6)
	kernel.Add(kernel.Contiguous(sum, shape), kernel.Contiguous([]int64{1, 2, 3, 4, 5, 6}, shape),
		kernel.Strided[int64]{Data: []int64{10}, Shape: shape, Strides: []int{0, 0}}, 0, 6)
	require.Equal(t, []int64{11, 12, 13, 14, 15, 16}, sum)
}

func TestStridedDoesNotAllocate(t *testing.T) {
	x := make([]float32, 24)
	shape, strides := []int{2, 3, 4}, []int{1, 2, 6}
	kerneltest.NoAllocs(t, func() {
		kernel.Add(kernel.Contiguous(x, shape), kernel.Strided[float32]{Data: x, Shape: shape, Strides: strides}, kernel.Contiguous(x, shape), 0, 24)
	})
}

func BenchmarkAdd(b *testing.B) {
	for _, s := range benchSizes {
		x, y := make([]float32, s.n), make([]float32, s.n)
		rows := []int{s.n / 512, 512}
		swapped := kernel.Strided[float32]{Data: x, Shape: rows, Strides: []int{1, s.n / 512}}
		bias := kernel.Strided[float32]{Data: x, Shape: rows, Strides: []int{0, 1}}
		column := kernel.Strided[float32]{Data: x, Shape: rows, Strides: []int{1, 0}}
		dst, whole := kernel.Contiguous(y, rows), kernel.Contiguous(x, rows)
		narrow := []int{s.n / 8, 8}
		run := func(name string, bytes int, d, p, q kernel.Strided[float32]) {
			b.Run(name+"/"+s.name, func(b *testing.B) {
				perElement(b, s.n, bytes, func() { chunked(s.n, func(lo, hi int) { kernel.Add(d, p, q, lo, hi) }) })
			})
		}
		run("contiguous", 12, dst, whole, whole)
		run("inplace", 12, dst, dst, whole)
		run("bias", 8, dst, whole, bias)
		run("column", 8, dst, whole, column)
		run("transposed", 12, dst, whole, swapped)
		run("bias8", 8, kernel.Contiguous(y, narrow), kernel.Contiguous(x, narrow),
			kernel.Strided[float32]{Data: x, Shape: narrow, Strides: []int{0, 1}})
	}
}

func BenchmarkCopy(b *testing.B) {
	for _, s := range benchSizes {
		x, y := make([]float32, s.n), make([]float32, s.n)
		rows := []int{s.n / 512, 512}
		heads := []int{s.n / (64 * 8 * 16), 8, 16, 64} // [B T H D] seen as [B H T D]
		for _, k := range []struct {
			name string
			src  kernel.Strided[float32]
		}{
			{"contiguous", kernel.Contiguous(x, rows)},
			{"transposed", kernel.Strided[float32]{Data: x, Shape: rows, Strides: []int{1, s.n / 512}}},
			{"heads", kernel.Strided[float32]{Data: x, Shape: heads, Strides: []int{64 * 8 * 16, 64, 64 * 8, 1}}},
		} {
			b.Run(k.name+"/"+s.name, func(b *testing.B) {
				perElement(b, s.n, 8, func() {
					chunked(s.n, func(lo, hi int) { kernel.Copy(kernel.Contiguous(y, k.src.Shape), k.src, lo, hi) })
				})
			})
		}
	}
}
