package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// What linear and matmul share: products and column sums as the engine wants them, asked for in Infer and run on the
// workers. gemm_mixed.go has those of halves.

// gemmWork raises what is asked for to what products of m x k by k x n want, batch of them.
func gemmWork(scratch, shared *int64, chunks *int, batch, m, n, k int, dt tensor.DType) {
	if kernel.GEMMTiny(m, n, k) {
		*chunks = max(*chunks, batch)
		return
	}
	if s := kernel.GEMMStaging(m, n, k); s.Stages() > 0 {
		stagedWork(scratch, shared, chunks, &s, dt)
		return
	}
	*scratch = max(*scratch, kernel.GEMMScratch(m, n, k, dt.Size()))
	*chunks = max(*chunks, batch*gemmTiles(batch, m, n, k))
}

func stagedWork(scratch, shared *int64, chunks *int, s *kernel.Staging, dt tensor.DType) {
	*scratch = max(*scratch, s.Scratch(dt.Size()))
	*shared = max(*shared, s.Shared(dt.Size()))
	*chunks = max(*chunks, s.MostChunks())
}

// gemmTiles is how many chunks one of a batch of products is cut into: one, where the batch alone makes enough.
func gemmTiles(batch, m, n, k int) int {
	if n := kernel.GEMMChunks(m, n, k); batch < wantProducts {
		return n
	}
	return min(1, m*n)
}

const wantProducts = 16

// gemm computes one product. shared is what gemmWork asked for.
func gemm[T kernel.Float](r *autograd.Run, shared []byte, g kernel.GEMM[T]) {
	if kernel.GEMMTiny(g.M, g.N, g.K) {
		g.Chunk(nil, 0)
		return
	}
	if s := g.Staging(); s.Stages() > 0 {
		gemmStages(r, shared, g)
		return
	}
	chunks := kernel.GEMMChunks(g.M, g.N, g.K)
	if chunks == 1 {
		g.Chunk(r.Lane(0), 0)
		return
	}
	gemmPar(r, chunks, g)
}

// gemmPar is apart from gemm so that g moves to the heap only here.
func gemmPar[T kernel.Float](r *autograd.Run, chunks int, g kernel.GEMM[T]) {
	r.Par(chunks, func(lane, c int) { g.Chunk(r.Lane(lane), c) })
}

// gemmStages computes one product in stages.
func gemmStages[T kernel.Float](r *autograd.Run, shared []byte, g kernel.GEMM[T]) {
	stage, s := 0, g.Staging()
	run := func(lane, c int) { g.Stage(shared, r.Lane(lane), stage, c) }
	for n := s.Stages(); stage < n; stage++ {
		r.Par(s.Chunks(stage), run)
	}
}

// columnSumsWork raises what is asked for to what the sums of the columns of rows x cols want.
func columnSumsWork(shared *int64, chunks *int, rows, cols int) {
	if kernel.Chunks(rows*cols) <= 1 {
		*chunks = max(*chunks, 1)
		return
	}
	p := columnSumsPlan(rows, cols)
	*shared = max(*shared, p.SharedBytes())
	*chunks = max(*chunks, p.Chunks())
}

func columnSumsPlan(rows, cols int) kernel.SumTo {
	from, to := [2]int{rows, cols}, [1]int{cols}
	return kernel.NewSumTo(from[:], to[:])
}

// columnSums fills dst, of cols elements, with the sums of the columns of g, or adds them: the gradient of a bias. shared
// is what columnSumsWork asked for.
func columnSums[T kernel.Float](r *autograd.Run, shared []byte, dst *tensor.Tensor, add bool, g []T, cols int) {
	d, parts := operand.Of[T](dst), kernel.View[float64](shared)
	p := columnSumsPlan(len(g)/max(1, cols), cols)
	if p.Chunks() == 1 {
		kernel.SumPart(&p, d, add, g, parts, 0)
		kernel.SumFinish(&p, d, add, parts)
		return
	}
	columnSumsPar(r, p, d, add, g, parts)
}

func columnSumsPar[T kernel.Float](r *autograd.Run, p kernel.SumTo, d kernel.Strided[T], add bool, g []T, parts []float64) {
	r.Par(p.Chunks(), func(_, c int) { kernel.SumPart(&p, d, add, g, parts, c) })
	kernel.SumFinish(&p, d, add, parts)
}
