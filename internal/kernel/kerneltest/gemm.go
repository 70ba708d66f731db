package kerneltest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/internal/kernel"
)

// GEMM runs the matrix product, on the kernel family that is chosen, through everything that [kernel.GEMM] promises.
//
// Values are compared with float64 sums in plain order. The difference may be u (4 + 2 sqrt(K)) S, with u the unit
// roundoff of the type (2^-24, 2^-53) and S the sum of the magnitudes of all terms of the element: errors of K
// roundings that lean to neither side grow like sqrt(K). NaN and Inf must be the same. Everything that the product must
// not touch or read (between rows, past the end, scratch before it is written, C before it is filled) is NaN or watched.
func GEMM(t *testing.T) {
	t.Run("float32", gemmSuite[float32])
	t.Run("float64", gemmSuite[float64])
}

func gemmSuite[T kernel.Float](t *testing.T) {
	t.Run("small", gemmSmall[T])
	t.Run("edges", gemmEdges[T])
	t.Run("special", gemmSpecial[T])
	t.Run("empty", gemmEmpty[T])
	t.Run("order", gemmOrder[T])
	t.Run("stages", gemmStages[T])
}

// gemmCase is one product to try.
type gemmCase struct {
	m, n, k        int
	transA, transB bool
	add, bias      bool
	pad            int // how much longer than its row a leading dimension is
}

func (c gemmCase) String() string {
	return fmt.Sprintf("M%d N%d K%d transA=%t transB=%t add=%t bias=%t pad=%d", c.m, c.n, c.k, c.transA, c.transB, c.add, c.bias, c.pad)
}

// variants are the case with all four ways of storing A and B, with and without Add and Bias.
func (c gemmCase) variants(f func(gemmCase)) {
	for bits := range 16 {
		c.transA, c.transB, c.add, c.bias = bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0
		f(c)
	}
}

// storages are the case with all four ways of storing A and B, each with another choice of Add and Bias.
func (c gemmCase) storages(f func(gemmCase)) {
	for bits := range 4 {
		c.transA, c.transB = bits&1 != 0, bits&2 != 0
		c.add, c.bias = c.transB, c.transA != c.transB
		f(c)
	}
}

// gemmSmall tries all shapes from sizes around those of micro-tiles.
func gemmSmall[T kernel.Float](t *testing.T) {
	sizes := []int{0, 1, 2, 3, 4, 5, 6, 7, 9, 17}
	for _, m := range sizes {
		for _, n := range sizes {
			for _, k := range sizes {
				gemmCase{m: m, n: n, k: k}.variants(func(c gemmCase) {
					c.pad = (m + n + k) % 3
					newProduct[T](c).check(t)
				})
			}
		}
	}
}

// gemmEdges tries shapes around the sizes of tiles and blocks.
func gemmEdges[T kernel.Float](t *testing.T) {
	for _, s := range [][3]int{
		{128, 128, 192}, {129, 127, 193}, {131, 257, 33}, {256, 64, 64}, {64, 300, 385}, {96, 100, 577},
		{1, 300, 200}, {300, 1, 200}, {1, 1, 1000}, {257, 130, 1}, {128, 10, 512}, {33, 31, 2000}, {6, 16, 256}, {7, 33, 8},
	} {
		gemmCase{m: s[0], n: s[1], k: s[2]}.storages(func(c gemmCase) {
			c.pad = s[0] % 4
			newProduct[T](c).check(t)
		})
	}
}

// gemmSpecial puts an Inf or a NaN in each place of A and then of B, whose partners are 0, 1 or -1: no product with a
// zero may be left out.
func gemmSpecial[T kernel.Float](t *testing.T) {
	for _, s := range [][3]int{{1, 5, 9}, {5, 1, 9}, {3, 5, 9}, {7, 17, 4}} {
		gemmCase{m: s[0], n: s[1], k: s[2]}.variants(func(c gemmCase) {
			for i, v := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
				for at := range c.m * c.k {
					p := newProduct[T](c)
					for j := range c.n {
						*p.b(at%c.k, j) = T((i+j)%3 - 1)
					}
					*p.a(at/c.k, at%c.k) = T(v)
					p.check(t)
				}
				for at := range c.k * c.n {
					p := newProduct[T](c)
					for j := range c.m {
						*p.a(j, at/c.n) = T((i+j+1)%3 - 1)
					}
					*p.b(at/c.n, at%c.n) = T(v)
					p.check(t)
				}
			}
		})
	}
}

// gemmEmpty multiplies over K = 0, with operands of length 0.
func gemmEmpty[T kernel.Float](t *testing.T) {
	for _, s := range [][2]int{{1, 1}, {3, 7}, {130, 140}} {
		gemmCase{m: s[0], n: s[1]}.variants(func(c gemmCase) {
			p := newProduct[T](c)
			p.g.A, p.g.B, p.g.LDA, p.g.LDB = nil, nil, 0, 0
			p.check(t)
		})
	}
}

// gemmOrder demands the same bits from chunks in ascending order, in descending order, and on several goroutines.
func gemmOrder[T kernel.Float](t *testing.T) {
	for _, s := range [][3]int{{128, 300, 400}, {257, 10, 600}, {1, 700, 300}} {
		gemmCase{m: s[0], n: s[1], k: s[2], pad: 3}.storages(func(c gemmCase) {
			want := newProduct[T](c)
			n := kernel.GEMMChunks(c.m, c.n, c.k)
			for i := range n {
				want.chunk(t, i)
			}
			down := newProduct[T](c)
			for i := range n {
				down.chunk(t, n-1-i)
			}
			requireSameBits(t, want, down)
			for _, lanes := range []int{2, 5} {
				many := newProduct[T](c)
				many.onLanes(t, n, lanes)
				requireSameBits(t, want, many)
			}
		})
	}
}

// product is a GEMM with its operands, what C held before, and what C must hold.
type product[T kernel.Float] struct {
	gemmCase
	g   kernel.GEMM[T]
	old []T
}

// newProduct makes random operands, always the same for a case. Between and after rows lies NaN.
func newProduct[T kernel.Float](c gemmCase) *product[T] {
	p := &product[T]{gemmCase: c}
	r := rand.New(rand.NewPCG(uint64(c.m)<<40|uint64(c.n)<<20|uint64(c.k), 1))
	p.g = kernel.GEMM[T]{M: c.m, N: c.n, K: c.k, TransA: c.transA, TransB: c.transB, Add: c.add}
	p.g.A, p.g.LDA = matrix[T](r, c.m, c.k, c.pad, c.transA)
	p.g.B, p.g.LDB = matrix[T](r, c.k, c.n, c.pad, c.transB)
	p.g.C, p.g.LDC = matrix[T](r, c.m, c.n, c.pad, false)
	if !c.add { // what is to be filled must not be read
		for i := range p.g.C {
			p.g.C[i] = T(math.NaN())
		}
	}
	if c.bias {
		p.g.Bias = numbers[T](r, c.n)
	}
	p.old = append([]T(nil), p.g.C...)
	return p
}

// matrix is a random [rows cols] matrix, or its transpose, in a slice of the least possible length.
func matrix[T kernel.Float](r *rand.Rand, rows, cols, pad int, trans bool) ([]T, int) {
	values := numbers[T](r, rows*cols)
	m, n := rows, cols
	if trans {
		m, n = cols, rows
	}
	ld := n + pad
	if m == 0 || n == 0 {
		return nil, ld
	}
	s := make([]T, (m-1)*ld+n)
	for i := range s {
		s[i] = T(math.NaN())
	}
	for i, v := range values {
		row, col := i/cols, i%cols
		if trans {
			row, col = col, row
		}
		s[row*ld+col] = v
	}
	return s, ld
}

// numbers are random ones in [-1, 1), a few of them zero.
func numbers[T kernel.Float](r *rand.Rand, n int) []T {
	s := make([]T, n)
	for i := range s {
		if r.IntN(16) != 0 {
			s[i] = T(2*r.Float64() - 1)
		}
	}
	return s
}

// steps are the places of the elements that a sum over k takes.
type steps struct{ at, step int }

// stepsOf gives where row i of op(A) and column j of op(B) are.
func (p *product[T]) stepsOf(i, j int) (a, b steps) {
	a, b = steps{i * p.g.LDA, 1}, steps{j, p.g.LDB}
	if p.transA {
		a = steps{i, p.g.LDA}
	}
	if p.transB {
		b = steps{j * p.g.LDB, 1}
	}
	return a, b
}

// a and b are where an element of op(A) and of op(B) is.
func (p *product[T]) a(i, k int) *T {
	s, _ := p.stepsOf(i, 0)
	return &p.g.A[s.at+k*s.step]
}

func (p *product[T]) b(k, j int) *T {
	_, s := p.stepsOf(0, j)
	return &p.g.B[s.at+k*s.step]
}

// check computes C in chunks, and then as a whole, and demands right values and the same bits.
func (p *product[T]) check(t *testing.T) {
	whole := *p
	whole.g.C = append([]T(nil), p.old...)
	for i := range kernel.GEMMChunks(p.m, p.n, p.k) {
		p.chunk(t, i)
	}
	p.compare(t)
	p.inScratch(t, func(scratch []byte) { whole.g.Whole(scratch) })
	requireSameBits(t, p, &whole)
}

// compare compares every element of C, and what lies between its rows.
func (p *product[T]) compare(t *testing.T) {
	rows, cols := p.operands()
	for at, got := range p.g.C {
		i, j := at/p.g.LDC, at%p.g.LDC
		if j >= p.n {
			if !math.IsNaN(float64(got)) {
				require.Failf(t, "wrote between rows", "%v: C[%d]", p, at)
			}
			continue
		}
		want, limit := p.want(i, j, rows[i], cols[j])
		if !within(float64(got), want, limit) {
			require.Failf(t, "wrong value", "%v: C[%d %d] is %v, want %v +- %v", p, i, j, got, want, limit)
		}
	}
}

// operands are op(A), row by row, and op(B), column by column.
func (p *product[T]) operands() (rows, cols [][]float64) {
	for i := range p.m {
		row := make([]float64, p.k)
		for k := range row {
			row[k] = float64(*p.a(i, k))
		}
		rows = append(rows, row)
	}
	for j := range p.n {
		col := make([]float64, p.k)
		for k := range col {
			col[k] = float64(*p.b(k, j))
		}
		cols = append(cols, col)
	}
	return rows, cols
}

// want is the value of an element of C in float64 and how far off it may be.
func (p *product[T]) want(i, j int, row, col []float64) (value, limit float64) {
	sum, size := plainDot(row, col)
	if p.bias {
		x := float64(p.g.Bias[j])
		sum, size = sum+x, size+math.Abs(x)
	}
	if p.add {
		x := float64(p.old[i*p.g.LDC+j])
		sum, size = sum+x, size+math.Abs(x)
	}
	return sum, size * roundoff[T]() * (4 + 2*math.Sqrt(float64(p.k)))
}

// plainDot is the product of x and y, and the sum of its terms' magnitudes. (Under the race detector the suite would
// spend its time in here, on memory that is its own.)
//
//go:norace
func plainDot(x, y []float64) (sum, size float64) {
	for k, x := range x {
		t := x * y[k]
		sum += t
		if t < 0 {
			t = -t
		}
		size += t
	}
	return sum, size
}

// roundoff is the largest relative error of one rounding.
func roundoff[T kernel.Float]() float64 {
	if unsafe.Sizeof(T(0)) == 4 {
		return 0x1p-24
	}
	return 0x1p-53
}

// within compares as the suite says. A limit that is not a number means that a term was not.
func within(got, want, limit float64) bool {
	if math.IsNaN(want) || math.IsNaN(got) {
		return math.IsNaN(want) && math.IsNaN(got)
	}
	if math.IsInf(want, 0) || math.IsInf(got, 0) {
		return want == got
	}
	return math.Abs(got-want) <= limit
}

// chunk computes one chunk.
func (p *product[T]) chunk(t *testing.T, chunk int) {
	p.inScratch(t, func(scratch []byte) { p.g.Chunk(scratch, chunk) })
}

// inScratch calls f with scratch that is full of NaN and just large enough.
func (p *product[T]) inScratch(t *testing.T, f func([]byte)) {
	s, whole := newScratch(kernel.GEMMScratch(p.m, p.n, p.k, int(unsafe.Sizeof(T(0)))))
	f(s)
	p.requireUntouched(t, whole[len(s):])
}

func (p *product[T]) requireUntouched(t *testing.T, rest []byte) {
	for _, b := range rest {
		if b != 0xff {
			require.Failf(t, "wrote past the scratch", "%v", p)
		}
	}
}

// onLanes computes all chunks on several goroutines, each with its own scratch.
func (p *product[T]) onLanes(t *testing.T, chunks, lanes int) {
	next := make(chan int, chunks)
	for i := range chunks {
		next <- i
	}
	var all sync.WaitGroup
	for range lanes {
		all.Go(func() {
			s, _ := newScratch(kernel.GEMMScratch(p.m, p.n, p.k, int(unsafe.Sizeof(T(0)))))
			for {
				select {
				case i := <-next:
					p.g.Chunk(s, i)
				default:
					return
				}
			}
		})
	}
	all.Wait()
}

// newScratch is n bytes that start at a multiple of 64, with some more behind them, all 0xff: NaN in either type.
func newScratch(n int64) (scratch, whole []byte) {
	b := bytes.Repeat([]byte{0xff}, int(n)+256)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63
	whole = b[skip:]
	return whole[:n:n], whole
}

// requireSameBits compares all of C, NaN included.
func requireSameBits[T kernel.Float](t *testing.T, want, got *product[T]) {
	for i, w := range want.g.C {
		if x := got.g.C[i]; math.Float64bits(float64(w)) != math.Float64bits(float64(x)) {
			require.Failf(t, "bits depend on order or lanes", "%v: C[%d] is %v and %v", want, i, w, x)
		}
	}
}
