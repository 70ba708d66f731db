package kernel

// The product of a vector and a matrix: what GEMM is where M or N is 1. Every element of the matrix is used once, so
// packing it would cost more than multiplying; the loops here read it where it lies, in the order that it is stored in.
// Each element of the result is added up in the same order as in a tile, to the same bits.

// vector is a product y[n] = x[K] * matrix[K n], in terms of the operands of a GEMM.
type vector[T Float] struct {
	x       []T
	xStride int
	matrix  []T
	ld      int
	dots    bool // the matrix is stored as [n K]
	stride  int  // of y
}

// asVector says whether the product is one of a vector and a matrix, and which.
func (g *GEMM[T]) asVector(t gemmBlock) (v vector[T], ok bool) {
	switch {
	case g.M == 1:
		v = vector[T]{x: g.A, xStride: 1, dots: g.TransB, ld: g.LDB, stride: 1}
		if g.TransA {
			v.xStride = g.LDA
		}
		v.matrix = g.B[v.start(t.j):]
	case g.N == 1: // the transpose of the case above
		v = vector[T]{x: g.B, xStride: g.LDB, dots: !g.TransA, ld: g.LDA, stride: g.LDC}
		if g.TransB {
			v.xStride = 1
		}
		v.matrix = g.A[v.start(t.i):]
	default:
		return v, false
	}
	return v, true
}

// start is where in the matrix what makes element n of the result begins.
func (v *vector[T]) start(n int) int {
	if v.dots {
		return n * v.ld
	}
	return n
}

// vectorStrip is how many elements of the result are computed at a time.
const vectorStrip = 128

// computeVector is compute for a vector.
func (g *GEMM[T]) computeVector(v vector[T], t gemmBlock, scratch []T) {
	var room [vectorStrip]T
	kb := gemmDepth(g.K)
	for k := 0; k < g.K; k += kb {
		x := scratch[:min(kb, g.K-k)]
		for i := range x {
			x[i] = v.x[(k+i)*v.xStride]
		}
		for n := t.rows * t.cols; n > 0; n -= vectorStrip {
			at := t.rows*t.cols - n
			sum := room[:min(n, vectorStrip)]
			v.multiply(sum, x, k, at)
			g.storeVector(sum, t, v.stride, at, k == 0)
		}
	}
}

// multiply sets sum to elements from number at on of the product of x and the block of K at k.
func (v *vector[T]) multiply(sum, x []T, k, at int) {
	if v.dots {
		dots(sum, x, v.matrix[v.start(at)+k:], v.ld)
		return
	}
	addRows(sum, x, v.matrix[v.start(at)+k*v.ld:], v.ld)
}

// storeVector puts the sums of one block of K, those from number at of the tile on, into C.
func (g *GEMM[T]) storeVector(sum []T, t gemmBlock, stride, at int, first bool) {
	if first && g.Bias != nil {
		bias, step := g.Bias, 0 // one column has one bias
		if g.N > 1 {
			bias, step = g.Bias[t.j+at:], 1
		}
		for i := range sum {
			sum[i] += bias[i*step]
		}
	}
	c := g.C[t.i*g.LDC+t.j+at*stride:]
	for i, s := range sum {
		if first && !g.Add {
			c[i*stride] = s
		} else {
			c[i*stride] += s
		}
	}
}

// dots sets sum[j] to the product of x and row j of m, whose leading dimension is ld.
func dots[T Float](sum, x, m []T, ld int) {
	if dotsFast(sum, x, m, ld) {
		return
	}
	j := 0
	for ; j+4 <= len(sum); j += 4 {
		at := j * ld
		r0, r1, r2, r3 := m[at:][:len(x)], m[at+ld:][:len(x)], m[at+2*ld:][:len(x)], m[at+3*ld:][:len(x)]
		var s0, s1, s2, s3 T
		for k, x := range x {
			s0 += x * r0[k]
			s1 += x * r1[k]
			s2 += x * r2[k]
			s3 += x * r3[k]
		}
		sum[j], sum[j+1], sum[j+2], sum[j+3] = s0, s1, s2, s3
	}
	for ; j < len(sum); j++ {
		var s T
		for k, r := range m[j*ld:][:len(x)] {
			s += x[k] * r
		}
		sum[j] = s
	}
}

// addRows sets sum to the sum of the rows of m, whose leading dimension is ld, row k multiplied by x[k].
func addRows[T Float](sum, x, m []T, ld int) {
	if addRowsFast(sum, x, m, ld) {
		return
	}
	clear(sum)
	n, k := len(sum), 0
	for ; k+4 <= len(x); k += 4 {
		at := k * ld
		r0, r1, r2, r3 := m[at:][:n], m[at+ld:][:n], m[at+2*ld:][:n], m[at+3*ld:][:n]
		x0, x1, x2, x3 := x[k], x[k+1], x[k+2], x[k+3]
		for j, s := range sum {
			s += x0 * r0[j]
			s += x1 * r1[j]
			s += x2 * r2[j]
			s += x3 * r3[j]
			sum[j] = s
		}
	}
	for ; k < len(x); k++ {
		for j, r := range m[k*ld:][:n] {
			sum[j] += x[k] * r
		}
	}
}
