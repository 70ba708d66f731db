package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestEmbedding(t *testing.T) {
	kerneltest.Embedding(t, kernel.Embedding[float32, int64])
	kerneltest.Embedding(t, kernel.Embedding[float64, int32])
}

func TestEmbeddingBackward(t *testing.T) {
	kerneltest.EmbeddingBackward(t, kernel.EmbeddingBackward[float32, int32])
	kerneltest.EmbeddingBackward(t, kernel.EmbeddingBackward[float64, int64])
}

func BenchmarkEmbedding(b *testing.B) {
	const rows, cols, vocabulary = 2048, 384, 5000
	w, y := make([]float32, vocabulary*cols), make([]float32, rows*cols)
	index := kerneltest.Indices[int64](rows, vocabulary, 1)
	b.Run("forward", func(b *testing.B) {
		perElement(b, rows*cols, 8, func() { kernel.Embedding(y, w, index, cols) })
	})
	b.Run("backward", func(b *testing.B) {
		perElement(b, rows*cols, 12, func() {
			for c := range kernel.ColChunks(cols) {
				c0, c1 := kernel.ColRange(cols, c)
				kernel.EmbeddingBackward(w, true, y, index, cols, c0, c1, -1)
			}
		})
	})
}
