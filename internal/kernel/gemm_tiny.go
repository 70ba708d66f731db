package kernel

// A product of a few hundred multiplications, as of a layer of eight neurons: what packing and cutting into tiles costs is
// most of it. A row of C at a time is computed from the operands where they lie, as the product of a vector and a matrix,
// to the same bits and without scratch.
const (
	tinyWork  = 512 // multiplications, at most
	tinyCols  = 16
	tinyDepth = 64
)

// GEMMTiny tells whether a product is computed so: in one chunk and without scratch. Of any part of it the same is true.
func GEMMTiny(m, n, k int) bool {
	return n <= tinyCols && k <= tinyDepth && m <= tinyWork && 0 < m*n*k && m*n*k <= tinyWork
}

// computeTiny is compute for a tile of a tiny product.
func (g *GEMM[T]) computeTiny(t gemmBlock) {
	var room [tinyDepth]T
	var row [tinyCols]T
	sum := row[:t.cols]
	for i := t.i; i < t.i+t.rows; i++ {
		x := room[:g.K]
		if g.TransA {
			for k := range x {
				x[k] = g.A[k*g.LDA+i]
			}
		} else {
			x = g.A[i*g.LDA:][:g.K]
		}
		if g.TransB {
			dots(sum, x, g.B[t.j*g.LDB:], g.LDB)
		} else {
			addRows(sum, x, g.B[t.j:], g.LDB)
		}
		g.storeVector(sum, gemmBlock{i: i, j: t.j, rows: 1, cols: t.cols}, 1, 0, true)
	}
}
