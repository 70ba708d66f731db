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
// TransA its transpose, stored [K M]; likewise B, stored [K N] or with TransB [N K]. C must not overlap the others.
//
// The product is cut into [GEMMChunks] tiles of C. Each is computed completely, and alone, by one call of Chunk, so
// that the calls may run in any order and on any goroutines, with the same bits.
//
// No product is skipped, so that 0 times Inf is NaN. One element of C is always added up in the same order, wherever it
// lies in a tile and however A and B are stored: K is cut, by its length only, into blocks. The products of a block are
// added in ascending order of k, starting from +0. The first block's sum gets Bias[j] and then, if Add, the old C added;
// the sums of later blocks are added to that one after the other. With AVX2, float32 products are always fused into
// their sums: product and addition share one rounding. In plain Go each step is rounded to T, but for where the compiler
// fuses (arm64 and others, amd64 from GOAMD64=v3 on).
type GEMM[T Float] struct {
	M, N, K int
	A       []T
	LDA     int
	TransA  bool
	B       []T
	LDB     int
	TransB  bool
	C       []T
	LDC     int
	Add     bool
	Bias    []T // of length N, or nil
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

// GEMMScratch is the number of bytes that Chunk wants of its lane, for elements of elemSize bytes: room for one block
// of op(A) and for a few columns of one of op(B). It is at most 200 KiB for float32 and twice that for float64.
func GEMMScratch(m, n, k int, elemSize int) int64 {
	if m <= 0 || n <= 0 || k <= 0 {
		return 0
	}
	mb, nb := gemmTile(m, n, k)
	kb := int64(gemmDepth(k))
	return roundUp64(kb*int64(roundUp(min(mb, m), gemmRows))*int64(elemSize)) +
		roundUp64(kb*int64(roundUp(min(gemmPanel, nb, n), gemmCols))*int64(elemSize))
}

// Chunk computes tile number chunk of C. scratch holds at least [GEMMScratch] bytes and its content does not matter;
// two calls that run at the same time must not share it.
func (g *GEMM[T]) Chunk(scratch []byte, chunk int) {
	g.check(len(scratch), chunk)
	mb, nb := gemmTile(g.M, g.N, g.K)
	across := ceilDiv(g.N, nb)
	i, j := chunk/across*mb, chunk%across*nb
	t := gemmBlock{i: i, j: j, rows: min(mb, g.M-i), cols: min(nb, g.N-j)}
	if g.K == 0 {
		g.empty(t)
		return
	}
	if v, ok := g.asVector(t); ok {
		g.computeVector(v, t, View[T](scratch))
		return
	}
	if !computeFast(g, t, scratch) {
		g.compute(t, View[T](scratch))
	}
}

// gemmBlock is a tile of C.
type gemmBlock struct{ i, j, rows, cols int }

// compute computes a tile: for each block of K, it packs the tile's rows of op(A), and then goes over the columns: it
// packs a few of op(B) and multiplies.
func (g *GEMM[T]) compute(t gemmBlock, scratch []T) {
	kb := gemmDepth(g.K)
	for k := 0; k < g.K; k += kb {
		depth := min(kb, g.K-k)
		rows, rest := scratch[:t.rows*depth], scratch[t.rows*depth:]
		g.packA(rows, t, k, depth)
		for j := 0; j < t.cols; j += gemmPanel {
			u := gemmBlock{i: t.i, j: t.j + j, rows: t.rows, cols: min(gemmPanel, t.cols-j)}
			g.sweepAll(rest[:roundUp(u.cols, tileCols)*depth], rows, u, k, depth)
		}
	}
}

// sweepAll packs the columns of the tile and multiplies.
func (g *GEMM[T]) sweepAll(panels, rows []T, t gemmBlock, k, depth int) {
	g.packB(panels, t, k, depth)
	for j := 0; j < t.cols; j += tileCols {
		g.sweep(panels[j*depth:][:tileCols*depth], rows, t, j, k == 0)
	}
}

// sweep multiplies all rows of the tile by one panel of B, which stays in the L1 cache meanwhile.
func (g *GEMM[T]) sweep(panel, rows []T, t gemmBlock, j int, first bool) {
	var sum [tileRows * tileCols]T
	depth := len(panel) / tileCols
	cols := min(tileCols, t.cols-j)
	for i := 0; i < t.rows; i += tileRows {
		n := min(tileRows, t.rows-i)
		a0, a1 := rows[i*depth:][:depth], rows[(i+n-1)*depth:][:depth] // the same row twice where there is one
		tile(a0, a1, panel, &sum)
		g.store(&sum, t.i+i, t.j+j, n, cols, first)
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

// check panics unless every index that Chunk will form lies in its slice.
func (g *GEMM[T]) check(scratch, chunk int) {
	if g.M < 0 || g.N < 0 || g.K < 0 {
		panic(fmt.Sprintf("kernel: GEMM: negative size in M %d, N %d, K %d", g.M, g.N, g.K))
	}
	if n := GEMMChunks(g.M, g.N, g.K); chunk < 0 || chunk >= n {
		panic(fmt.Sprintf("kernel: GEMM: chunk %d of %d", chunk, n))
	}
	checkMatrix("A", len(g.A), g.LDA, g.M, g.K, g.TransA)
	checkMatrix("B", len(g.B), g.LDB, g.K, g.N, g.TransB)
	checkMatrix("C", len(g.C), g.LDC, g.M, g.N, false)
	if g.Bias != nil && len(g.Bias) < g.N {
		panic(fmt.Sprintf("kernel: GEMM: Bias has %d elements, want %d", len(g.Bias), g.N))
	}
	var zero T
	if need := GEMMScratch(g.M, g.N, g.K, int(unsafe.Sizeof(zero))); int64(scratch) < need {
		panic(fmt.Sprintf("kernel: GEMM: %d bytes of scratch, want %d", scratch, need))
	}
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
