package kernel

import "fmt"

// A large MixedGEMM in stages, as GEMM has them (gemm_stages.go): halves are widened where blocks are packed, a few rows at a
// time in the lane's scratch, so each is widened as often as it is packed. Where C is of a half type and K has several
// blocks, the sums of a block of C wait for the last one in shared scratch, as float32; so the blocks of K are gone through
// within one block of C, and B is packed for every block of rows.

// stageSlice is how many columns are widened at a time.
const stageSlice = 64

// mixedTileRows is the most rows of what a chunk multiplies: as many as GEMM has would need twice the scratch for a tile of C.
const mixedTileRows = 96

// mixedStages is how a product with a C of a half type, or of float32, is cut.
func mixedStages(m, n, k int, half bool) gemmStages {
	s := stagesOf(m, n, k)
	s.inner, s.tileRows = half, mixedTileRows
	return s
}

// MixedGEMMStages is the number of stages that a product is computed in, or 0 where it is too small for any.
func MixedGEMMStages(m, n, k int) int { return GEMMStages(m, n, k) }

// MixedGEMMShared is the bytes that the stages want for all lanes together, by whether C is of a half type: at most 3 MiB.
func MixedGEMMShared(m, n, k int, half bool) int64 {
	if GEMMStages(m, n, k) == 0 {
		return 0
	}
	s := mixedStages(m, n, k, half)
	a, b := s.room()
	return 4 * int64(a+b+s.sums())
}

// sums is the room for a block of C that waits for the other blocks of K.
func (s *gemmStages) sums() int {
	if !s.inner || s.deep() == 1 {
		return 0
	}
	return s.rows * s.cols
}

// MixedGEMMStageScratch is the bytes that Stage wants of its lane: room for what it widens, or for a tile of C.
func MixedGEMMStageScratch(m, n, k int) int64 {
	if GEMMStages(m, n, k) == 0 {
		return 0
	}
	depth := gemmDepth(k)
	block := func(rows, cols int) int { return max(rows*(cols+mixedGap), cols*(rows+mixedGap)) }
	tile := mixedTileRows * stageTileCols
	return 4 * int64(roundUp(max(block(packedRowsOf, depth), block(depth, stageSlice), tile), 16))
}

// MixedGEMMStageChunks is the number of chunks of a stage.
func MixedGEMMStageChunks(m, n, k int, half bool, stage int) int {
	s := mixedStages(m, n, k, half)
	t := s.at(stage)
	return t.chunks()
}

// MixedGEMMMostChunks is the largest number of chunks that a stage has.
func MixedGEMMMostChunks(m, n, k int, half bool) (most int) {
	s := mixedStages(m, n, k, half)
	for i := range GEMMStages(m, n, k) {
		t := s.at(i)
		most = max(most, t.chunks())
	}
	return most
}

// Stage computes one chunk of a stage. shared, of at least [MixedGEMMShared] bytes, is the same for all calls and keeps its
// content from one stage to the next; scratch, of at least [MixedGEMMStageScratch], is the lane's.
func (g *MixedGEMM) Stage(shared, scratch []byte, stage, chunk int) {
	g.check()
	half := g.C.Bits != nil
	s := mixedStages(g.M, g.N, g.K, half)
	if n := GEMMStages(g.M, g.N, g.K); stage < 0 || stage >= n {
		panic(fmt.Sprintf("kernel: MixedGEMM: stage %d of %d", stage, n))
	}
	t := s.at(stage)
	if n := t.chunks(); chunk < 0 || chunk >= n {
		panic(fmt.Sprintf("kernel: MixedGEMM: chunk %d of %d", chunk, n))
	}
	need, lane := MixedGEMMShared(g.M, g.N, g.K, half), MixedGEMMStageScratch(g.M, g.N, g.K)
	if int64(len(shared)) < need || int64(len(scratch)) < lane {
		panic(fmt.Sprintf("kernel: MixedGEMM: %d shared bytes and %d of scratch, want %d and %d", len(shared), len(scratch), need, lane))
	}
	na, nb := s.room()
	room := View[float32](shared)
	a, b, sums := room[:na], room[na:na+nb], room[na+nb:][:s.sums()]
	if t.multiply {
		g.multiplyChunk(&t, a, b, sums, View[float32](scratch), t.k+t.depth == g.K, chunk)
		return
	}
	g.packChunk(&t, a, b, View[float32](scratch), chunk)
}

// packChunk packs some rows of a stage or some columns.
func (g *MixedGEMM) packChunk(t *gemmStage, a, b, room []float32, chunk int) {
	var each GEMM[float32]
	if n := t.rowChunks(); chunk >= n {
		end := min(t.cols, (chunk-n+1)*packedColsOf)
		for j := (chunk - n) * packedColsOf; j < end; j += stageSlice {
			cols := min(stageSlice, end-j)
			each.B, each.LDB, each.TransB = g.B.block(room, t.k, t.j+j, t.depth, cols)
			each.packCols(b[j*t.depth:], 0, cols, 0, t.depth)
		}
		return
	}
	panels, most := rowPanels(t.rows), packedRowsOf/gemmRows
	p0, p1 := chunk*most, min(rowPanels(t.rows).count, (chunk+1)*most)
	r0, r1 := panels.row(p0), panels.row(p1)
	each.A, each.LDA, each.TransA = g.A.block(room, t.i+r0, t.k, r1-r0, t.depth)
	each.packRows(a, -r0, panels, p0, p1, 0, t.depth)
}

// multiplyChunk multiplies some rows of a stage by some columns. What is rounded lies in sums until the last block of K, or
// in room where there is but one.
func (g *MixedGEMM) multiplyChunk(t *gemmStage, a, b, sums, room []float32, last bool, chunk int) {
	panels := rowPanels(t.rows)
	n, cols := t.tile()
	across := ceilDiv(t.cols, cols)
	p0, j := chunk/across*n, chunk%across*cols
	p1 := min(panels.count, p0+n)
	r0, r1 := panels.row(p0), panels.row(p1)
	tile := gemmBlock{t.i + r0, t.j + j, r1 - r0, min(cols, t.cols-j)}

	if len(sums) > 0 { // one tile after the other, which all have their places
		room = sums[r0*t.cols+j*(r1-r0):]
	}
	each := GEMM[float32]{Add: g.Add}
	var bias [stageTileCols]float32
	if t.k == 0 {
		each.Bias = g.Bias.row(bias[:], tile.j, tile.cols)
	}
	each.C, each.LDC = g.C.open(room, tile, g.Add && t.k == 0)
	each.multiply(&gemmTask[float32]{
		a: a, b: b[j*t.depth:], depth: t.depth, first: t.k == 0, panels: panels, p0: p0, p1: p1, i: -r0, cols: tile.cols,
	})
	if last {
		g.finish(each.C, each.LDC, tile)
		g.C.close(room, tile)
	}
}
