package kernel

// Packing copies a block of op(A) and one of op(B) into the order in which the micro-kernel reads them. That costs a few
// percent of a large product and makes the four ways of storing A and B equal. Matrices whose rows are a power of two
// apart gain most: their columns fall on the same few places of a cache.

// packA packs rows of op(A), each of the given depth from column k on: element (i, k) is at i*depth+k.
func (g *GEMM[T]) packA(rows []T, t gemmBlock, k, depth int) {
	if g.TransA {
		transpose(rows, g.A[k*g.LDA+t.i:], g.LDA, depth, t.rows)
		return
	}
	for i := range t.rows {
		copy(rows[i*depth:(i+1)*depth], g.A[(t.i+i)*g.LDA+k:])
	}
}

// packB packs depth rows of op(B), from row k on, and the columns of the tile into panels: element (k, j) of a panel
// is at k*tileCols+j. What is computed from columns past the edge is dropped; they are zero all the same,
// because what scratch happens to hold might be subnormal, and slow.
func (g *GEMM[T]) packB(panels []T, t gemmBlock, k, depth int) {
	whole := t.cols - t.cols%tileCols // columns in full panels
	if g.TransB {
		for j := 0; j < whole; j += tileCols {
			interleave(panels[j*depth:(j+tileCols)*depth], g.B[(t.j+j)*g.LDB+k:], g.LDB)
		}
	} else if whole > 0 {
		deal(panels, depth, g.B[k*g.LDB+t.j:], g.LDB, whole)
	}
	if whole < t.cols {
		g.packEdge(panels[whole*depth:], k, depth, t.j+whole, t.cols-whole)
	}
}

// packEdge packs a panel of less than tileCols columns.
func (g *GEMM[T]) packEdge(panel []T, k, depth, j, cols int) {
	panel = panel[:depth*tileCols]
	clear(panel)
	rowStride, colStride := g.LDB, 1
	if g.TransB {
		rowStride, colStride = 1, g.LDB
	}
	for c := range cols {
		src := g.B[k*rowStride+(j+c)*colStride:]
		for r := range depth {
			panel[r*tileCols+c] = src[r*rowStride]
		}
	}
}

// deal deals the rows of b [depth cols], with leading dimension ld, out to panels of tileCols columns.
func deal[T Float](panels []T, depth int, b []T, ld, cols int) {
	dst := steps[[tileCols]T](panels)
	for r := range depth {
		at := r
		for _, v := range steps[[tileCols]T](b[r*ld:][:cols]) {
			dst[at] = v
			at += depth
		}
	}
}

// interleave copies tileCols rows of a matrix with leading dimension ld into a panel, whose columns they become.
func interleave[T Float](panel, b []T, ld int) {
	dst := steps[[tileCols]T](panel)
	b0, b1, b2, b3 := b[:len(dst)], b[ld:][:len(dst)], b[2*ld:][:len(dst)], b[3*ld:][:len(dst)]
	for k := range dst {
		d := &dst[k]
		d[0], d[1], d[2], d[3] = b0[k], b1[k], b2[k], b3[k]
	}
}

// packCols is how many columns transpose takes of each row before it goes to the next one: a few cache lines, so that
// none is fetched twice, and so few that the rows written to stay in the cache as well.
const packCols = 32

// transpose writes the transpose of src [rows cols], with leading dimension ld, to dst [cols rows].
func transpose[T Float](dst, src []T, ld, rows, cols int) {
	for j := 0; j < cols; j += packCols {
		n := min(packCols, cols-j)
		i := 0
		for ; i+4 <= rows; i += 4 {
			at := i*ld + j
			s0, s1, s2, s3 := src[at:][:n], src[at+ld:][:n], src[at+2*ld:][:n], src[at+3*ld:][:n]
			for c := range s0 {
				d := (*[4]T)(dst[(j+c)*rows+i:])
				d[0], d[1], d[2], d[3] = s0[c], s1[c], s2[c], s3[c]
			}
		}
		for ; i < rows; i++ {
			for c, x := range src[i*ld+j:][:n] {
				dst[(j+c)*rows+i] = x
			}
		}
	}
}
