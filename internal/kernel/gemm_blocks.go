package kernel

// How a product is cut. Every number here follows from the shape alone, so that values and byte figures depend on
// neither the number of workers nor the implementation.
const (
	// The tile of C that a chunk computes. Its rows of A, gemmMaxDepth deep, stay in the L2 cache while the columns of B
	// go by, a panel of 16 at a time, which stays in the L1 cache while the rows go by.
	gemmMaxRows  = 192
	gemmMaxCols  = 256
	gemmMaxDepth = 256 // of one block of K
	gemmGroup    = 64  // columns of B that are packed at a time

	// A product is cut finer than the maximum until it has gemmWantChunks chunks, which keep that many lanes busy, but
	// not below gemmMinWork multiplications a chunk (about 50 microseconds in plain Go and 3 with AVX2), where packing
	// and handing out would show.
	gemmWantChunks = 8
	gemmMinWork    = 1 << 18

	// What scratch is rounded up to: the tiles of the implementations (2 x 4 here, 6 x 16 with AVX2) divide it.
	gemmRows = 6
	gemmCols = 16
)

// gemmTile is the size of the tile of C that one chunk computes.
func gemmTile(m, n, k int) (rows, cols int) {
	rows, cols = tileOf(m, n, k, gemmMaxRows, gemmMaxCols)
	return even(m, rows, gemmRows), even(n, cols, gemmCols)
}

// tileOf cuts a product into tiles that are at most so large.
func tileOf(m, n, k, mostRows, mostCols int) (rows, cols int) {
	rows, cols = even(m, mostRows, 1), even(n, mostCols, 1)
	for rows*cols*k >= 2*gemmMinWork && ceilDiv(m, rows)*ceilDiv(n, cols) < gemmWantChunks {
		// Columns first: what is packed of B is then packed once, whatever the number of chunks.
		if cols >= rows {
			cols = ceilDiv(cols, 2)
		} else {
			rows = ceilDiv(rows, 2)
		}
	}
	return rows, cols
}

// GEMMRows is the number of rows that the tallest micro-kernel computes at once: pieces of a product that is cut by hand
// are best multiples of it.
const GEMMRows = gemmRows

// GEMMDepth is the length of the blocks in which a product adds up its K terms. Products over parts of them, each added to what
// those before gave, have the bits of the product over all if each part begins at a multiple of its GEMMDepth and is one block
// at most, or has the same GEMMDepth itself.
func GEMMDepth(k int) int { return gemmDepth(k) }

// gemmDepth is the length of the blocks of K.
func gemmDepth(k int) int { return even(k, gemmMaxDepth, 8) }

// gemmPanels are rows cut into panels of at most gemmRows, and of nearly equal height: the first few are one row higher
// than the others, which are low.
type gemmPanels struct{ count, low, high int }

func rowPanels(rows int) gemmPanels {
	n := ceilDiv(rows, gemmRows)
	return gemmPanels{count: n, low: rows / n, high: rows % n}
}

// row is the first row of panel p, and the end of all where p is the number of panels.
func (s gemmPanels) row(p int) int { return p*s.low + min(p, s.high) }

// height of panel p.
func (s gemmPanels) height(p int) int {
	if p < s.high {
		return s.low + 1
	}
	return s.low
}

// full is the number of panels of full height.
func (s gemmPanels) full() int {
	switch {
	case s.low == gemmRows:
		return s.count
	case s.low+1 == gemmRows:
		return s.high
	}
	return 0
}

// room is how many rows the panels take, the rows that they lack included.
func (s gemmPanels) room() int { return s.count * gemmRows }

// even cuts n into as few parts as blocks of size at most would, but of nearly equal size: a multiple of unit.
func even(n, most, unit int) int {
	if n > most {
		n = ceilDiv(n, ceilDiv(n, most))
	}
	return roundUp(n, unit)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(n, unit int) int { return ceilDiv(n, unit) * unit }

func roundUp64(bytes int64) int64 { return (bytes + 63) &^ 63 }
