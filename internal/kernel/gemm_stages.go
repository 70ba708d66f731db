package kernel

import (
	"fmt"
	"unsafe"
)

// A large product in stages. Each block of op(A) and of op(B) is packed once, into memory that all lanes share, instead of
// by every chunk that needs it. That also leaves chunks free to be small.
//
// Stages come in pairs: the first packs a block of A, and one of B where that is another one than before; the second
// multiplies the two. For each block of columns, for each block of K, all blocks of rows are gone through. So B is packed
// once, and A once for every block of columns. Products of few rows or few terms share one operand only (gemm_few.go), and
// rows may be packed beforehand (gemm_packed.go).
const (
	stageRows = 384 // most rows of a block of A
	stageCols = 1024

	// A product is staged from stageWork multiplications on, if it has at least stageLeast rows and columns: with less, what
	// two stages cost, or that the workers wait for each other between them, weighs more than packing.
	stageWork  = 1 << 22
	stageLeast = 96

	// What one chunk packs or multiplies.
	packedRowsOf  = 48
	packedColsOf  = 128
	stageTileRows = 192
	stageTileCols = 256
)

// Staging is how a large product is computed in stages. It follows from the product's sizes and from whether op(A) is packed
// beforehand ([Staging.Packed]), none of which changes a bit of C.
type Staging struct {
	gemmStages
	few    fewRows  // if its chunks have columns, it is computed so,
	terms  fewTerms // or if these have rows, so
	stages int
}

// GEMMStaging is how the product of m x k by k x n is computed, where it is large enough for stages. Otherwise it has none.
func GEMMStaging(m, n, k int) Staging {
	s := blockStaging(m, n, k)
	switch {
	case s.stages == 0:
	case m <= stageRows:
		s.few = fewRowsOf(m, n, k)
		s.stages = s.few.stages()
	case s.deep() == 1:
		s.terms = fewTermsOf(m, n)
		s.stages = s.terms.stages()
	}
	return s
}

// blockStaging has blocks of A and B, whether or not rows are few.
func blockStaging(m, n, k int) (s Staging) {
	if min(m, n) < stageLeast || m*n*k < stageWork {
		return s
	}
	s.gemmStages = stagesOf(m, n, k)
	s.setBlocks()
	return s
}

func (s *Staging) setBlocks() {
	s.few, s.terms, s.stages = fewRows{}, fewTerms{}, 2*s.across()*s.deep()*s.down()
}

// Packed has all of op(A) packed beforehand ([GEMM.PackRows]), for several products that share it: it is one block.
func (s Staging) Packed() Staging {
	if s.stages > 0 {
		s.rows, s.packed = roundUp(s.m, gemmRows), true
		s.setBlocks()
	}
	return s
}

// Staging is how g is computed: with packed rows, if it has any.
func (g *GEMM[T]) Staging() Staging {
	s := GEMMStaging(g.M, g.N, g.K)
	if len(g.Packed) > 0 {
		return s.Packed()
	}
	return s
}

// Stages is the number of stages, 0 for a product that is too small for any.
func (s *Staging) Stages() int { return s.stages }

// Shared is the bytes that the stages want for all lanes together, for elements of elemSize bytes: room for one block of
// op(A), unless that is packed beforehand or terms are few, and for one of op(B), unless rows are few. It is at most 1.4 MiB
// for float32 and twice that for float64.
func (s *Staging) Shared(elemSize int) int64 {
	var n int
	switch {
	case s.stages == 0:
	case s.few.cols > 0:
		n = s.few.room()
	case s.terms.rows > 0:
		n = s.terms.cols * s.depth
	default:
		a, b := s.room()
		n = a + b + s.sums()
	}
	return roundUp64(int64(n) * int64(elemSize))
}

// Scratch is the bytes that they want of each lane: room for some columns of op(B) where rows are few, for some rows of op(A)
// where terms are. It is at most 96 KiB for float32 and twice that for float64.
func (s *Staging) Scratch(elemSize int) int64 {
	return roundUp64(int64(s.few.cols+s.terms.rows) * int64(s.depth) * int64(elemSize))
}

// Chunks is the number of chunks of a stage.
func (s *Staging) Chunks(stage int) int {
	switch {
	case s.few.cols > 0:
		return s.few.chunks(stage)
	case s.terms.rows > 0:
		return s.terms.chunks(stage)
	}
	t := s.at(stage)
	return t.chunks()
}

// MostChunks is the largest number of chunks that a stage has.
func (s *Staging) MostChunks() (most int) {
	for i := range s.stages {
		most = max(most, s.Chunks(i))
	}
	return most
}

// gemmStages is a product cut into blocks.
type gemmStages struct {
	m, n, k           int
	rows, cols, depth int  // of a block
	tileRows          int  // most rows that a chunk multiplies
	inner             bool // all blocks of K for one block of C, before the next
	packed            bool // op(A) is, beforehand
}

func stagesOf(m, n, k int) gemmStages {
	return gemmStages{
		m: m, n: n, k: k, rows: even(m, stageRows, gemmRows), cols: even(n, stageCols, gemmCols), depth: gemmDepth(k),
		tileRows: stageTileRows,
	}
}

func (s *gemmStages) down() int   { return ceilDiv(s.m, s.rows) }
func (s *gemmStages) across() int { return ceilDiv(s.n, s.cols) }
func (s *gemmStages) deep() int   { return ceilDiv(s.k, s.depth) }

// room is how many elements the packed blocks take, each a multiple of 16.
func (s *gemmStages) room() (a, b int) {
	if !s.packed {
		a = roundUp(rowPanels(s.rows).room()*s.depth, 16)
	}
	return a, s.cols * s.depth
}

// gemmStage is one stage: a block of C and one of K.
type gemmStage struct {
	gemmBlock
	k, depth int
	tileRows int
	multiply bool // else pack
	another  bool // block of B than in the stage before
	packed   bool
}

func (s *gemmStages) at(stage int) (t gemmStage) {
	t.multiply, t.tileRows, t.packed = stage%2 != 0, s.tileRows, s.packed
	stage /= 2
	down, deep := s.down(), s.deep()
	if t.another = stage%down == 0; s.inner && deep > 1 {
		t.another = true
		t.i, t.k = stage/deep%down*s.rows, stage%deep*s.depth
	} else {
		t.i, t.k = stage%down*s.rows, stage/down%deep*s.depth
	}
	t.j = stage / (down * deep) * s.cols
	t.rows, t.cols, t.depth = min(s.rows, s.m-t.i), min(s.cols, s.n-t.j), min(s.depth, s.k-t.k)
	return t
}

func (t *gemmStage) chunks() int {
	if t.multiply {
		panels, cols := t.tile()
		return ceilDiv(rowPanels(t.rows).count, panels) * ceilDiv(t.cols, cols)
	}
	n := t.rowChunks()
	if t.another {
		n += ceilDiv(t.cols, packedColsOf)
	}
	return n
}

// rowChunks is how many chunks pack A. They come before those that pack B.
func (t *gemmStage) rowChunks() int {
	if t.packed {
		return 0
	}
	return ceilDiv(t.rows, packedRowsOf)
}

// tile is what a chunk multiplies: panels of rows, and columns.
func (t *gemmStage) tile() (panels, cols int) {
	rows, cols := tileOf(t.rows, t.cols, t.depth, t.tileRows, stageTileCols)
	return even(rowPanels(t.rows).count, ceilDiv(rows, gemmRows), 1), even(t.cols, cols, gemmCols)
}

// Stage computes one chunk of a stage. shared, of at least [Staging.Shared] bytes, is the same for all calls and keeps its
// content from one stage to the next; scratch, of at least [Staging.Scratch], is the lane's.
func (g *GEMM[T]) Stage(shared, scratch []byte, stage, chunk int) {
	g.checkOperands()
	s := g.Staging()
	var zero T
	size := int(unsafe.Sizeof(zero))
	s.check("GEMM", len(shared), size, stage, chunk)
	if need := s.Scratch(size); int64(len(scratch)) < need {
		panic(fmt.Sprintf("kernel: GEMM: %d bytes of scratch, want %d", len(scratch), need))
	}
	switch {
	case s.few.cols > 0:
		g.stageFewRows(s.few, View[T](shared), View[T](scratch), stage, chunk)
		return
	case s.terms.rows > 0:
		g.stageFewTerms(s.terms, View[T](scratch), View[T](shared), stage, chunk)
		return
	}
	t := s.at(stage)
	na, nb := s.room()
	a, b := View[T](shared)[:na], View[T](shared)[na:na+nb]
	if s.packed {
		a = g.packedBlock(t.k, t.depth)
	}
	if t.multiply {
		g.multiplyChunk(&t, a, b, chunk)
		return
	}
	g.packChunk(&t, a, b, chunk)
}

// check panics unless there is such a chunk, and shared has room.
func (s *Staging) check(what string, shared, elemSize, stage, chunk int) {
	if stage < 0 || stage >= s.stages {
		panic(fmt.Sprintf("kernel: %s: stage %d of %d", what, stage, s.stages))
	}
	if n := s.Chunks(stage); chunk < 0 || chunk >= n {
		panic(fmt.Sprintf("kernel: %s: chunk %d of %d", what, chunk, n))
	}
	if need := s.Shared(elemSize); int64(shared) < need {
		panic(fmt.Sprintf("kernel: %s: %d shared bytes, want %d", what, shared, need))
	}
}

// packChunk packs some rows of a stage or some columns.
func (g *GEMM[T]) packChunk(t *gemmStage, a, b []T, chunk int) {
	n := t.rowChunks()
	if chunk >= n {
		j := (chunk - n) * packedColsOf
		g.packCols(b[j*t.depth:], t.j+j, min(packedColsOf, t.cols-j), t.k, t.depth)
		return
	}
	g.packRowsOf(a, t.gemmBlock, t.k, t.depth, chunk)
}

// packRowsOf packs a chunk of the rows of a block.
func (g *GEMM[T]) packRowsOf(to []T, t gemmBlock, k, depth, chunk int) {
	panels := rowPanels(t.rows)
	each := packedRowsOf / gemmRows
	g.packRows(to, t.i, panels, chunk*each, min(panels.count, (chunk+1)*each), k, depth)
}

// multiplyChunk multiplies some rows of a stage by some columns.
func (g *GEMM[T]) multiplyChunk(t *gemmStage, a, b []T, chunk int) {
	panels := rowPanels(t.rows)
	n, cols := t.tile()
	across := ceilDiv(t.cols, cols)
	p, j := chunk/across*n, chunk%across*cols
	task := gemmTask[T]{
		a: a, b: b[j*t.depth:], depth: t.depth, first: t.k == 0,
		panels: panels, p0: p, p1: min(panels.count, p+n), i: t.i, j: t.j + j, cols: min(cols, t.cols-j),
	}
	g.multiply(&task)
	if lo, hi := task.rows(); t.k+t.depth == g.K {
		g.finish(gemmBlock{t.i + lo, task.j, hi - lo, task.cols})
	}
}
