package kernel_test

import (
	"fmt"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func attentionKernels[T kernel.Float]() kerneltest.AttentionKernels[T] {
	return kerneltest.AttentionKernels[T]{
		Forward: (*kernel.Attention[T]).Forward, Rows: (*kernel.Attention[T]).BackwardRows, Columns: (*kernel.Attention[T]).BackwardColumns,
		Heads: (*kernel.Attention[T]).BackwardHeads, Bias: (*kernel.Attention[T]).BackwardBias, Deltas: (*kernel.Attention[T]).Deltas,
	}
}

func TestAttention(t *testing.T) {
	eachFamily(t, func(t *testing.T) { kerneltest.Attention(t, attentionKernels[float32]()) })
	kerneltest.Attention(t, attentionKernels[float64]())
}

func TestAttentionHidden(t *testing.T) {
	eachFamily(t, func(t *testing.T) { kerneltest.AttentionHidden(t, attentionKernels[float32]()) })
	kerneltest.AttentionHidden(t, attentionKernels[float64]())
}

func TestAttentionDoesNotAllocate(t *testing.T) {
	p := kernel.AttentionPlan{Batch: 1, Queries: 90, Keys: 90, Heads: 2, Groups: 1, Dim: 8, ValueDim: 8, Scale: 1, Causal: true, Drop: 0.5}
	p.Additive, p.BiasShape = true, [4]int{1, 1, 1, 90}
	a := benchAttention(p)
	scratch := make([]byte, max(a.Scratch(4), a.BackwardScratch(4)))
	eachFamily(t, func(t *testing.T) {
		kerneltest.NoAllocs(t, func() {
			a.Forward(scratch, 0)
			a.Deltas(0)
			a.BackwardRows(scratch, 1)
			a.BackwardColumns(scratch, 1)
			a.BackwardHeads(scratch, 0)
			a.BackwardBias(scratch, 0)
		})
	})
}

// benchAttention is a call on random operands.
func benchAttention(p kernel.AttentionPlan) *kernel.Attention[float32] {
	rows := func(t, h, d int, seed uint64) kernel.Rank4[float32] {
		return kernel.Rank4[float32]{Data: kerneltest.Rand[float32](p.Batch*t*h*d, seed), Strides: [4]int{t * h * d, h * d, d, 1}}
	}
	a := &kernel.Attention[float32]{AttentionPlan: p}
	a.Q, a.K, a.V = rows(p.Queries, p.Heads, p.Dim, 1), rows(p.Keys, p.Groups, p.Dim, 2), rows(p.Keys, p.Groups, p.ValueDim, 3)
	if p.Additive {
		a.Bias = kernel.Rank4[float32]{Data: kerneltest.Rand[float32](p.Keys, 5), Strides: [4]int{0, 0, 0, 1}}
		a.DBias = kernel.AttentionGrad[float32]{Rank4: kernel.Rank4[float32]{Data: make([]float32, p.Keys), Strides: a.Bias.Strides}}
	}
	a.Out, a.Grad = make([]float32, p.Batch*p.Queries*p.Heads*p.ValueDim), rows(p.Queries, p.Heads, p.ValueDim, 4).Data
	a.LSE, a.Delta = make([]float32, p.Batch*p.Queries*p.Heads), make([]float32, p.Batch*p.Queries*p.Heads)
	a.DQ.Rank4, a.DK.Rank4, a.DV.Rank4 = rows(p.Queries, p.Heads, p.Dim, 1), rows(p.Keys, p.Groups, p.Dim, 2), rows(p.Keys, p.Groups, p.ValueDim, 3)
	return a
}

// BenchmarkAttention is one core. A pair of a query and a key counts as 2 (Dim + ValueDim) operations forward and 5 times
// 2 Dim backward, of which causality leaves half.
func BenchmarkAttention(b *testing.B) {
	for _, n := range []int{64, 65, 256, 1024} {
		for _, causal := range []bool{false, true} {
			p := kernel.AttentionPlan{Batch: 2, Queries: n, Keys: n, Heads: 4, Groups: 4, Dim: 64, ValueDim: 64, Scale: 0.125, Causal: causal}
			a := benchAttention(p)
			scratch := make([]byte, max(a.Scratch(4), a.BackwardScratch(4)))
			pairs := float64(n * n * p.Heads * p.Batch)
			if causal {
				pairs = float64(n * (n + 1) / 2 * p.Heads * p.Batch)
			}
			run := func(name string, perPair float64, chunks int, f func([]byte, int)) {
				b.Run(fmt.Sprintf("%s/T=%d,causal=%v", name, n, causal), func(b *testing.B) {
					perSecond(b, pairs*perPair, func() {
						for c := range chunks {
							f(scratch, c)
						}
					})
				})
			}
			run("forward", 4*64, a.RowChunks(), a.Forward)
			run("deltas", 0, a.DeltaChunks(), func(_ []byte, c int) { a.Deltas(c) })
			run("heads", 10*64, a.HeadChunks(), a.BackwardHeads)
			run("rows", 6*64, a.RowChunks(), a.BackwardRows)
			run("columns", 8*64, a.ColumnChunks(), a.BackwardColumns)
		}
	}
}
