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
// once, and A once for every block of columns.
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

// GEMMStages is the number of stages that a product is computed in, or 0 where it is too small for any.
func GEMMStages(m, n, k int) int {
	if min(m, n) < stageLeast || m*n*k < stageWork {
		return 0
	}
	s := stagesOf(m, n, k)
	return 2 * s.across() * s.deep() * s.down()
}

// GEMMShared is the bytes that the stages want for all lanes together, for elements of elemSize bytes: room for one block of
// op(A) and one of op(B). It is at most 1.4 MiB for float32 and twice that for float64.
func GEMMShared(m, n, k, elemSize int) int64 {
	if GEMMStages(m, n, k) == 0 {
		return 0
	}
	s := stagesOf(m, n, k)
	a, b := s.room()
	return roundUp64(int64(a)*int64(elemSize)) + roundUp64(int64(b)*int64(elemSize))
}

// GEMMStageChunks is the number of chunks of a stage.
func GEMMStageChunks(m, n, k, stage int) int {
	s := stagesOf(m, n, k)
	t := s.at(stage)
	return t.chunks()
}

// GEMMMostChunks is the largest number of chunks that a stage has.
func GEMMMostChunks(m, n, k int) (most int) {
	s := stagesOf(m, n, k)
	for i := range GEMMStages(m, n, k) {
		t := s.at(i)
		most = max(most, t.chunks())
	}
	return most
}

// gemmStages is a product cut into blocks.
type gemmStages struct {
	m, n, k           int
	rows, cols, depth int  // of a block
	tileRows          int  // most rows that a chunk multiplies
	inner             bool // all blocks of K for one block of C, before the next
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
	return roundUp(rowPanels(s.rows).room()*s.depth, 16), s.cols * s.depth
}

// gemmStage is one stage: a block of C and one of K.
type gemmStage struct {
	gemmBlock
	k, depth int
	tileRows int
	multiply bool // else pack
	another  bool // block of B than in the stage before
}

func (s *gemmStages) at(stage int) (t gemmStage) {
	t.multiply, t.tileRows = stage%2 != 0, s.tileRows
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
func (t *gemmStage) rowChunks() int { return ceilDiv(t.rows, packedRowsOf) }

// tile is what a chunk multiplies: panels of rows, and columns.
func (t *gemmStage) tile() (panels, cols int) {
	rows, cols := tileOf(t.rows, t.cols, t.depth, t.tileRows, stageTileCols)
	return even(rowPanels(t.rows).count, ceilDiv(rows, gemmRows), 1), even(t.cols, cols, gemmCols)
}

// Stage computes one chunk of a stage. shared, of at least [GEMMShared] bytes, is the same for all calls and keeps its
// content from one stage to the next.
func (g *GEMM[T]) Stage(shared []byte, stage, chunk int) {
	g.checkOperands()
	s := stagesOf(g.M, g.N, g.K)
	if n := GEMMStages(g.M, g.N, g.K); stage < 0 || stage >= n {
		panic(fmt.Sprintf("kernel: GEMM: stage %d of %d", stage, n))
	}
	t := s.at(stage)
	if n := t.chunks(); chunk < 0 || chunk >= n {
		panic(fmt.Sprintf("kernel: GEMM: chunk %d of %d", chunk, n))
	}
	var zero T
	if need := GEMMShared(g.M, g.N, g.K, int(unsafe.Sizeof(zero))); int64(len(shared)) < need {
		panic(fmt.Sprintf("kernel: GEMM: %d shared bytes, want %d", len(shared), need))
	}
	na, nb := s.room()
	a, b := View[T](shared)[:na], View[T](shared)[na:na+nb]
	if t.multiply {
		g.multiplyChunk(&t, a, b, chunk)
		return
	}
	g.packChunk(&t, a, b, chunk)
}

// packChunk packs some rows of a stage or some columns.
func (g *GEMM[T]) packChunk(t *gemmStage, a, b []T, chunk int) {
	n := t.rowChunks()
	if chunk >= n {
		j := (chunk - n) * packedColsOf
		g.packCols(b[j*t.depth:], t.j+j, min(packedColsOf, t.cols-j), t.k, t.depth)
		return
	}
	panels := rowPanels(t.rows)
	each := packedRowsOf / gemmRows
	g.packRows(a, t.i, panels, chunk*each, min(panels.count, (chunk+1)*each), t.k, t.depth)
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
