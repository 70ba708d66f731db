//go:build amd64 && !purego

package kernel

import "unsafe"

//go:generate go -C _gen/gemm run main.go -out ../../gemm_amd64.s

// The float32 product with AVX2 and FMA: tiles of 6 x 16, whose twelve sums, with two vectors of B and two elements of A,
// are all the registers there are. A is packed into panels of six rows and B into panels of sixteen columns, element
// (i, k) of a panel next to (i+1, k). GEMM.check has seen that every index lies in its slice; what is read past an edge
// is masked or a repeated row, and what is computed past an edge goes to a tile of its own.
const (
	avxRows = 6
	avxCols = 16
	avxStep = 8 // of k, that rows are transposed by

	// avxFewRows is up to how many rows B is read where it lies: packing pays from the third panel of rows on.
	avxFewRows = 2 * avxRows
)

// gemmTile16 computes C[6 16] = A[6 k] B[k 16], plus bias[16] unless nil, plus C if add. A is a panel; rows of B are ldb
// elements apart. Products are added in ascending order of k, fused. k is at least 1.
//
//go:noescape
func gemmTile16(k int, a, b *float32, ldb int, c *float32, ldc int, bias *float32, add bool)

// gemmTile8 is gemmTile16 for 8 columns.
//
//go:noescape
func gemmTile8(k int, a, b *float32, ldb int, c *float32, ldc int, bias *float32, add bool)

// gemmPackRows6 packs 8*eights elements of up to six rows, at least one, into a panel of six, whose missing rows are the
// last one again. It writes two elements past the panel.
//
//go:noescape
func gemmPackRows6(dst, src *float32, ld, rows, eights int)

// gemmPackRows16 packs 8*eights elements of up to eight rows, at least one, into eight columns of a panel of sixteen.
//
//go:noescape
func gemmPackRows16(dst, src *float32, ld, rows, eights int)

// gemmPackCols6 packs rows of up to six elements into a panel of six. The mask is of eight; what it leaves out is 0. It
// writes two elements past the panel.
//
//go:noescape
func gemmPackCols6(dst, src *float32, ld, rows int, mask *int32)

// gemmPackCols16 packs rows of up to sixteen elements into a panel of sixteen.
//
//go:noescape
func gemmPackCols16(dst, src *float32, ld, rows int, mask *int32)

// gemmPackPanels6 packs rows of 6*panels elements into panels of six.
//
//go:noescape
func gemmPackPanels6(dst, src *float32, ld, rows, panels int)

// gemmRow64 computes sum[64] = x[k] B[k 64], in the order of gemmTile16.
//
//go:noescape
func gemmRow64(sum, x *float32, k int, b *float32, ldb int)

// gemmRow16 is gemmRow64 for up to 16 columns; sum has room for 16.
//
//go:noescape
func gemmRow16(sum, x *float32, k int, b *float32, ldb int, mask *int32)

// gemmDots8 computes sum[8] = M[8 k] x[k], in the order of gemmTile16, for up to eight rows, at least one; sum has room
// for eight. The mask is for what k leaves over of 8.
//
//go:noescape
func gemmDots8(sum, x *float32, k int, m *float32, ld, rows int, mask *int32)

// avxMasks holds a mask for n of up to 16 elements, from element 16-n on.
var avxMasks = [32]int32{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

func avxMask(n int) *int32 { return &avxMasks[16-n] }

// computeFast is compute, if there is a faster one for T on this processor.
func computeFast[T Float](g *GEMM[T], t gemmBlock, scratch []byte) bool {
	if !useAVX2 {
		return false
	}
	f, ok := any(g).(*GEMM[float32])
	if ok {
		computeAVX2(f, t, View[float32](scratch))
	}
	return ok
}

// computeAVX2 is compute with AVX2.
func computeAVX2(g *GEMM[float32], t gemmBlock, scratch []float32) {
	if raceEnabled {
		touchProduct(g, t)
	}
	kb := gemmDepth(g.K)
	for k := 0; k < g.K; k += kb {
		depth := min(kb, g.K-k)
		size := roundUp(t.rows, avxRows) * depth
		rows, panel := scratch[:size], scratch[roundUp(size, 16):][:avxCols*depth] // rows spill into what comes after them
		packRowsAVX2(rows, g, t, k, depth)
		for j := 0; j < t.cols; j += avxCols {
			u := gemmBlock{i: t.i, j: t.j + j, rows: t.rows, cols: min(avxCols, t.cols-j)}
			if b := k*g.LDB + u.j; t.rows <= avxFewRows && !g.TransB && u.cols == avxCols {
				sweepAVX2(g, u, rows, g.B[b:], g.LDB, depth, k == 0)
				continue
			}
			packColsAVX2(panel, g, u, k, depth)
			sweepAVX2(g, u, rows, panel, avxCols, depth, k == 0)
		}
	}
}

// sweepAVX2 multiplies all packed rows by up to sixteen columns.
func sweepAVX2(g *GEMM[float32], t gemmBlock, rows, b []float32, ldb, depth int, first bool) {
	var sum [avxRows * avxCols]float32
	var bias []float32
	if first && g.Bias != nil {
		bias = g.Bias[t.j:][:t.cols]
	}
	add, whole := g.Add || !first, t.cols == 8 || t.cols == avxCols
	for i := 0; i < t.rows; i += avxRows {
		a, c := &rows[i*depth], g.C[(t.i+i)*g.LDC+t.j:]
		n := min(avxRows, t.rows-i)
		if whole && n == avxRows {
			tileAVX2(depth, a, &b[0], ldb, &c[0], g.LDC, t.cols, unsafe.SliceData(bias), add)
			continue
		}
		tileAVX2(depth, a, &b[0], ldb, &sum[0], avxCols, t.cols, nil, false)
		storeAVX2(&sum, c, g.LDC, n, t.cols, bias, add)
	}
}

// tileAVX2 is the narrowest tile for cols columns. (Chosen by a variable, assembly would move its arguments to the heap.)
func tileAVX2(k int, a, b *float32, ldb int, c *float32, ldc, cols int, bias *float32, add bool) {
	if cols <= 8 {
		gemmTile8(k, a, b, ldb, c, ldc, bias, add)
		return
	}
	gemmTile16(k, a, b, ldb, c, ldc, bias, add)
}

// storeAVX2 puts the sums of a tile that C's edge cuts into C, as gemmTile16 does with those of a whole one.
func storeAVX2(sum *[avxRows * avxCols]float32, c []float32, ldc, rows, cols int, bias []float32, add bool) {
	for r := range rows {
		s, c := sum[r*avxCols:][:cols], c[r*ldc:][:cols]
		for j, b := range bias {
			s[j] += b
		}
		if !add {
			copy(c, s)
			continue
		}
		for j, x := range s {
			c[j] += x
		}
	}
}

// packRowsAVX2 packs rows of op(A) into panels.
func packRowsAVX2(dst []float32, g *GEMM[float32], t gemmBlock, k, depth int) {
	if g.TransA {
		src, whole := g.A[k*g.LDA+t.i:], t.rows/avxRows*avxRows
		if whole > 0 {
			gemmPackPanels6(&dst[0], &src[0], g.LDA, depth, whole/avxRows)
		}
		if whole < t.rows {
			gemmPackCols6(&dst[whole*depth], &src[whole], g.LDA, depth, avxMask(t.rows-whole))
		}
		return
	}
	done := depth / avxStep * avxStep
	for i := 0; i < t.rows; i += avxRows {
		src, panel, n := g.A[(t.i+i)*g.LDA+k:], dst[i*depth:][:avxRows*depth], min(avxRows, t.rows-i)
		if done > 0 {
			gemmPackRows6(&panel[0], &src[0], g.LDA, n, done/avxStep)
		}
		packRest(panel, avxRows, src, g.LDA, n, done, depth)
	}
}

// packColsAVX2 packs up to sixteen columns of op(B) into a panel. Of eight or less, half a panel is made.
func packColsAVX2(panel []float32, g *GEMM[float32], t gemmBlock, k, depth int) {
	if !g.TransB {
		gemmPackCols16(&panel[0], &g.B[k*g.LDB+t.j], g.LDB, depth, avxMask(t.cols))
		return
	}
	src, done := g.B[t.j*g.LDB+k:], depth/avxStep*avxStep
	if done > 0 {
		gemmPackRows16(&panel[0], &src[0], g.LDB, min(t.cols, 8), done/avxStep)
		if t.cols > 8 {
			gemmPackRows16(&panel[8], &src[8*g.LDB], g.LDB, t.cols-8, done/avxStep)
		}
	}
	packRest(panel, avxCols, src, g.LDB, t.cols, done, depth)
}

// packRest packs elements from number done on of n rows into a panel of the given width, with zeros for missing rows:
// what scratch happens to hold might be subnormal, and slow.
func packRest(panel []float32, width int, src []float32, ld, n, done, depth int) {
	for k := done; k < depth; k++ {
		to := panel[k*width:][:width]
		for i := range n {
			to[i] = src[i*ld+k]
		}
		clear(to[n:])
	}
}

// dotsFast is dots, if there is a faster one for T on this processor.
func dotsFast[T Float](sum, x, m []T, ld int) bool {
	if !useAVX2 {
		return false
	}
	s, ok := any(sum).([]float32)
	if ok {
		dotsAVX2(s, any(x).([]float32), any(m).([]float32), ld)
	}
	return ok
}

func dotsAVX2(sum, x, m []float32, ld int) {
	var eight [8]float32
	for j := 0; j < len(sum); j += len(eight) {
		n := min(len(eight), len(sum)-j)
		if raceEnabled {
			touchRows(m[j*ld:], n, ld, len(x))
		}
		gemmDots8(&eight[0], &x[0], len(x), &m[j*ld], ld, n, avxMask(len(x)%avxStep))
		copy(sum[j:], eight[:n])
	}
}

// addRowsFast is addRows, if there is a faster one for T on this processor.
func addRowsFast[T Float](sum, x, m []T, ld int) bool {
	if !useAVX2 {
		return false
	}
	s, ok := any(sum).([]float32)
	if ok {
		addRowsAVX2(s, any(x).([]float32), any(m).([]float32), ld)
	}
	return ok
}

func addRowsAVX2(sum, x, m []float32, ld int) {
	if raceEnabled {
		touchRows(m, len(x), ld, len(sum))
	}
	j := 0
	for ; j+64 <= len(sum); j += 64 {
		gemmRow64(&sum[j], &x[0], len(x), &m[j], ld)
	}
	var some [16]float32
	for ; j < len(sum); j += len(some) {
		n := min(len(some), len(sum)-j)
		gemmRow16(&some[0], &x[0], len(x), &m[j], ld, avxMask(n))
		copy(sum[j:], some[:n])
	}
}

// touchProduct reads and writes the ends of rows as assembly will, for the race detector.
func touchProduct(g *GEMM[float32], t gemmBlock) {
	if g.TransA {
		touchRows(g.A[t.i:], g.K, g.LDA, t.rows)
	} else {
		touchRows(g.A[t.i*g.LDA:], t.rows, g.LDA, g.K)
	}
	if g.TransB {
		touchRows(g.B[t.j*g.LDB:], t.cols, g.LDB, g.K)
	} else {
		touchRows(g.B[t.j:], g.K, g.LDB, t.cols)
	}
	for i := range t.rows {
		c := g.C[(t.i+i)*g.LDC+t.j:][:t.cols]
		first, last := c[0], c[len(c)-1]
		c[0], c[len(c)-1] = first, last
	}
}

// touchRows reads the first and the last element of each row.
func touchRows(m []float32, rows, ld, cols int) (sum float32) {
	for i := range rows {
		row := m[i*ld:][:cols]
		sum += row[0] + row[cols-1]
	}
	return sum
}
