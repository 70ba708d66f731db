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

// MixedGEMMStaging is how a large product is computed in stages, by whether C is of a half type. What all lanes share is at most
// 3 MiB by default.
func MixedGEMMStaging(m, n, k int, half bool) Staging {
	s := blockStaging(m, n, k)
	s.inner, s.tileRows = half, mixedTileRows
	return s
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
	if s := blockStaging(m, n, k); s.stages == 0 {
		return 0
	}
	depth := gemmDepth(k)
	block := func(rows, cols int) int { return max(rows*(cols+mixedGap), cols*(rows+mixedGap)) }
	tile := mixedTileRows * stageTileCols
	return 4 * int64(roundUp(max(block(packedRowsOf, depth), block(depth, stageSlice), tile), 16))
}

// Staging is how g is computed.
func (g *MixedGEMM) Staging() Staging { return MixedGEMMStaging(g.M, g.N, g.K, g.C.Bits != nil) }

// Stage computes one chunk of a stage. shared, of at least [Staging.Shared] bytes, is the same for all calls and keeps its
// content from one stage to the next; scratch, of at least [MixedGEMMStageScratch], is the lane's.
func (g *MixedGEMM) Stage(shared, scratch []byte, stage, chunk int) {
	g.check()
	s := g.Staging()
	s.check("MixedGEMM", len(shared), 4, stage, chunk)
	t := s.at(stage)
	if lane := MixedGEMMStageScratch(g.M, g.N, g.K); int64(len(scratch)) < lane {
		panic(fmt.Sprintf("kernel: MixedGEMM: %d bytes of scratch, want %d", len(scratch), lane))
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
