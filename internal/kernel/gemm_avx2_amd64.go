//go:build amd64 && !purego

package kernel

import "unsafe"

// The product with AVX2 and FMA, of float32 and float64: what is the same but for the width of a register. A panel of op(A) has
// six rows, one of op(B) columns of 64 bytes.

// avxColsOf is how many columns a panel has, and avxStepOf how many steps of k rows are transposed by.
func avxColsOf[T Float]() int { var e T; return 64 / int(unsafe.Sizeof(e)) }
func avxStepOf[T Float]() int { var e T; return 32 / int(unsafe.Sizeof(e)) }

// singles is p for routines of float32, or for those that only move bytes: then of floats, which are unitOf as many.
func singles[T Float](p *T) *float32 { return (*float32)(unsafe.Pointer(p)) }
func doubles[T Float](p *T) *float64 { return (*float64)(unsafe.Pointer(p)) }
func unitOf[T Float]() int           { var e T; return int(unsafe.Sizeof(e)) / 4 }

// computeFast is compute, if there is a faster one on this processor.
func computeFast[T Float](g *GEMM[T], t gemmBlock, scratch []byte) bool {
	if useAVX2 {
		computeAVX2(g, t, View[T](scratch))
	}
	return useAVX2
}

func packRowsFast[T Float](g *GEMM[T], to []T, i int, panels gemmPanels, p0, p1, k, depth int) bool {
	if useAVX2 {
		packRowsAVX2(to, g, i, panels, p0, p1, k, depth)
	}
	return useAVX2
}

func packColsFast[T Float](g *GEMM[T], to []T, j, cols, k, depth int) bool {
	if useAVX2 {
		packColsAVX2(to, g, j, cols, k, depth)
	}
	return useAVX2
}

func multiplyFast[T Float](g *GEMM[T], t *gemmTask[T]) bool {
	if useAVX2 {
		multiplyAVX2(g, t, packedRows(t.a), packedCols(t.b))
	}
	return useAVX2
}

// computeAVX2 is compute with AVX2. What would be read a few times only is not packed.
func computeAVX2[T Float](g *GEMM[T], t gemmBlock, scratch []T) {
	panels, kb := rowPanels(t.rows), gemmDepth(g.K)
	direct := directCols(g, t)
	for k := 0; k < g.K; k += kb {
		depth := min(kb, g.K-k)
		packed, room := cutAt(scratch, panels.room()*depth)
		task := gemmTask[T]{depth: depth, first: k == 0, panels: panels, p1: panels.count, i: t.i, j: t.j, cols: direct}
		rows := rowsWhere(g, t.i, k)
		if t.cols > directMost {
			packRowsAVX2(packed, g, t.i, panels, 0, panels.count, k, depth)
			rows = packedRows(packed)
		}
		if direct > 0 {
			multiplyAVX2(g, &task, rows, colsAVX2[T]{g.B[k*g.LDB+t.j:], g.LDB, false})
		}
		for j := direct; j < t.cols; j += gemmGroup {
			task.j, task.cols = t.j+j, min(gemmGroup, t.cols-j)
			packColsAVX2(room, g, task.j, task.cols, k, depth)
			multiplyAVX2(g, &task, rows, packedCols(room))
		}
	}
}

// directMost is the largest number of columns for which rows of op(A) are read where they lie, and the largest number of
// rows for which columns of op(B) are.
const directMost = 128

// directCols is how many columns of op(B) are read where they lie: whole panels.
func directCols[T Float](g *GEMM[T], t gemmBlock) int {
	if g.TransB || t.rows > directMost {
		return 0
	}
	return t.cols / avxColsOf[T]() * avxColsOf[T]()
}

// rowsAVX2 are rows of op(A): element (i, k) is data[i*row+k*step], or in panels of avxRows rows.
type rowsAVX2[T Float] struct {
	data      []T
	row, step int
	packed    bool
}

func packedRows[T Float](panels []T) rowsAVX2[T] { return rowsAVX2[T]{panels, 1, avxRows, true} }

// colsAVX2 are columns of op(B): element (k, j) is data[k*ld+j], or in panels.
type colsAVX2[T Float] struct {
	data   []T
	ld     int
	packed bool
}

func packedCols[T Float](panels []T) colsAVX2[T] { return colsAVX2[T]{panels, avxColsOf[T](), true} }

// rowsWhere are the rows of op(A) where they lie.
func rowsWhere[T Float](g *GEMM[T], i, k int) rowsAVX2[T] {
	if g.TransA {
		return rowsAVX2[T]{g.A[k*g.LDA+i:], 1, g.LDA, false}
	}
	return rowsAVX2[T]{g.A[i*g.LDA+k:], g.LDA, 1, false}
}

// multiplyAVX2 multiplies rows by columns, a panel at a time.
func multiplyAVX2[T Float](g *GEMM[T], t *gemmTask[T], rows rowsAVX2[T], cols colsAVX2[T]) {
	if raceEnabled {
		touchResult(g, t)
	}
	apart, wide := 1, avxColsOf[T]()
	if cols.packed {
		apart = t.depth
	}
	for j := 0; j < t.cols; j += wide {
		b := &cols.data[j*apart]
		ahead := b
		if next := (j + wide) * apart; cols.packed && next < len(cols.data) {
			ahead = &cols.data[next]
		}
		sweepAVX2(g, t, rows, b, ahead, cols.ld, j)
	}
}

// sweepAVX2 multiplies all rows by one panel of columns, which has those of the task from number j on; ahead is what comes next.
func sweepAVX2[T Float](g *GEMM[T], t *gemmTask[T], rows rowsAVX2[T], b, ahead *T, ldb, j int) {
	var padded [avxCols]T // more than enough for float64
	var bias *T
	cols := min(avxColsOf[T](), t.cols-j)
	if t.first && g.Bias != nil {
		copy(padded[:], g.Bias[t.j+j:][:cols])
		bias = &padded[0]
	}
	for p := t.p0; p < t.p1; {
		height, end := t.panels.height(p), t.p1
		if p < t.panels.high {
			end = min(end, t.panels.high)
		}
		row := t.panels.row(p)
		at, next := row*rows.row, height*rows.row
		if rows.packed {
			at, next = p*avxRows*t.depth, avxRows*t.depth
		}
		sweep(height, cols, t.depth, end-p, &rows.data[at], next, rows.row, rows.step, b, ldb,
			&g.C[(t.i+row)*g.LDC+t.j+j], g.LDC, bias, ahead, g.Add || !t.first)
		p = end
	}
}

// sweep is the routine for a type and a number of columns.
func sweep[T Float](height, cols, k, panels int, a *T, next, row, step int, b *T, ldb int, c *T, ldc int, bias, ahead *T, add bool) {
	if unitOf[T]() == 1 {
		var mask *int32
		if cols != 8 && cols != avxCols {
			mask = avxMask(cols)
		}
		if cols <= 8 {
			gemmSweep8(height, k, panels, singles(a), next, row, step, singles(b), ldb, singles(c), ldc, singles(bias), mask, singles(ahead), add)
			return
		}
		gemmSweep16(height, k, panels, singles(a), next, row, step, singles(b), ldb, singles(c), ldc, singles(bias), mask, singles(ahead), add)
		return
	}
	var mask *int64
	if cols != 4 && cols != doubleCols {
		mask = doubleMask(cols)
	}
	if cols <= 4 {
		gemmSweepDouble4(height, k, panels, doubles(a), next, row, step, doubles(b), ldb, doubles(c), ldc, doubles(bias), mask, doubles(ahead), add)
		return
	}
	gemmSweepDouble8(height, k, panels, doubles(a), next, row, step, doubles(b), ldb, doubles(c), ldc, doubles(bias), mask, doubles(ahead), add)
}

// packRowsAVX2 packs panels p0 to p1 of rows of op(A).
func packRowsAVX2[T Float](dst []T, g *GEMM[T], i int, panels gemmPanels, p0, p1, k, depth int) {
	if g.TransA {
		packTurnedAVX2(dst, g, i, panels, p0, p1, k, depth)
		return
	}
	step := avxStepOf[T]()
	done := depth / step * step
	for p := p0; p < p1; p++ {
		src, panel, n := g.A[(i+panels.row(p))*g.LDA+k:], dst[p*avxRows*depth:][:avxRows*depth], panels.height(p)
		if done > 0 {
			packRows6(&panel[0], &src[0], g.LDA, n, done/step)
		}
		packRest(panel, avxRows, src, g.LDA, n, done, depth)
	}
}

// packRows6 is the routine for a type.
func packRows6[T Float](dst, src *T, ld, rows, steps int) {
	if unitOf[T]() == 1 {
		gemmPackRows6(singles(dst), singles(src), ld, rows, steps)
		return
	}
	gemmPackRowsDouble6(doubles(dst), doubles(src), ld, rows, steps)
}

// packTurnedAVX2 is packRowsAVX2 where A is stored transposed.
func packTurnedAVX2[T Float](dst []T, g *GEMM[T], i int, panels gemmPanels, p0, p1, k, depth int) {
	u := unitOf[T]()
	src := func(p int) *float32 { return singles(&g.A[k*g.LDA+i+panels.row(p)]) }
	p := p0
	if full := min(p1, panels.full()); p < full {
		to := singles(&dst[p*avxRows*depth])
		if u == 1 {
			gemmPackPanels6(to, src(p), g.LDA, depth, full-p)
		} else {
			gemmPackPanels12(to, src(p), u*g.LDA, depth, full-p)
		}
		p = full
	}
	for ; p < p1; p++ {
		to, mask := singles(&dst[p*avxRows*depth]), avxMask(u*panels.height(p))
		if u == 1 {
			gemmPackCols6(to, src(p), g.LDA, depth, mask)
		} else {
			gemmPackCols12(to, src(p), u*g.LDA, depth, mask)
		}
	}
}

// packColsAVX2 packs columns of op(B). Of half a panel or less, half is made where B is stored transposed.
func packColsAVX2[T Float](dst []T, g *GEMM[T], j, cols, k, depth int) {
	wide, u := avxColsOf[T](), unitOf[T]()
	if g.TransB {
		for c := 0; c < cols; c += wide {
			packTurnedColsAVX2(dst[c*depth:][:wide*depth], g, j+c, min(wide, cols-c), k, depth)
		}
		return
	}
	src, whole := g.B[k*g.LDB+j:], cols/wide*wide
	if whole > 0 {
		gemmPackPanels16(singles(&dst[0]), singles(&src[0]), u*g.LDB, depth, whole/wide)
	}
	if whole < cols {
		gemmPackCols16(singles(&dst[whole*depth]), singles(&src[whole]), u*g.LDB, depth, avxMask(u*(cols-whole)))
	}
}

// packTurnedColsAVX2 packs up to a panel of columns where B is stored transposed.
func packTurnedColsAVX2[T Float](panel []T, g *GEMM[T], j, cols, k, depth int) {
	wide, step := avxColsOf[T](), avxStepOf[T]()
	src, done := g.B[j*g.LDB+k:], depth/step*step
	if done > 0 {
		for c := 0; c < cols; c += 8 { // once for float64
			packCols8(&panel[c], &src[c*g.LDB], g.LDB, min(cols-c, 8), done/step)
		}
	}
	packRest(panel, wide, src, g.LDB, cols, done, depth)
}

// packCols8 is the routine for a type.
func packCols8[T Float](dst, src *T, ld, rows, steps int) {
	if unitOf[T]() == 1 {
		gemmPackRows16(singles(dst), singles(src), ld, rows, steps)
		return
	}
	gemmPackRowsDouble8(doubles(dst), doubles(src), ld, rows, steps)
}

// packRest packs elements from number done on of n rows into a panel of the given width, with zeros for missing rows:
// what scratch happens to hold might be subnormal, and slow.
func packRest[T Float](panel []T, width int, src []T, ld, n, done, depth int) {
	for k := done; k < depth; k++ {
		to := panel[k*width:][:width]
		for i := range n {
			to[i] = src[i*ld+k]
		}
		clear(to[n:])
	}
}

// touchResult writes the ends of rows as assembly will, for the race detector.
func touchResult[T Float](g *GEMM[T], t *gemmTask[T]) {
	lo, hi := t.rows()
	for i := lo; i < hi; i++ {
		c := g.C[(t.i+i)*g.LDC+t.j:][:t.cols]
		first, last := c[0], c[len(c)-1]
		c[0], c[len(c)-1] = first, last
	}
}

// touchRows reads the first and the last element of each row.
func touchRows[T Float](m []T, rows, ld, cols int) (sum T) {
	for i := range rows {
		row := m[i*ld:][:cols]
		sum += row[0] + row[cols-1]
	}
	return sum
}
