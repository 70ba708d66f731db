package kernel

import "fmt"

// MixedGEMM is a [GEMM] of float32 whose operands may each be of a half type:
//
//	C[M N] = op(A)[M K] * op(B)[K N]   (+ Bias[N], on every row)   (+ C, if Add)
//
// Halves of A and B are widened, which is exact, a block at a time, as they are packed. All sums are float32's and in GEMM's
// order; where C is of a half type each element is rounded once, to nearest even, from the sum over all of K with Bias and the
// old C in it. So the values are those of a GEMM of widened operands, rounded; an [Epilogue] then is rounded once more.
//
// There are two ways to compute it, with the same bits: Chunk, or Sum, computes one of [MixedGEMMChunks] tiles of C; Stage is
// for large products, as GEMM's is (gemm_mixed_stages.go).
type MixedGEMM struct {
	M, N, K int
	A, B, C Mixed
	Add     bool
	Bias    Mixed // a row of N, or nothing

	Epilogue Epilogue
	With     Mixed
}

// Mixed is a matrix of float32 or, where Bits is not nil, of a half type.
type Mixed struct {
	Float []float32
	Bits  []uint16
	Half  Half
	LD    int
	Trans bool // the transpose is stored; not for C
	Round bool // Float counts as rounded to Half; not for C
}

// wide tells of a matrix that products can read where it lies.
func (x *Mixed) wide() bool { return x.Bits == nil && !x.Round }

// The tile of C that a chunk computes is small: widened rows of A and columns of B stay in the L2 cache beside it.
const (
	mixedRows = 96
	mixedCols = 128

	// mixedGap is how much longer a row of a widened block is than its elements, so that a column of blocks of 128 does not
	// fall on few places of the L1 cache.
	mixedGap = 16
)

// MixedGEMMChunks is the number of tiles that the product is cut into, by its shape alone.
func MixedGEMMChunks(m, n, k int) int {
	if m <= 0 || n <= 0 {
		return 0
	}
	rows, cols := mixedTile(m, n, k)
	return ceilDiv(m, rows) * ceilDiv(n, cols)
}

// MixedGEMMScratch is the number of bytes that Chunk wants of its lane: what a tile's GEMM wants, and room for a block of
// each operand as float32. It is at most 464 KiB.
func MixedGEMMScratch(m, n, k int) int64 {
	if m <= 0 || n <= 0 {
		return 0
	}
	rows, cols := mixedTile(m, n, k)
	a, b, c := mixedRoom(rows, cols, max(1, k))
	return 4*int64(a+b+c) + GEMMScratch(rows, cols, min(k, gemmDepth(max(1, k))), 4)
}

func mixedTile(m, n, k int) (rows, cols int) {
	rows, cols = tileOf(m, n, k, mixedRows, mixedCols)
	return even(m, rows, gemmRows), even(n, cols, gemmCols)
}

// mixedRoom is how many elements the widened blocks take, each a multiple of 16.
func mixedRoom(rows, cols, k int) (a, b, c int) {
	depth := gemmDepth(k)
	block := func(rows, cols int) int { return roundUp(max(rows*(cols+mixedGap), cols*(rows+mixedGap)), 16) }
	return block(rows, depth), block(depth, cols), roundUp(rows*cols, 16)
}

// Chunk computes tile number chunk of C. scratch holds at least [MixedGEMMScratch] bytes and its content does not matter;
// two calls that run at the same time must not share it.
func (g *MixedGEMM) Chunk(scratch []byte, chunk int) { g.Sum(scratch, chunk, 1, nil) }

// Sum is Chunk for the sum of several products, rounded once: in the one of number i, op(A) and op(B) begin as many elements
// further on as term says. Without term there is one product.
func (g *MixedGEMM) Sum(scratch []byte, chunk, terms int, term func(i int) (a, b int)) {
	g.check()
	if n := MixedGEMMChunks(g.M, g.N, g.K); chunk < 0 || chunk >= n {
		panic(fmt.Sprintf("kernel: MixedGEMM: chunk %d of %d", chunk, n))
	}
	if need := MixedGEMMScratch(g.M, g.N, g.K); int64(len(scratch)) < need {
		panic(fmt.Sprintf("kernel: MixedGEMM: %d bytes of scratch, want %d", len(scratch), need))
	}
	rows, cols := mixedTile(g.M, g.N, g.K)
	na, nb, nc := mixedRoom(rows, cols, max(1, g.K))
	across := ceilDiv(g.N, cols)
	t := gemmBlock{i: chunk / across * rows, j: chunk % across * cols}
	t.rows, t.cols = min(rows, g.M-t.i), min(cols, g.N-t.j)
	room := View[float32](scratch)[:na+nb+nc]
	a, b, c := room[:na], room[na:na+nb], room[na+nb:]

	each := GEMM[float32]{M: t.rows, N: t.cols, Add: g.Add}
	var bias [mixedCols]float32
	each.Bias = g.Bias.row(bias[:], t.j, t.cols)
	each.C, each.LDC = g.C.open(c, t, g.Add)
	depth := gemmDepth(max(1, g.K))
	for i := range terms {
		x, y := g.A, g.B
		if term != nil {
			p, q := term(i)
			x, y = x.From(p), y.From(q)
		}
		for k := 0; k == 0 || k < g.K; k += depth {
			each.K = min(depth, g.K-k)
			each.A, each.LDA, each.TransA = x.block(a, t.i, k, t.rows, each.K)
			each.B, each.LDB, each.TransB = y.block(b, k, t.j, each.K, t.cols)
			each.Whole(scratch[4*(na+nb+nc):])
			each.Add, each.Bias = true, nil
		}
	}
	g.finish(each.C, each.LDC, t)
	g.C.close(c, t)
}

// From is the matrix that begins n elements further on.
func (x Mixed) From(n int) Mixed {
	if x.Bits != nil {
		x.Bits = x.Bits[n:]
	} else {
		x.Float = x.Float[n:]
	}
	return x
}

// row is n elements of a row as float32, from number j on, where they lie or widened into room; nil of nothing.
func (x *Mixed) row(room []float32, j, n int) []float32 {
	switch {
	case x.Bits == nil && x.Float == nil:
		return nil
	case x.wide():
		return x.Float[j:][:n]
	}
	x.widen(room[:n], j)
	return room[:n]
}

// widen fills dst with elements from number at on, which are halves or are to be rounded.
func (x *Mixed) widen(dst []float32, at int) {
	if x.Bits != nil {
		x.Half.Widen(dst, x.Bits[at:][:len(dst)])
		return
	}
	x.Half.quantize(dst, x.Float[at:][:len(dst)])
}

// block is rows x cols of op(x) from (i, j) on as float32, where they lie or widened into room.
func (x *Mixed) block(room []float32, i, j, rows, cols int) (m []float32, ld int, trans bool) {
	if rows == 0 || cols == 0 {
		return nil, 0, x.Trans
	}
	if x.Trans {
		i, j, rows, cols = j, i, cols, rows
	}
	if x.wide() {
		return x.Float[i*x.LD+j:], x.LD, x.Trans
	}
	ld = cols + mixedGap
	for r := range rows {
		x.widen(room[r*ld:][:cols], (i+r)*x.LD+j)
	}
	return room, ld, x.Trans
}

// open is a tile of C as float32, in room if C is of a half type, with its old values if they count.
func (x *Mixed) open(room []float32, t gemmBlock, add bool) (c []float32, ld int) {
	if x.Bits == nil {
		return x.Float[t.i*x.LD+t.j:], x.LD
	}
	if add {
		for r := range t.rows {
			x.Half.Widen(room[r*t.cols:][:t.cols], x.Bits[(t.i+r)*x.LD+t.j:][:t.cols])
		}
	}
	return room, t.cols
}

// close rounds the tile into C, if that is of a half type.
func (x *Mixed) close(tile []float32, t gemmBlock) {
	if x.Bits == nil {
		return
	}
	for r := range t.rows {
		x.Half.Round(x.Bits[(t.i+r)*x.LD+t.j:][:t.cols], tile[r*t.cols:][:t.cols])
	}
}

// check panics unless every index that will be formed lies in its slice.
func (g *MixedGEMM) check() {
	if g.M < 0 || g.N < 0 || g.K < 0 {
		panic(fmt.Sprintf("kernel: MixedGEMM: negative size in M %d, N %d, K %d", g.M, g.N, g.K))
	}
	checkMatrix("A", g.A.elems(), g.A.LD, g.M, g.K, g.A.Trans)
	checkMatrix("B", g.B.elems(), g.B.LD, g.K, g.N, g.B.Trans)
	checkMatrix("C", g.C.elems(), g.C.LD, g.M, g.N, false)
	if n := g.Bias.elems(); n > 0 && n < g.N {
		panic(fmt.Sprintf("kernel: MixedGEMM: Bias has %d elements, want %d", n, g.N))
	}
	if g.Epilogue.reads() {
		checkMatrix("With", g.With.elems(), g.With.LD, g.M, g.N, false)
	}
}

func (x *Mixed) elems() int {
	if x.Bits != nil {
		return len(x.Bits)
	}
	return len(x.Float)
}
