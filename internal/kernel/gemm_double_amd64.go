//go:build amd64 && !purego

package kernel

import "unsafe"

// The float64 product with AVX2 and FMA: tiles of 6 x 8, otherwise as those of float32 (gemm_amd64.go): the same
// panels of six rows, and panels of eight columns, half as wide as float32's.
const (
	doubleCols = 8
	doubleStep = 4 // of k, that rows are transposed by
)

// gemmSweepDouble8 is gemmSweep16 of float64 and of 8 columns.
//
//go:noescape
func gemmSweepDouble8(rows, k, panels int, a *float64, next, row, step int, b *float64, ldb int, c *float64, ldc int, bias *float64, mask *int64, ahead *float64, add bool)

// gemmSweepDouble4 is gemmSweepDouble8 for 4 columns.
//
//go:noescape
func gemmSweepDouble4(rows, k, panels int, a *float64, next, row, step int, b *float64, ldb int, c *float64, ldc int, bias *float64, mask *int64, ahead *float64, add bool)

// gemmPackRowsDouble6 packs 4*fours elements of up to six rows, at least one, into a panel of six, whose missing rows are the
// last one again.
//
//go:noescape
func gemmPackRowsDouble6(dst, src *float64, ld, rows, fours int)

// gemmPackRowsDouble8 is gemmPackRowsDouble6 for eight rows.
//
//go:noescape
func gemmPackRowsDouble8(dst, src *float64, ld, rows, fours int)

// gemmRowDouble32 computes sum[32] = x[k] B[k 32], in the order of a tile.
//
//go:noescape
func gemmRowDouble32(sum, x *float64, k int, b *float64, ldb int)

// gemmRowDouble8 is gemmRowDouble32 for up to 8 columns; sum has room for 8.
//
//go:noescape
func gemmRowDouble8(sum, x *float64, k int, b *float64, ldb int, mask *int64)

// gemmDotsDouble8 is gemmDots8 of float64. The mask is for what k leaves over of 4.
//
//go:noescape
func gemmDotsDouble8(sum, x *float64, k int, m *float64, ld, rows int, mask *int64)

// doubleMasks holds a mask for n of up to 8 elements, from element 8-n on.
var doubleMasks = [16]int64{-1, -1, -1, -1, -1, -1, -1, -1}

func doubleMask(n int) *int64 { return &doubleMasks[doubleCols-n] }

// double is g, if it is one of float64 and this processor computes it with AVX2.
func double[T Float](g *GEMM[T]) *GEMM[float64] {
	if !useAVX2 {
		return nil
	}
	f, _ := any(g).(*GEMM[float64])
	return f
}

// packRowsDouble packs panels p0 to p1 of rows of op(A): element (i, k) of a panel is at k*6+i.
func packRowsDouble(dst []float64, g *GEMM[float64], i int, panels gemmPanels, p0, p1, k, depth int) {
	if g.TransA {
		packTurnedDouble(dst, g, i, panels, p0, p1, k, depth)
		return
	}
	done := depth / doubleStep * doubleStep
	for p := p0; p < p1; p++ {
		src, panel, n := g.A[(i+panels.row(p))*g.LDA+k:], dst[p*avxRows*depth:][:avxRows*depth], panels.height(p)
		if done > 0 {
			gemmPackRowsDouble6(&panel[0], &src[0], g.LDA, n, done/doubleStep)
		}
		packRest(panel, avxRows, src, g.LDA, n, done, depth)
	}
}

// packTurnedDouble is packRowsDouble where A is stored transposed.
func packTurnedDouble(dst []float64, g *GEMM[float64], i int, panels gemmPanels, p0, p1, k, depth int) {
	src := func(p int) *float32 { return pairsAt(&g.A[k*g.LDA+i+panels.row(p)]) }
	p := p0
	if full := min(p1, panels.full()); p < full {
		gemmPackPanels12(pairsAt(&dst[p*avxRows*depth]), src(p), 2*g.LDA, depth, full-p)
		p = full
	}
	for ; p < p1; p++ {
		gemmPackCols12(pairsAt(&dst[p*avxRows*depth]), src(p), 2*g.LDA, depth, avxMask(2*panels.height(p)))
	}
}

// packColsDouble packs columns of op(B) into panels of eight.
func packColsDouble(dst []float64, g *GEMM[float64], j, cols, k, depth int) {
	if g.TransB {
		for c := 0; c < cols; c += doubleCols {
			packTurnedColsDouble(dst[c*depth:][:doubleCols*depth], g, j+c, min(doubleCols, cols-c), k, depth)
		}
		return
	}
	src, whole := g.B[k*g.LDB+j:], cols/doubleCols*doubleCols
	if whole > 0 {
		gemmPackPanels16(pairsAt(&dst[0]), pairsAt(&src[0]), 2*g.LDB, depth, whole/doubleCols)
	}
	if whole < cols {
		gemmPackCols16(pairsAt(&dst[whole*depth]), pairsAt(&src[whole]), 2*g.LDB, depth, avxMask(2*(cols-whole)))
	}
}

// packTurnedColsDouble packs up to eight columns where B is stored transposed.
func packTurnedColsDouble(panel []float64, g *GEMM[float64], j, cols, k, depth int) {
	src, done := g.B[j*g.LDB+k:], depth/doubleStep*doubleStep
	if done > 0 {
		gemmPackRowsDouble8(&panel[0], &src[0], g.LDB, cols, done/doubleStep)
	}
	packRest(panel, doubleCols, src, g.LDB, cols, done, depth)
}

// pairsAt is a float64 as two floats, which routines that only move bytes take.
func pairsAt(p *float64) *float32 { return (*float32)(unsafe.Pointer(p)) }

// multiplyDouble multiplies packed rows by packed columns, a panel at a time.
func multiplyDouble(g *GEMM[float64], t *gemmTask[float64]) {
	if raceEnabled {
		touchResult(g, t)
	}
	for j := 0; j < t.cols; j += doubleCols {
		b := &t.b[j*t.depth]
		ahead := b
		if next := (j + doubleCols) * t.depth; next < len(t.b) {
			ahead = &t.b[next]
		}
		sweepDoubles(g, t, b, ahead, j)
	}
}

// sweepDoubles multiplies all rows by one panel of columns, which has those of the task from number j on; ahead is what comes next.
func sweepDoubles(g *GEMM[float64], t *gemmTask[float64], b, ahead *float64, j int) {
	var padded [doubleCols]float64
	var bias *float64
	var mask *int64
	cols := min(doubleCols, t.cols-j)
	if cols != 4 && cols != doubleCols {
		mask = doubleMask(cols)
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
		c := &g.C[(t.i+t.panels.row(p))*g.LDC+t.j+j]
		sweepDouble(height, cols, t.depth, end-p, &t.a[p*avxRows*t.depth], avxRows*t.depth, b, c, g.LDC, bias, mask, ahead, g.Add || !t.first)
		p = end
	}
}

// sweepDouble is gemmSweepDouble8, or gemmSweepDouble4 where that is enough.
func sweepDouble(height, cols, k, panels int, a *float64, next int, b, c *float64, ldc int, bias *float64, mask *int64, ahead *float64, add bool) {
	if cols <= 4 {
		gemmSweepDouble4(height, k, panels, a, next, 1, avxRows, b, doubleCols, c, ldc, bias, mask, ahead, add)
		return
	}
	gemmSweepDouble8(height, k, panels, a, next, 1, avxRows, b, doubleCols, c, ldc, bias, mask, ahead, add)
}

// dotsDouble is dotsAVX2 of float64.
func dotsDouble(sum, x, m []float64, ld int) {
	var eight [8]float64
	for j := 0; j < len(sum); j += len(eight) {
		n := min(len(eight), len(sum)-j)
		if raceEnabled {
			touchRows(m[j*ld:], n, ld, len(x))
		}
		gemmDotsDouble8(&eight[0], &x[0], len(x), &m[j*ld], ld, n, doubleMask(len(x)%doubleStep))
		copy(sum[j:], eight[:n])
	}
}

// addRowsDouble is addRowsAVX2 of float64.
func addRowsDouble(sum, x, m []float64, ld int) {
	if raceEnabled {
		touchRows(m, len(x), ld, len(sum))
	}
	j := 0
	for ; j+32 <= len(sum); j += 32 {
		gemmRowDouble32(&sum[j], &x[0], len(x), &m[j], ld)
	}
	var some [8]float64
	for ; j < len(sum); j += len(some) {
		n := min(len(some), len(sum)-j)
		gemmRowDouble8(&some[0], &x[0], len(x), &m[j], ld, doubleMask(n))
		copy(sum[j:], some[:n])
	}
}
