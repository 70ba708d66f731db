// Triangle: the lower or upper triangle of matrices x [... M N], the rest zero.
//
//	forward   y[i j] = x[i j] if j - i <= diagonal (lower) or j - i >= diagonal (upper), else 0
//	backward  dx = or += the same of g
//
// Nothing is multiplied: what is outside is zero, NaN and Inf included.

package kernel

// Triangle is which part of the matrices is kept. Diagonal is from -M to N.
type Triangle struct {
	M, N     int
	Diagonal int
	Upper    bool
}

// kept is the columns of row r, counted through all matrices.
func (t *Triangle) kept(r int) (lo, hi int) {
	at := r%t.M + t.Diagonal
	if t.Upper {
		return min(max(at, 0), t.N), t.N
	}
	return 0, min(max(at+1, 0), t.N)
}

// KeepTriangle fills rows [r0, r1), counted through all matrices, of y.
func KeepTriangle[T any](t Triangle, y, x []T, r0, r1 int) {
	for r := r0; r < r1; r++ {
		lo, hi := t.kept(r)
		d, s := y[r*t.N:][:t.N], x[r*t.N:][:t.N]
		clear(d[:lo])
		copy(d[lo:hi], s[lo:hi])
		clear(d[hi:])
	}
}

// AddTriangle adds rows [r0, r1) of g, where they are kept, to dx.
func AddTriangle[T Float](t Triangle, dx, g []T, r0, r1 int) {
	for r := r0; r < r1; r++ {
		lo, hi := t.kept(r)
		d := dx[r*t.N:][lo:hi]
		addRow(d, d, g[r*t.N:][lo:hi])
	}
}
