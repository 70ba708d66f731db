package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestCrossEntropy(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.CrossEntropy(t, kernel.CrossEntropy[float32, int64])
	})
	kerneltest.CrossEntropy(t, kernel.CrossEntropy[float64, int32])
}

func TestCrossEntropyBackward(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.CrossEntropyBackward(t, kernel.CrossEntropyBackward[float32, int32])
	})
	kerneltest.CrossEntropyBackward(t, kernel.CrossEntropyBackward[float64, int64])
}

func TestCrossEntropyCorners(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.CrossEntropyCorners(t, kernel.CrossEntropy[float32, int64], kernel.CrossEntropyBackward[float32, int64])
	})
	kerneltest.CrossEntropyCorners(t, kernel.CrossEntropy[float64, int32], kernel.CrossEntropyBackward[float64, int32])
}

// The first bad row of the whole is found from chunks that know their own.
func TestCrossEntropyFinishBad(t *testing.T) {
	const rows, cols = 3 * kernel.ChunkSize, 1
	parts := []float64{1, 10, -1, 2, 20, 5, 3, 30, 0}
	sum, kept, bad := kernel.CrossEntropyFinish(parts, rows, cols)
	require.Equal(t, 6.0, sum)
	require.Equal(t, 60.0, kept)
	require.Equal(t, kernel.ChunkSize+5, bad)
}

func BenchmarkCrossEntropy(b *testing.B) {
	o := &kernel.CrossEntropyOptions[float32]{Ignore: -100}
	for _, cols := range []int{65, 8192} {
		n := 1 << 19 / cols * cols
		rows := n / cols
		x, dx := kerneltest.Rand[float32](n, 1), make([]float32, n)
		lse, targets, part := make([]float32, rows), kerneltest.Indices[int64](rows, cols, 2), make([]float64, kernel.CrossEntropyPart)
		name := map[int]string{65: "65", 8192: "8192"}[cols]
		b.Run("forward/"+name, func(b *testing.B) {
			perElement(b, n, 4, func() { kernel.CrossEntropy(part, nil, lse, x, targets, cols, o) })
		})
		b.Run("backward/"+name, func(b *testing.B) {
			perElement(b, n, 8, func() { kernel.CrossEntropyBackward(dx, false, nil, 1, x, lse, targets, cols, o) })
		})
	}
}

func TestCrossEntropyRange(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.CrossEntropyRange[float32, int64](t)
	})
	kerneltest.CrossEntropyRange[float64, int32](t)
}

// A row that comes range by range must not be cut within a block of classes, and products over classes are cut there.
func TestClassBlock(t *testing.T) {
	for classes := range 20000 {
		block := kernel.ClassBlock(classes)
		require.Positive(t, block)
		require.LessOrEqual(t, block, 1024)
		if classes > block {
			require.Zero(t, block%kernel.GEMMDepth(classes), classes)
			require.Equal(t, kernel.GEMMDepth(classes), kernel.GEMMDepth(block), classes)
		}
	}
}
