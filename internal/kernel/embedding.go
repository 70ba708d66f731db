// Embedding: rows of a table w [n cols] by index.
//
//	forward   y[r] = w[index[r]]                              reads w and indices
//	backward  dw[v] = or += sum of g[r] where index[r] = v    reads g and indices
//
// Backward is cut by columns (ColRange): each chunk goes through all indices in order, so that rows which meet in dw are
// added in one order, and a token that is everywhere costs no chunk more than the others.

package kernel

// Embedding fills the rows of y and says which is the first whose index is not a row of w, or -1. Bad rows are left.
func Embedding[T any, I Index](y, w []T, index []I, cols int) (bad int) {
	bad = -1
	n := 0
	if cols > 0 {
		n = len(w) / cols
	}
	for r, v := range index {
		if uint64(v) >= uint64(n) {
			if bad < 0 {
				bad = r
			}
			continue
		}
		copy(y[r*cols:][:cols], w[int(v)*cols:][:cols])
	}
	return bad
}

// EmbeddingBackward does columns [c0, c1) of dw. Rows with index pad are passed over (torch's padding_idx; -1 for none);
// all others must be rows of dw. Unless add is true, every row of dw is zeroed first.
func EmbeddingBackward[T Float, I Index](dw []T, add bool, g []T, index []I, cols, c0, c1 int, pad int64) {
	if !add {
		for at := c0; at < len(dw); at += cols {
			clear(dw[at:][:c1-c0])
		}
	}
	for r, v := range index {
		if int64(v) == pad {
			continue
		}
		d := dw[int(v)*cols+c0:][:c1-c0]
		addRow(d, d, g[r*cols+c0:][:c1-c0])
	}
}

// EmbeddingRows numbers, for each row of w, the places that name it: first[v] is the first of them, and next[r] the one
// after r, or -1. Places with index pad are left out. All indices must be rows.
func EmbeddingRows[I Index](first, next []int32, index []I, pad int64) {
	for v := range first {
		first[v] = -1
	}
	for r := len(index) - 1; r >= 0; r-- {
		if v := index[r]; int64(v) != pad {
			next[r], first[v] = first[v], int32(r)
		}
	}
}

// EmbeddingBackwardHalf fills rows [v0, v1) of dw, or adds to them, from what EmbeddingRows has found: each is summed in
// float32, in row, of cols elements, and rounded once.
func EmbeddingBackwardHalf(h Half, dw []uint16, add bool, g []uint16, first, next []int32, row []float32, v0, v1 int) {
	var block [expBlock]float32
	cols := len(row)
	for v := v0; v < v1; v++ {
		if first[v] < 0 && add {
			continue
		}
		clear(row)
		for r := first[v]; r >= 0; r = next[r] {
			for c := 0; c < cols; c += expBlock {
				n := min(expBlock, cols-c)
				h.Widen(block[:n], g[int(r)*cols+c:][:n])
				addRow(row[c:][:n], row[c:][:n], block[:n])
			}
		}
		PutHalf(h, Strided[uint16]{Data: dw}, add, row, v*cols)
	}
}
