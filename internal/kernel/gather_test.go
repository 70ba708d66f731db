package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestGather(t *testing.T) {
	kerneltest.Gather(t, kernel.Gather[float32, int64])
	kerneltest.Gather(t, kernel.Gather[float64, int32])
}

func TestGatherBackward(t *testing.T) {
	kerneltest.GatherBackward(t, kernel.GatherBackward[float32, int32])
	kerneltest.GatherBackward(t, kernel.GatherBackward[float64, int64])
}

func TestNoPosition(t *testing.T) {
	index := kernel.Strided[int64]{Data: []int64{0, 1, 7, 2, -1, 1}, Shape: []int{3, 2}, Strides: []int{1, 3}}
	require.Equal(t, 3, kernel.NoPosition(index, 3), "0 2, 1 -1, 7 1")
	require.Equal(t, 3, kernel.NoPosition(index, 8))
	require.Equal(t, 1, kernel.NoPosition(index, 2))
	require.Equal(t, 0, kernel.NoPosition(index, 0))
	require.Equal(t, -1, kernel.NoPosition(kernel.Contiguous([]int32{0, 1, 2}, []int{3}), 3))
}

// Scatters can be shared among workers if there is a dimension to cut.
func TestGatherChunks(t *testing.T) {
	for _, k := range []struct {
		shape []int
		dim   int
		want  int
	}{
		{[]int{8192, 384}, 0, 6}, {[]int{384, 8192}, 1, 192}, {[]int{32, 128, 256}, 1, 32}, {[]int{100000, 5, 3}, 1, 92},
		{[]int{100000}, 0, 1}, {[]int{3, 4}, 0, 1}, {[]int{3, 0}, 0, 0},
	} {
		require.Equal(t, k.want, kernel.GatherChunks(k.shape, k.dim), k)
	}
}

func TestGatherDoesNotAllocate(t *testing.T) {
	shape := []int{3, 4}
	x, y := kernel.Contiguous(make([]float32, 12), shape), make([]float32, 12)
	index := kernel.Contiguous(make([]int64, 12), shape)
	kerneltest.NoAllocs(t, func() { kernel.Gather(y, x, index, 0, 0, 12) })
	kerneltest.NoAllocs(t, func() { kernel.GatherBackward(x, kernel.Contiguous(y, shape), index, 1, 0) })
}

func BenchmarkGather(b *testing.B) {
	const rows, cols, n = 2048, 384, 1000
	shape := []int{rows, cols}
	x, y := kernel.Contiguous(make([]float32, n*cols), []int{n, cols}), make([]float32, rows*cols)
	g := kernel.Contiguous(y, shape)
	each := kernel.Contiguous(kerneltest.Indices[int64](rows*cols, n, 1), shape)
	shared := kernel.Strided[int64]{Data: kerneltest.Indices[int64](rows, n, 1), Shape: shape, Strides: []int{1, 0}}
	along := kernel.Contiguous(kerneltest.Indices[int64](rows*cols, cols, 1), shape)
	wide := kernel.Contiguous(make([]float32, rows*cols), shape)
	for _, k := range []struct {
		name  string
		x     kernel.Strided[float32]
		index kernel.Strided[int64]
		dim   int
	}{{"rows", x, shared, 0}, {"dim0", x, each, 0}, {"dim1", wide, along, 1}} {
		b.Run(k.name+"/forward", func(b *testing.B) {
			perElement(b, rows*cols, 8, func() {
				chunked(rows*cols, func(lo, hi int) { kernel.Gather(y, k.x, k.index, k.dim, lo, hi) })
			})
		})
		b.Run(k.name+"/backward", func(b *testing.B) {
			perElement(b, rows*cols, 12, func() {
				for c := range kernel.GatherChunks(shape, k.dim) {
					kernel.GatherBackward(k.x, g, k.index, k.dim, c)
				}
			})
		})
	}
}
