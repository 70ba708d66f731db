// The gradients of layer norm's weight and bias: sums down the columns of [rows cols].
//
//	dw[c] = sum over r of g[r c] (x[r c] - mean[r]) rstd[r]      db[c] = sum over r of g[r c]
//
// Reads g, x and stats. A grid of partial sums, as in sumto.go: each cell leaves its two in shared scratch, and
// LayerNormAffineFinish adds them up in order.

package kernel

// LayerNormAffine is the plan of both sums, pure shape.
type LayerNormAffine struct{ grid grid }

// NewLayerNormAffine plans the sums over rows of cols elements.
func NewLayerNormAffine(rows, cols int) LayerNormAffine {
	return LayerNormAffine{newGrid(rows, cols, gridCols, 1)}
}

// Chunks is how many pieces LayerNormAffinePart works in.
func (p LayerNormAffine) Chunks() int { return p.grid.chunks() }

// SharedBytes is the room for partial sums: two float64 a column and row range.
func (p LayerNormAffine) SharedBytes() int64 { return int64(p.grid.nr*p.grid.cols) * 2 * 8 }

// LayerNormAffinePart sums chunk c into shared.
func LayerNormAffinePart[T Float](p LayerNormAffine, g, x, stats []T, shared []float64, c int) {
	r0, r1, c0, c1, part := p.grid.cell(c)
	cols := p.grid.cols
	dw := shared[2*part*cols+c0 : 2*part*cols+c1]
	db := shared[(2*part+1)*cols+c0 : (2*part+1)*cols+c1]
	clear(dw)
	clear(db)
	if affineRowsFast(dw, db, g[r0*cols:], x[r0*cols:], stats[2*r0:2*r1], cols, c0) {
		return
	}
	for r := r0; r < r1; r++ {
		gr, xr := g[r*cols+c0:r*cols+c1], x[r*cols+c0:r*cols+c1]
		affineRow(dw, db, gr, xr, stats[2*r], stats[2*r+1])
	}
}

func affineRow[T Float](dw, db []float64, g, x []T, mean, rstd T) {
	dw, db, g = dw[:len(x)], db[:len(x)], g[:len(x)]
	for i, v := range x {
		k := g[i]
		dw[i] += float64(k * ((v - mean) * rstd))
		db[i] += float64(k)
	}
}

// LayerNormAffineFinish fills dw and db, or adds to them, once, after all chunks. Either may be nil: not wanted.
func LayerNormAffineFinish[T Float](p LayerNormAffine, dw []T, addW bool, db []T, addB bool, shared []float64) {
	cols := p.grid.cols
	shape := [1]int{cols}
	if dw != nil {
		finishColumns(Contiguous(dw, shape[:]), addW, shared, p.grid.nr, cols, 2*cols)
	}
	if db != nil {
		finishColumns(Contiguous(db, shape[:]), addB, shared[cols:], p.grid.nr, cols, 2*cols)
	}
}
