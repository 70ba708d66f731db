package kernel

import "unsafe"

// What attention is made of: blocks of its operands, a lane's scratch, products of tiles.

// Rank4 is an operand of four dimensions and any strides, in elements, none negative: element (i, j, k, l) is
// Data[i*Strides[0] + j*Strides[1] + k*Strides[2] + l*Strides[3]].
type Rank4[E any] struct {
	Data    []E
	Strides [4]int
}

// block is a matrix that lies in an operand: element (r, c) is data[r*rs+c*cs].
type block[E any] struct {
	data   []E
	rs, cs int
}

func (b block[E]) transposed() block[E] { return block[E]{b.data, b.cs, b.rs} }

// row is row r, of n elements, of a block without gaps in its rows.
func (b block[E]) row(r, n int) []E { return b.data[r*b.rs:][:n] }

// stored tells how a block of rows x cols is stored: its leading dimension, and whether it is that of the transpose.
func (b block[E]) stored(rows, cols int) (ld int, trans bool) {
	if (b.cs == 1 || cols == 1) && (b.rs >= cols || rows == 1) {
		return max(b.rs, cols), false
	}
	return max(b.cs, rows), true
}

// at is the block of n columns that starts at row t of head h.
func (x *Rank4[E]) at(b, t, h, n int) block[E] {
	s := &x.Strides
	if n == 0 || x.Data == nil { // nowhere to start
		return block[E]{nil, s[1], s[3]}
	}
	return block[E]{x.Data[b*s[0]+t*s[1]+h*s[2]:], s[1], s[3]}
}

// attentionLane is a lane's scratch, cut.
type attentionLane[T Float] struct {
	weights, grads []T // one tile of pairs each
	top, sum       []float64
	pairs          []float64 // of the additive mask's gradient
	pack           []byte
}

// carve cuts n elements, rounded up to 64 bytes, off the front of b.
func carve[E float32 | float64](b *[]byte, n int) []E {
	var e E
	size := roundUp64(int64(n) * int64(unsafe.Sizeof(e)))
	x := View[E]((*b)[:size])
	*b = (*b)[size:]
	return x[:n]
}

// cut cuts scratch for one direction.
func (l *attentionLane[T]) cut(p *AttentionPlan, scratch []byte, backward bool) {
	tq, tk := attentionStep(p.Queries), attentionStep(p.Keys)
	l.weights = carve[T](&scratch, tq*tk)
	if backward {
		l.grads = carve[T](&scratch, tq*tk)
		if p.Additive {
			l.pairs = carve[float64](&scratch, tq*tk)
		}
	} else {
		l.top = carve[float64](&scratch, tq)
		l.sum = carve[float64](&scratch, tq)
	}
	l.pack = scratch
}

// Scratch is the bytes of scratch that Forward wants of each lane, for elements of elem bytes: the same whatever family of
// kernels runs.
func (p *AttentionPlan) Scratch(elem int) int64 {
	n := p.pairBytes(elem) + 2*roundUp64(8*int64(attentionStep(p.Queries))) + p.productBytes(elem, false)
	if elem == 4 && p.paneled() {
		n = max(n, p.panelsForward().bytes())
	}
	return n
}

// BackwardScratch is the same for BackwardRows, BackwardColumns, BackwardHeads and BackwardBias.
func (p *AttentionPlan) BackwardScratch(elem int) int64 {
	n := 2*p.pairBytes(elem) + p.productBytes(elem, true)
	if p.Additive {
		n += p.pairBytes(8)
	}
	if elem == 4 && p.paneled() {
		n = max(n, p.panelsRows().bytes(), p.panelsColumns().bytes())
	}
	return n
}

// pairBytes is what a tile of pairs takes.
func (p *AttentionPlan) pairBytes(elem int) int64 {
	return roundUp64(int64(attentionStep(p.Queries)) * int64(attentionStep(p.Keys)) * int64(elem))
}

// productBytes is what the products of tiles want, whole ones and those at the ends.
func (p *AttentionPlan) productBytes(elem int, backward bool) (n int64) {
	for _, q := range tileSizes(p.Queries) {
		for _, k := range tileSizes(p.Keys) {
			n = max(n, GEMMScratch(q, k, p.Dim, elem), GEMMScratch(q, p.ValueDim, k, elem))
			if backward {
				n = max(n, GEMMScratch(q, k, p.ValueDim, elem), GEMMScratch(q, p.Dim, k, elem),
					GEMMScratch(k, p.Dim, q, elem), GEMMScratch(k, p.ValueDim, q, elem))
			}
		}
	}
	return n
}

// tileSizes are the sizes that tiles of n have.
func tileSizes(n int) [2]int {
	step := attentionStep(n)
	if last := n % step; last > 0 {
		return [2]int{step, last}
	}
	return [2]int{step, step}
}

// row is row r of a tile of pairs.
func (l *attentionLane[T]) row(x []T, t *attentionPart, r int) []T { return x[r*t.cols:][:t.cols] }

// outputs is the rows of t in Out or its gradient.
func (a *Attention[T]) outputs(x []T, t *attentionPart) block[T] {
	if a.ValueDim == 0 {
		return block[T]{nil, 0, 1}
	}
	return block[T]{x[a.row(t, 0)*a.ValueDim:], a.Heads * a.ValueDim, 1}
}

// multiply fills c [m n] with a [m k] times b [k n], or adds it.
func (l *attentionLane[T]) multiply(c, a, b block[T], m, n, k int, add bool) {
	g := GEMM[T]{M: m, N: n, K: k, A: a.data, B: b.data, C: c.data, LDC: max(c.rs, n), Add: add}
	g.LDA, g.TransA = a.stored(m, k)
	g.LDB, g.TransB = b.stored(k, n)
	g.Whole(l.pack)
}

// combine fills dst with w x, or adds it: a tile of pairs [rows cols] times x [cols n]. With trans, w is transposed, and x
// is [rows n]. Only pairs that take part count: w has 0 for the others, which is enough unless x has NaN or Inf.
func (a *Attention[T]) combine(l *attentionLane[T], t *attentionPart, dst block[T], w []T, trans bool, x block[T], n int, add bool) {
	m, k, wb := t.rows, t.cols, block[T]{w, t.cols, 1}
	if trans {
		m, k, wb = k, m, wb.transposed()
	}
	if t.cover == coverSome && !finite(x, k, n) {
		if !add {
			dst.clear(m, n)
		}
		a.combinePairs(t, dst, block[T]{w, t.cols, 1}, trans, x, n, 1)
		return
	}
	l.multiply(dst, wb, x, m, n, k, add)
}

// finite says that x, whose rows have no gaps, has neither NaN nor Inf.
func finite[T Float](x block[T], rows, n int) bool {
	for r := range rows {
		if !AllFinite(x.row(r, n)) {
			return false
		}
	}
	return true
}

// combinePairs adds factor times the product of w [rows cols] and x to dst, pair by pair: slow, and only for tiles where
// something is hidden and something is not finite.
func (a *Attention[T]) combinePairs(t *attentionPart, dst, w block[T], trans bool, x block[T], n int, factor T) {
	for r := range t.rows {
		for k := range t.cols {
			if !a.sees(t, r, k) {
				continue
			}
			v := factor * w.data[r*w.rs+k*w.cs]
			to, from := r, k
			if trans {
				to, from = k, r
			}
			d := dst.row(to, n)
			for c, y := range x.row(from, n) {
				d[c] += v * y
			}
		}
	}
}

// clear zeroes the first rows of n elements.
func (b block[E]) clear(rows, n int) {
	for r := range rows {
		clear(b.row(r, n))
	}
}
