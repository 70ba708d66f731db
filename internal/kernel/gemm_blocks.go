package kernel

// How a product is cut. Every number here follows from the shape alone, so that values and byte figures depend on
// neither the number of workers nor the implementation.
const (
	// The tile of C that a chunk computes. Its rows of A, gemmMaxDepth deep, are 180 KiB of float32 and stay in the L2
	// cache while the columns of B go by, gemmPanel at a time, which are few enough for the L1 cache.
	gemmMaxRows  = 180
	gemmMaxCols  = 256
	gemmMaxDepth = 256 // of one block of K
	gemmPanel    = 16

	// A product is cut finer than the maximum until it has gemmWantChunks chunks, which keep that many lanes busy, but
	// not below gemmMinWork multiplications a chunk (about 50 microseconds in plain Go and 6 with AVX2), where packing
	// and handing out would show.
	gemmWantChunks = 8
	gemmMinWork    = 1 << 18

	// What scratch is rounded up to: the tiles of the implementations (2 x 4 here, 6 x 16 with AVX2) divide it.
	gemmRows = 6
	gemmCols = 16
)

// gemmTile is the size of the tile of C that one chunk computes.
func gemmTile(m, n, k int) (rows, cols int) {
	rows, cols = even(m, gemmMaxRows, 1), even(n, gemmMaxCols, 1)
	for ceilDiv(m, rows)*ceilDiv(n, cols) < gemmWantChunks && rows*cols*k >= 2*gemmMinWork {
		// Columns first: what is packed of B is then packed once, whatever the number of chunks.
		if cols >= rows {
			cols = ceilDiv(cols, 2)
		} else {
			rows = ceilDiv(rows, 2)
		}
	}
	return even(m, rows, gemmRows), even(n, cols, gemmCols)
}

// GEMMRows is the number of rows that the tallest micro-kernel computes at once: pieces of a product that is cut by hand
// are best multiples of it.
const GEMMRows = gemmRows

// GEMMDepth is the length of the blocks in which a product adds up its K terms. A product over a multiple of it, added to
// by one over the rest, has the bits of the product over all.
func GEMMDepth(k int) int { return gemmDepth(k) }

// gemmDepth is the length of the blocks of K.
func gemmDepth(k int) int { return even(k, gemmMaxDepth, 8) }

// even cuts n into as few parts as blocks of size at most would, but of nearly equal size: a multiple of unit.
func even(n, most, unit int) int { return roundUp(ceilDiv(n, ceilDiv(n, most)), unit) }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(n, unit int) int { return ceilDiv(n, unit) * unit }

func roundUp64(bytes int64) int64 { return (bytes + 63) &^ 63 }
