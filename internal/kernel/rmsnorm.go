// RMS norm over rows of cols elements (Zhang and Sennrich, "Root mean square layer normalization", 2019):
//
//	rstd = 1/sqrt(sum(x^2)/cols + eps)     xhat = x rstd     y = xhat w
//
// Forward reads x and w, which may be nil, and leaves rstd of each row. Backward reads g, x, w and rstd:
//
//	dx = rstd (gw - xhat mean(gw xhat))     gw = g w
//	dw[c] = sum over r of g[r c] xhat[r c]
//
// rstd is rounded to T before it is used, so that backward sees the very xhat that forward used.

package kernel

import "math"

// RMSNorm fills the rows of y, and rstd unless it is nil.
func RMSNorm[T Float](y, rstd, x, w []T, cols int, eps float64) {
	for r := 0; len(x) > 0; r++ {
		row, out := x[:cols], y[:cols]
		k := T(1 / math.Sqrt(squaredDistance(row, 0)/float64(cols)+eps))
		if rstd != nil {
			rstd[r] = k
		}
		if w == nil {
			scaleRow(out, row, k, false)
		} else {
			rmsRow(out, row, w[:cols], k)
		}
		x, y = x[cols:], y[cols:]
	}
}

func rmsRow[T Float](y, x, w []T, rstd T) {
	y, w = y[:len(x)], w[:len(x)]
	if affineFast(y, x, w, nil, 0, rstd) {
		return
	}
	for i, v := range x {
		y[i] = v * rstd * w[i]
	}
}

// RMSNormBackward fills the rows of dx with the gradient of x, or adds it. dx may be g.
func RMSNormBackward[T Float](dx []T, add bool, g, x, w, rstd []T, cols int) {
	for r := 0; len(x) > 0; r++ {
		rmsNormBackwardRow(dx[:cols], add, g[:cols], x[:cols], w, rstd[r])
		dx, g, x = dx[cols:], g[cols:], x[cols:]
	}
}

func rmsNormBackwardRow[T Float](dx []T, add bool, g, x, w []T, rstd T) {
	_, s := rowProducts(g, x, w, 0, rstd)
	m := T(s / float64(len(x)))
	dx, g = dx[:len(x)], g[:len(x)]
	if normBackwardFast(dx, add, g, x, w, 0, rstd, 0, m) {
		return
	}
	if w != nil {
		w = w[:len(x)]
	}
	for i, v := range x {
		gw := g[i]
		if w != nil {
			gw *= w[i]
		}
		z := rstd * (gw - v*rstd*m)
		if add {
			z += dx[i]
		}
		dx[i] = z
	}
}

// RMSNormWeight is the plan of the gradient of w, pure shape: a grid of partial sums, as in sumto.go.
type RMSNormWeight struct{ grid grid }

// NewRMSNormWeight plans the sums over rows of cols elements.
func NewRMSNormWeight(rows, cols int) RMSNormWeight {
	return RMSNormWeight{newGrid(rows, cols, gridCols, 1)}
}

// Chunks is how many pieces RMSNormWeightPart works in.
func (p RMSNormWeight) Chunks() int { return p.grid.chunks() }

// SharedBytes is the room for partial sums: a float64 a column and row range.
func (p RMSNormWeight) SharedBytes() int64 { return int64(p.grid.nr*p.grid.cols) * 8 }

// RMSNormWeightPart sums chunk c into shared.
func RMSNormWeightPart[T Float](p RMSNormWeight, g, x, rstd []T, shared []float64, c int) {
	r0, r1, c0, c1, part := p.grid.cell(c)
	cols := p.grid.cols
	dw := shared[part*cols+c0 : part*cols+c1]
	clear(dw)
	if scaledRowsFast(dw, g[r0*cols:], x[r0*cols:], rstd[r0:r1], cols, c0) {
		return
	}
	for r := r0; r < r1; r++ {
		gr, xr, k := g[r*cols+c0:r*cols+c1], x[r*cols+c0:r*cols+c1], rstd[r]
		gr, xr = gr[:len(dw)], xr[:len(dw)]
		for i := range dw {
			dw[i] += float64(gr[i] * (xr[i] * k))
		}
	}
}

// RMSNormWeightFinish fills dw, or adds to it, once, after all chunks.
func RMSNormWeightFinish[T Float](p RMSNormWeight, dw []T, add bool, shared []float64) {
	shape := [1]int{p.grid.cols}
	finishColumns(Contiguous(dw, shape[:]), add, shared, p.grid.nr, p.grid.cols, p.grid.cols)
}
