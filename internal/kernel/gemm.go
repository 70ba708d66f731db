package kernel

import (
	"fmt"
	"unsafe"
)

// Float is what kernels compute in. Half types are widened on the way in and rounded on the way out.
type Float interface{ float32 | float64 }

// GEMM is the matrix product
//
//	C[M N] = op(A)[M K] * op(B)[K N]   (+ Bias[N], on every row)   (+ C, if Add)
//
// on row-major matrices with leading dimensions: element (i, j) of C is C[i*LDC+j]. op(A) is A, stored [M K], or with
// TransA its transpose, stored [K M]; likewise B, stored [K N] or with TransB [N K]. C must not overlap the others. What has
// been added up goes through the [Epilogue], which may read With[M N].
//
// There are three ways to compute it, with the same bits. Whole does all in one go. Chunk computes one of [GEMMChunks] tiles
// of C completely, and alone, so that the calls may run in any order and on any goroutines. Stage is for large products
// (where [GEMMStaging] has any): each stage has chunks that may run in any order, and starts when the one before has ended.
//
// No product is skipped, so that 0 times Inf is NaN. One element of C is always added up in the same order, wherever it
// lies in a tile and however A and B are stored: K is cut, by its length only, into blocks. The products of a block are
// added in ascending order of k, starting from +0. The first block's sum gets Bias[j] and then, if Add, the old C added;
// the sums of later blocks are added to that one after the other. With AVX2, products are always fused into their
// sums: product and addition share one rounding. In plain Go each step is rounded to T, but for where the compiler fuses
// (arm64 and others, amd64 from GOAMD64=v3 on).
type GEMM[T Float] struct {
	M, N, K int
	A       []T
	LDA     int
	B       []T
	LDB     int
	C       []T
	LDC     int
	Bias    []T // of length N, or nil
	Packed  []T // op(A) as PackRows leaves it, of [GEMMPackedBytes], or nil. Stage then reads it in place of A.
	With    []T // of the epilogue
	LDW     int

	TransA, TransB, Add bool
	Epilogue            Epilogue
}

// GEMMChunks is the number of tiles that the product is cut into. It depends on the shape only, never on who computes:
// it is 0 where C is empty and at least 1 otherwise, K = 0 included.
func GEMMChunks(m, n, k int) int {
	if m <= 0 || n <= 0 {
		return 0
	}
	mb, nb := gemmTile(m, n, k)
	return ceilDiv(m, mb) * ceilDiv(n, nb)
}

// GEMMScratch is the number of bytes that Chunk and Whole want of their lane, for elements of elemSize bytes: room for one
// block of op(A) and for a group of columns of one of op(B). It is at most 256 KiB for float32 and twice that for float64.
func GEMMScratch(m, n, k int, elemSize int) int64 {
	if m <= 0 || n <= 0 || k <= 0 || GEMMTiny(m, n, k) {
		return 0
	}
	rows, cols := even(m, gemmMaxRows, 1), min(n, gemmGroup)
	each := int64(gemmDepth(k)) * int64(elemSize)
	return roundUp64(each*int64(rowPanels(rows).room())) + roundUp64(each*int64(roundUp(cols, gemmCols)))
}

// Chunk computes tile number chunk of C. scratch holds at least [GEMMScratch] bytes and its content does not matter;
// two calls that run at the same time must not share it.
func (g *GEMM[T]) Chunk(scratch []byte, chunk int) {
	g.check(len(scratch))
	if chunk == 0 && GEMMTiny(g.M, g.N, g.K) {
		g.block(scratch, 0, 0, g.M, g.N)
		return
	}
	rows, cols := gemmTile(g.M, g.N, g.K)
	down, across := ceilDiv(g.M, rows), ceilDiv(g.N, cols)
	if chunk < 0 || chunk >= down*across {
		panic(fmt.Sprintf("kernel: GEMM: chunk %d of %d", chunk, down*across))
	}
	g.block(scratch, chunk/across*rows, chunk%across*cols, rows, cols)
}

// Whole computes all of C. It is faster than one Chunk after the other, which are as many as to keep several lanes busy.
func (g *GEMM[T]) Whole(scratch []byte) {
	g.check(len(scratch))
	if g.M == 0 || g.N == 0 {
		return
	}
	rows, cols := even(g.M, gemmMaxRows, 1), even(g.N, gemmMaxCols, gemmCols)
	for i := 0; i < g.M; i += rows {
		for j := 0; j < g.N; j += cols {
			g.block(scratch, i, j, rows, cols)
		}
	}
}

// block computes a tile of C.
func (g *GEMM[T]) block(scratch []byte, i, j, rows, cols int) {
	t := gemmBlock{i: i, j: j, rows: min(rows, g.M-i), cols: min(cols, g.N-j)}
	if g.K == 0 {
		g.empty(t)
	} else if GEMMTiny(g.M, g.N, g.K) {
		g.computeTiny(t)
	} else if v, ok := g.asVector(t); ok {
		g.computeVector(v, t, View[T](scratch))
	} else if !computeFast(g, t, scratch) {
		g.compute(t, View[T](scratch))
	}
	g.finish(t)
}

// gemmBlock is a tile of C.
type gemmBlock struct{ i, j, rows, cols int }

// compute computes a tile: for each block of K, it packs the tile's rows of op(A), and then goes over the columns: it
// packs a group of op(B) and multiplies.
func (g *GEMM[T]) compute(t gemmBlock, scratch []T) {
	panels, kb := rowPanels(t.rows), gemmDepth(g.K)
	for k := 0; k < g.K; k += kb {
		depth := min(kb, g.K-k)
		rows, cols := cutAt(scratch, panels.room()*depth)
		g.packRows(rows, t.i, panels, 0, panels.count, k, depth)
		for j := 0; j < t.cols; j += gemmGroup {
			n := min(gemmGroup, t.cols-j)
			g.packCols(cols, t.j+j, n, k, depth)
			g.multiply(&gemmTask[T]{
				a: rows, b: cols, depth: depth, first: k == 0,
				panels: panels, p1: panels.count, i: t.i, j: t.j + j, cols: n,
			})
		}
	}
}

// cutAt cuts x after n elements, rounded up to 64 bytes.
func cutAt[T Float](x []T, n int) (a, b []T) {
	n = roundUp(n, 16)
	return x[:n], x[n:]
}

// gemmTask is a piece of C, and what its share of one block of K is computed from.
type gemmTask[T Float] struct {
	a, b    []T // packed rows and packed columns
	depth   int
	first   bool       // the first block of K
	panels  gemmPanels // of the rows in a, which start at row i of C
	i       int
	p0, p1  int // the panels to multiply
	j, cols int
}

// rows are the first and the last one, counted from row i.
func (t *gemmTask[T]) rows() (lo, hi int) { return t.panels.row(t.p0), t.panels.row(t.p1) }

// packRows packs panels p0 to p1 of some rows of op(A), from row i on, and depth elements of each, from column k on.
func (g *GEMM[T]) packRows(to []T, i int, panels gemmPanels, p0, p1, k, depth int) {
	if packRowsFast(g, to, i, panels, p0, p1, k, depth) {
		return
	}
	r0, r1 := panels.row(p0), panels.row(p1)
	g.packA(to[r0*depth:], gemmBlock{i: i + r0, rows: r1 - r0}, k, depth)
}

// packCols packs columns of op(B), from column j on, and depth elements of each, from row k on.
func (g *GEMM[T]) packCols(to []T, j, cols, k, depth int) {
	if !packColsFast(g, to, j, cols, k, depth) {
		g.packB(to, gemmBlock{j: j, cols: cols}, k, depth)
	}
}

// multiply computes what a task says.
func (g *GEMM[T]) multiply(t *gemmTask[T]) {
	if multiplyFast(g, t) {
		return
	}
	lo, hi := t.rows()
	rows := t.a[lo*t.depth : hi*t.depth]
	for j := 0; j < t.cols; j += tileCols {
		g.sweep(t.b[j*t.depth:][:tileCols*t.depth], rows, gemmBlock{t.i + lo, t.j + j, hi - lo, min(tileCols, t.cols-j)}, t.first)
	}
}

// sweep multiplies all rows of the block by one panel of B, which stays in the L1 cache meanwhile.
func (g *GEMM[T]) sweep(panel, rows []T, t gemmBlock, first bool) {
	var sum [tileRows * tileCols]T
	depth := len(panel) / tileCols
	for i := 0; i < t.rows; i += tileRows {
		n := min(tileRows, t.rows-i)
		a0, a1 := rows[i*depth:][:depth], rows[(i+n-1)*depth:][:depth] // the same row twice where there is one
		tile(a0, a1, panel, &sum)
		g.store(&sum, t.i+i, t.j, n, t.cols, first)
	}
}

// empty is compute for K = 0: a sum of nothing.
func (g *GEMM[T]) empty(t gemmBlock) {
	for i := t.i; i < t.i+t.rows; i += tileRows {
		for j := t.j; j < t.j+t.cols; j += tileCols {
			var sum [tileRows * tileCols]T
			g.store(&sum, i, j, min(tileRows, t.i+t.rows-i), min(tileCols, t.j+t.cols-j), true)
		}
	}
}

// check panics unless every index that will be formed lies in its slice.
func (g *GEMM[T]) check(scratch int) {
	g.checkOperands()
	var zero T
	if need := GEMMScratch(g.M, g.N, g.K, int(unsafe.Sizeof(zero))); int64(scratch) < need {
		panic(fmt.Sprintf("kernel: GEMM: %d bytes of scratch, want %d", scratch, need))
	}
}

// checkOperands panics unless the matrices and Bias are as large as the sizes say.
func (g *GEMM[T]) checkOperands() {
	if g.M < 0 || g.N < 0 || g.K < 0 {
		panic(fmt.Sprintf("kernel: GEMM: negative size in M %d, N %d, K %d", g.M, g.N, g.K))
	}
	checkMatrix("A", len(g.A), g.LDA, g.M, g.K, g.TransA)
	checkMatrix("B", len(g.B), g.LDB, g.K, g.N, g.TransB)
	checkMatrix("C", len(g.C), g.LDC, g.M, g.N, false)
	if g.Bias != nil && len(g.Bias) < g.N {
		panic(fmt.Sprintf("kernel: GEMM: Bias has %d elements, want %d", len(g.Bias), g.N))
	}
	g.checkEpilogue()
}

// checkMatrix panics unless a matrix of rows x cols, or its transpose, fits in n elements with leading dimension ld.
func checkMatrix(name string, n, ld, rows, cols int, trans bool) {
	if trans {
		rows, cols = cols, rows
	}
	if rows == 0 || cols == 0 {
		return
	}
	if ld < cols {
		panic(fmt.Sprintf("kernel: GEMM: leading dimension %d of %s, want at least %d", ld, name, cols))
	}
	// Written so that it cannot overflow.
	if cols > n || (rows-1) > (n-cols)/ld {
		panic(fmt.Sprintf("kernel: GEMM: %s has %d elements, want %d rows of %d with leading dimension %d", name, n, rows, cols, ld))
	}
}
