// Work is cut here, by shape alone: every cut below gives the same pieces whoever runs them.
//
//	flat     n elements              [lo, hi) of at most ChunkSize elements
//	rows     [rows cols]             [lo, hi) of rows, about ChunkSize elements
//	columns  [rows cols]             [lo, hi) of columns, for sums down columns that must stay in order
//	grid     [rows cols] -> [cols]   row ranges x column ranges, one partial sum each

package kernel

// ChunkSize is how many elements a flat chunk has: enough to hide the hand-over to a worker behind the cheapest kernel
// (about 8 microseconds for an addition), and a multiple of 8, so that a chunk's bit mask starts on a byte.
const ChunkSize = 1 << 14

// Chunks is the number of flat chunks of n elements.
func Chunks(n int) int { return (n + ChunkSize - 1) / ChunkSize }

// Range is flat chunk c of n elements.
func Range(n, c int) (lo, hi int) { return c * ChunkSize, min(n, (c+1)*ChunkSize) }

// Cut is x[lo:hi], or nil if x is nil: the piece of an optional operand.
func Cut[T any](x []T, lo, hi int) []T {
	if x == nil {
		return nil
	}
	return x[lo:hi]
}

// rowsPerChunk is how many rows of the given length make about one flat chunk.
func rowsPerChunk(cols int) int { return max(1, ChunkSize/max(1, cols)) }

// RowChunks is the number of chunks that a matrix is cut into by rows.
func RowChunks(rows, cols int) int {
	per := rowsPerChunk(cols)
	return (rows + per - 1) / per
}

// RowRange gives the rows of chunk c.
func RowRange(rows, cols, c int) (lo, hi int) {
	per := rowsPerChunk(cols)
	return c * per, min(rows, (c+1)*per)
}

// colsPerChunk is a compromise: 256 bytes of float32 a row, four cache lines.
const colsPerChunk = 64

// ColChunks is the number of chunks that a matrix is cut into by columns.
func ColChunks(cols int) int { return (cols + colsPerChunk - 1) / colsPerChunk }

// ColRange gives the columns of chunk c.
func ColRange(cols, c int) (lo, hi int) { return c * colsPerChunk, min(cols, (c+1)*colsPerChunk) }

const (
	gridChunks = 32  // most chunks of a grid: what bounds partial sums
	gridCols   = 256 // fewest columns worth a chunk of their own
)

// A grid cuts a sum down the columns of [rows cols] into nr row ranges x nc column ranges. Columns are split first,
// which costs no partial sums; only what is too narrow for that is split by rows as well. There are hence never more
// than gridChunks x gridCols partial sums, a quarter of a megabyte at the very most.
type grid struct {
	rows, cols int
	nr, nc     int
	perRow     int // rows of a range
	perCol     int // columns of a range, a multiple of unit
}

// newGrid cuts a sum where each (row, column) stands for depth elements. Column ranges start at multiples of unit.
func newGrid(rows, cols, minCols, unit int) grid {
	g := grid{rows: rows, cols: cols, nr: 1, nc: 1, perRow: rows, perCol: cols}
	want := min(gridChunks, Chunks(rows*cols))
	if want <= 1 {
		return g
	}
	g.nc = min(want, (cols+minCols-1)/minCols)
	g.perCol = (cols + g.nc - 1) / g.nc
	g.perCol = (g.perCol + unit - 1) / unit * unit
	g.nc = (cols + g.perCol - 1) / g.perCol
	g.perRow = (rows + want/g.nc - 1) / (want / g.nc)
	g.nr = (rows + g.perRow - 1) / g.perRow
	return g
}

// chunks is the number of cells.
func (g *grid) chunks() int { return g.nr * g.nc }

// cell is chunk c: rows [r0, r1), columns [c0, c1), and its row range's number.
func (g *grid) cell(c int) (r0, r1, c0, c1, part int) {
	part, k := c%g.nr, c/g.nr
	r0, c0 = part*g.perRow, k*g.perCol
	return r0, min(g.rows, r0+g.perRow), c0, min(g.cols, c0+g.perCol), part
}
