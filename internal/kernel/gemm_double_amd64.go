//go:build amd64 && !purego

package kernel

import "math"

// The float64 product with AVX2 and FMA: tiles of 6 x 8, otherwise as those of float32 (gemm_amd64.go). Packing is plain Go,
// into the same panels of six rows and into panels of eight columns, half as wide as float32's.
const doubleCols = 8

// gemmSweepDouble8 is gemmSweep16 of float64 and of 8 columns.
//
//go:noescape
func gemmSweepDouble8(rows, k, panels int, a *float64, next, row, step int, b *float64, ldb int, c *float64, ldc int, bias *float64, mask *int64, add bool)

// gemmSweepDouble4 is gemmSweepDouble8 for 4 columns.
//
//go:noescape
func gemmSweepDouble4(rows, k, panels int, a *float64, next, row, step int, b *float64, ldb int, c *float64, ldc int, bias *float64, mask *int64, add bool)

// doubleMasks holds a mask for n of up to 8 elements, from element 8-n on.
var doubleMasks = [16]int64{-1, -1, -1, -1, -1, -1, -1, -1}

// double is g, if it is one of float64 and this processor computes it with AVX2.
func double[T Float](g *GEMM[T]) *GEMM[float64] {
	if !useAVX2 {
		return nil
	}
	f, _ := any(g).(*GEMM[float64])
	return f
}

// packRowsDouble packs panels p0 to p1 of rows of op(A): element (i, k) of a panel is at k*6+i, zeros for missing rows.
func packRowsDouble(dst []float64, g *GEMM[float64], i int, panels gemmPanels, p0, p1, k, depth int) {
	for p := p0; p < p1; p++ {
		panel, n := dst[p*avxRows*depth:][:avxRows*depth], panels.height(p)
		if at := i + panels.row(p); g.TransA {
			packAcross(panel, avxRows, g.A[k*g.LDA+at:], g.LDA, n)
		} else {
			packAlong(panel, avxRows, g.A[at*g.LDA+k:], g.LDA, n)
		}
	}
}

// packColsDouble packs columns of op(B) into panels of eight.
func packColsDouble(dst []float64, g *GEMM[float64], j, cols, k, depth int) {
	for c := 0; c < cols; c += doubleCols {
		panel, n := dst[c*depth:][:doubleCols*depth], min(doubleCols, cols-c)
		if g.TransB {
			packAlong(panel, doubleCols, g.B[(j+c)*g.LDB+k:], g.LDB, n)
		} else {
			packAcross(panel, doubleCols, g.B[k*g.LDB+j+c:], g.LDB, n)
		}
	}
}

// packAcross fills the steps of a panel, width elements each, with n neighbours of one row of src after the other.
func packAcross(panel []float64, width int, src []float64, ld, n int) {
	for at := 0; len(panel) >= width; at += ld {
		to := panel[:width]
		copy(to[:n], src[at:][:n])
		clear(to[n:])
		panel = panel[width:]
	}
}

// packAlong fills element i of the steps of a panel with row i of the n of src.
func packAlong(panel []float64, width int, src []float64, ld, n int) {
	depth := len(panel) / width
	i := 0
	for ; i+2 <= n; i += 2 {
		a, b := src[i*ld:][:depth], src[(i+1)*ld:][:depth]
		for k, to := 0, panel[i:]; k < depth; k++ {
			to[k*width], to[k*width+1] = a[k], b[k]
		}
	}
	for ; i < width; i++ {
		to := panel[i:]
		for k := range depth {
			to[k*width] = 0
		}
		if i < n {
			for k, v := range src[i*ld:][:depth] {
				to[k*width] = v
			}
		}
	}
}

// multiplyDouble multiplies packed rows by packed columns, a panel at a time.
func multiplyDouble(g *GEMM[float64], t *gemmTask[float64]) {
	if raceEnabled {
		touchResult(g, t)
	}
	for j := 0; j < t.cols; j += doubleCols {
		sweepDoubles(g, t, &t.b[j*t.depth], j)
	}
}

// sweepDoubles multiplies all rows by one panel of columns, which has those of the task from number j on.
func sweepDoubles(g *GEMM[float64], t *gemmTask[float64], b *float64, j int) {
	var padded [doubleCols]float64
	var bias *float64
	var mask *int64
	cols := min(doubleCols, t.cols-j)
	if cols != 4 && cols != doubleCols {
		mask = &doubleMasks[doubleCols-cols]
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
		sweepDouble(height, cols, t.depth, end-p, &t.a[p*avxRows*t.depth], avxRows*t.depth, b, c, g.LDC, bias, mask, g.Add || !t.first)
		p = end
	}
}

// sweepDouble is gemmSweepDouble8, or gemmSweepDouble4 where that is enough.
func sweepDouble(height, cols, k, panels int, a *float64, next int, b, c *float64, ldc int, bias *float64, mask *int64, add bool) {
	if cols <= 4 {
		gemmSweepDouble4(height, k, panels, a, next, 1, avxRows, b, doubleCols, c, ldc, bias, mask, add)
		return
	}
	gemmSweepDouble8(height, k, panels, a, next, 1, avxRows, b, doubleCols, c, ldc, bias, mask, add)
}

// dotsDouble sets sum[j] to the product of x and row j of m, fused as tiles are.
func dotsDouble(sum, x, m []float64, ld int) {
	j := 0
	for ; j+4 <= len(sum); j += 4 {
		at := j * ld
		r0, r1, r2, r3 := m[at:][:len(x)], m[at+ld:][:len(x)], m[at+2*ld:][:len(x)], m[at+3*ld:][:len(x)]
		var s0, s1, s2, s3 float64
		for k, x := range x {
			s0 = math.FMA(x, r0[k], s0)
			s1 = math.FMA(x, r1[k], s1)
			s2 = math.FMA(x, r2[k], s2)
			s3 = math.FMA(x, r3[k], s3)
		}
		sum[j], sum[j+1], sum[j+2], sum[j+3] = s0, s1, s2, s3
	}
	for ; j < len(sum); j++ {
		s := 0.0
		for k, r := range m[j*ld:][:len(x)] {
			s = math.FMA(x[k], r, s)
		}
		sum[j] = s
	}
}

// addRowsDouble sets sum to the sum of the rows of m, row k multiplied by x[k], fused.
func addRowsDouble(sum, x, m []float64, ld int) {
	clear(sum)
	for k, x := range x {
		for j, r := range m[k*ld:][:len(sum)] {
			sum[j] = math.FMA(x, r, sum[j])
		}
	}
}
