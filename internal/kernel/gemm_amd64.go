//go:build amd64 && !purego

package kernel

//go:generate go -C _gen run ./gemm -out ../gemm_amd64.s

// The float32 product with AVX2 and FMA: tiles of 6 x 16, whose twelve sums, with two vectors of B and two elements of A,
// are all the registers there are. A is packed into panels of six rows and B into panels of sixteen columns, element
// (i, k) of a panel next to (i+1, k). GEMM.check has seen that every index lies in its slice; what is read past an edge
// is masked or a repeated row, and what is computed past an edge goes to a tile of its own.
const (
	avxRows = 6
	avxCols = 16
	avxStep = 8 // of k, that rows are transposed by
)

// gemmSweep16 computes C[rows 16] = A[rows k] B[k 16] for one panel of up to six rows after the other, plus bias[16] unless nil,
// plus C if add. Element (i, l) of A is at a[i*row+l*step], and the next panel at a[next]; element (l, j) of B at b[l*ldb+j]. C, of
// leading dimension ldc, goes on with the next panel's rows. Products are added in ascending order of k, fused. Unless mask is
// nil it is one of 16 and says which columns of C exist. What lies at ahead is fetched into the second cache meanwhile, four bytes
// for each k and panel. rows, k and panels are at least 1.
//
//go:noescape
func gemmSweep16(rows, k, panels int, a *float32, next, row, step int, b *float32, ldb int, c *float32, ldc int, bias *float32, mask *int32, ahead *float32, add bool)

// gemmSweep8 is gemmSweep16 for 8 columns.
//
//go:noescape
func gemmSweep8(rows, k, panels int, a *float32, next, row, step int, b *float32, ldb int, c *float32, ldc int, bias *float32, mask *int32, ahead *float32, add bool)

// gemmPackRows6 packs 8*eights elements of up to six rows, at least one, into a panel of six, whose missing rows are the
// last one again.
//
//go:noescape
func gemmPackRows6(dst, src *float32, ld, rows, eights int)

// gemmPackRows16 packs 8*eights elements of up to eight rows, at least one, into eight columns of a panel of sixteen.
//
//go:noescape
func gemmPackRows16(dst, src *float32, ld, rows, eights int)

// gemmPackCols6 packs rows of up to six elements into a panel of six. The mask is of eight; what it leaves out is 0.
//
//go:noescape
func gemmPackCols6(dst, src *float32, ld, rows int, mask *int32)

// gemmPackCols12 and gemmPackCols16 pack rows of up to twelve or sixteen elements into a panel of as many.
//
//go:noescape
func gemmPackCols12(dst, src *float32, ld, rows int, mask *int32)

//go:noescape
func gemmPackCols16(dst, src *float32, ld, rows int, mask *int32)

// gemmPackPanels6 packs rows of 6*panels elements into panels of six.
//
//go:noescape
func gemmPackPanels6(dst, src *float32, ld, rows, panels int)

// gemmPackPanels12 and gemmPackPanels16 pack rows of 12*panels or 16*panels elements into panels of twelve or sixteen.
//
//go:noescape
func gemmPackPanels12(dst, src *float32, ld, rows, panels int)

//go:noescape
func gemmPackPanels16(dst, src *float32, ld, rows, panels int)

// gemmRow64 computes sum[64] = x[k] B[k 64], in the order of gemmSweep16.
//
//go:noescape
func gemmRow64(sum, x *float32, k int, b *float32, ldb int)

// gemmRow16 is gemmRow64 for up to 16 columns; sum has room for 16.
//
//go:noescape
func gemmRow16(sum, x *float32, k int, b *float32, ldb int, mask *int32)

// gemmDots8 computes sum[8] = M[8 k] x[k], in the order of gemmSweep16, for up to eight rows, at least one; sum has room
// for eight. The mask is for what k leaves over of 8.
//
//go:noescape
func gemmDots8(sum, x *float32, k int, m *float32, ld, rows int, mask *int32)

// avxMasks holds a mask for n of up to 16 elements, from element 16-n on.
var avxMasks = [32]int32{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

func avxMask(n int) *int32 { return &avxMasks[16-n] }

// avx2 is g, if this processor computes it with AVX2.
func avx2[T Float](g *GEMM[T]) *GEMM[float32] {
	if !useAVX2 {
		return nil
	}
	f, _ := any(g).(*GEMM[float32])
	return f
}

// computeFast is compute, if there is a faster one for T on this processor.
func computeFast[T Float](g *GEMM[T], t gemmBlock, scratch []byte) bool {
	f := avx2(g)
	if f != nil {
		computeAVX2(f, t, View[float32](scratch))
	}
	return f != nil
}

func packRowsFast[T Float](g *GEMM[T], to []T, i int, panels gemmPanels, p0, p1, k, depth int) bool {
	if f := avx2(g); f != nil {
		packRowsAVX2(any(to).([]float32), f, i, panels, p0, p1, k, depth)
		return true
	}
	f := double(g)
	if f != nil {
		packRowsDouble(any(to).([]float64), f, i, panels, p0, p1, k, depth)
	}
	return f != nil
}

func packColsFast[T Float](g *GEMM[T], to []T, j, cols, k, depth int) bool {
	if f := avx2(g); f != nil {
		packColsAVX2(any(to).([]float32), f, j, cols, k, depth)
		return true
	}
	f := double(g)
	if f != nil {
		packColsDouble(any(to).([]float64), f, j, cols, k, depth)
	}
	return f != nil
}

func multiplyFast[T Float](g *GEMM[T], t *gemmTask[T]) bool {
	if f := avx2(g); f != nil {
		u := any(t).(*gemmTask[float32])
		multiplyAVX2(f, u, packedRows(u.a), packedCols(u.b))
		return true
	}
	f := double(g)
	if f != nil {
		multiplyDouble(f, any(t).(*gemmTask[float64]))
	}
	return f != nil
}

// computeAVX2 is compute with AVX2. What would be read a few times only is not packed.
func computeAVX2(g *GEMM[float32], t gemmBlock, scratch []float32) {
	panels, kb := rowPanels(t.rows), gemmDepth(g.K)
	direct := directCols(g, t)
	for k := 0; k < g.K; k += kb {
		depth := min(kb, g.K-k)
		packed, room := cutAt(scratch, panels.room()*depth)
		task := gemmTask[float32]{depth: depth, first: k == 0, panels: panels, p1: panels.count, i: t.i, j: t.j, cols: direct}
		rows := rowsWhere(g, t.i, k)
		if t.cols > directMost {
			packRowsAVX2(packed, g, t.i, panels, 0, panels.count, k, depth)
			rows = packedRows(packed)
		}
		if direct > 0 {
			multiplyAVX2(g, &task, rows, colsAVX2{g.B[k*g.LDB+t.j:], g.LDB, false})
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
func directCols(g *GEMM[float32], t gemmBlock) int {
	if g.TransB || t.rows > directMost {
		return 0
	}
	return t.cols / avxCols * avxCols
}

// rowsAVX2 are rows of op(A): element (i, k) is data[i*row+k*step], or in panels of avxRows rows.
type rowsAVX2 struct {
	data      []float32
	row, step int
	packed    bool
}

func packedRows(panels []float32) rowsAVX2 { return rowsAVX2{panels, 1, avxRows, true} }

// colsAVX2 are columns of op(B): element (k, j) is data[k*ld+j], or in panels of avxCols columns.
type colsAVX2 struct {
	data   []float32
	ld     int
	packed bool
}

func packedCols(panels []float32) colsAVX2 { return colsAVX2{panels, avxCols, true} }

// rowsWhere are the rows of op(A) where they lie.
func rowsWhere(g *GEMM[float32], i, k int) rowsAVX2 {
	if g.TransA {
		return rowsAVX2{g.A[k*g.LDA+i:], 1, g.LDA, false}
	}
	return rowsAVX2{g.A[i*g.LDA+k:], g.LDA, 1, false}
}

// multiplyAVX2 multiplies rows by columns, a panel at a time.
func multiplyAVX2(g *GEMM[float32], t *gemmTask[float32], rows rowsAVX2, cols colsAVX2) {
	if raceEnabled {
		touchResult(g, t)
	}
	apart := 1
	if cols.packed {
		apart = t.depth
	}
	for j := 0; j < t.cols; j += avxCols {
		b := &cols.data[j*apart]
		ahead := b
		if next := (j + avxCols) * apart; cols.packed && next < len(cols.data) {
			ahead = &cols.data[next]
		}
		sweepAVX2(g, t, rows, b, ahead, cols.ld, j)
	}
}

// sweepAVX2 multiplies all rows by one panel of columns, which has those of the task from number j on; ahead is what comes next.
func sweepAVX2(g *GEMM[float32], t *gemmTask[float32], rows rowsAVX2, b, ahead *float32, ldb, j int) {
	var padded [avxCols]float32
	var bias *float32
	var mask *int32
	cols := min(avxCols, t.cols-j)
	if cols != 8 && cols != avxCols {
		mask = avxMask(cols)
	}
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
			&g.C[(t.i+row)*g.LDC+t.j+j], g.LDC, bias, mask, ahead, g.Add || !t.first)
		p = end
	}
}

// sweep is gemmSweep16, or gemmSweep8 where that is enough.
func sweep(height, cols, k, panels int, a *float32, next, row, step int, b *float32, ldb int, c *float32, ldc int, bias *float32, mask *int32, ahead *float32, add bool) {
	if cols <= 8 {
		gemmSweep8(height, k, panels, a, next, row, step, b, ldb, c, ldc, bias, mask, ahead, add)
		return
	}
	gemmSweep16(height, k, panels, a, next, row, step, b, ldb, c, ldc, bias, mask, ahead, add)
}

// packRowsAVX2 packs panels p0 to p1 of rows of op(A).
func packRowsAVX2(dst []float32, g *GEMM[float32], i int, panels gemmPanels, p0, p1, k, depth int) {
	if g.TransA {
		packTurnedAVX2(dst, g, i, panels, p0, p1, k, depth)
		return
	}
	done := depth / avxStep * avxStep
	for p := p0; p < p1; p++ {
		src, panel, n := g.A[(i+panels.row(p))*g.LDA+k:], dst[p*avxRows*depth:][:avxRows*depth], panels.height(p)
		if done > 0 {
			gemmPackRows6(&panel[0], &src[0], g.LDA, n, done/avxStep)
		}
		packRest(panel, avxRows, src, g.LDA, n, done, depth)
	}
}

// packTurnedAVX2 is packRowsAVX2 where A is stored transposed.
func packTurnedAVX2(dst []float32, g *GEMM[float32], i int, panels gemmPanels, p0, p1, k, depth int) {
	src := func(p int) *float32 { return &g.A[k*g.LDA+i+panels.row(p)] }
	p := p0
	if full := min(p1, panels.full()); p < full {
		gemmPackPanels6(&dst[p*avxRows*depth], src(p), g.LDA, depth, full-p)
		p = full
	}
	for ; p < p1; p++ {
		gemmPackCols6(&dst[p*avxRows*depth], src(p), g.LDA, depth, avxMask(panels.height(p)))
	}
}

// packColsAVX2 packs columns of op(B). Of eight or less, half a panel is made.
func packColsAVX2(dst []float32, g *GEMM[float32], j, cols, k, depth int) {
	if g.TransB {
		for c := 0; c < cols; c += avxCols {
			packTurnedColsAVX2(dst[c*depth:][:avxCols*depth], g, j+c, min(avxCols, cols-c), k, depth)
		}
		return
	}
	src, whole := g.B[k*g.LDB+j:], cols/avxCols*avxCols
	if whole > 0 {
		gemmPackPanels16(&dst[0], &src[0], g.LDB, depth, whole/avxCols)
	}
	if whole < cols {
		gemmPackCols16(&dst[whole*depth], &src[whole], g.LDB, depth, avxMask(cols-whole))
	}
}

// packTurnedColsAVX2 packs up to sixteen columns where B is stored transposed.
func packTurnedColsAVX2(panel []float32, g *GEMM[float32], j, cols, k, depth int) {
	src, done := g.B[j*g.LDB+k:], depth/avxStep*avxStep
	if done > 0 {
		gemmPackRows16(&panel[0], &src[0], g.LDB, min(cols, 8), done/avxStep)
		if cols > 8 {
			gemmPackRows16(&panel[8], &src[8*g.LDB], g.LDB, cols-8, done/avxStep)
		}
	}
	packRest(panel, avxCols, src, g.LDB, cols, done, depth)
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
