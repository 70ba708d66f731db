package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
	"github.com/thimble-ml/thimble/internal/pool"
)

func TestGEMM(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.GEMM(t)
	})
}

// eachFamily runs a test on each kernel family that this processor has.
func eachFamily(t *testing.T, test func(t *testing.T)) {
	for _, f := range kernel.Families() {
		t.Run(f, func(t *testing.T) {
			kernel.UseFamily(t, f)
			test(t)
		})
	}
}

// On a real pool: the same bits for any number of workers and lanes.
func TestGEMMWorkers(t *testing.T) { eachFamily(t, gemmWorkers) }

func gemmWorkers(t *testing.T) {
	const m, n, k = 200, 300, 400
	var want []float32
	for _, workers := range []int{1, 2, 3, 8} {
		for _, lanes := range []int{1, 2, 8} {
			g := randomGEMM[float32](m, n, k, false, true)
			p := pool.New(workers)
			runGEMM(p, lanes, g, newRoom[float32](g, lanes))
			p.Close()
			if want == nil {
				want = g.C
			}
			require.Equal(t, want, g.C, "workers %d, lanes %d", workers, lanes)
		}
	}
}

// How an element is added up depends on K alone, not on how A and B are stored nor on where the element lies. To the
// bit, unless the compiler fuses products into sums, which it does in some loops and not in others.
func TestGEMMStorage(t *testing.T) { eachFamily(t, gemmStorage) }

func gemmStorage(t *testing.T) {
	const m, n, k = 70, 90, 500
	want := randomGEMM[float32](m, n, k, false, false)
	runGEMM(nil, 1, want, newRoom[float32](want, 1))
	for _, trans := range [][2]bool{{false, true}, {true, false}, {true, true}} {
		g := randomGEMM[float32](m, n, k, trans[0], trans[1])
		for i := range m {
			for l := range k {
				*at(g.A, g.LDA, trans[0], i, l) = want.A[i*k+l]
			}
		}
		for l := range k {
			for j := range n {
				*at(g.B, g.LDB, trans[1], l, j) = want.B[l*n+j]
			}
		}
		runGEMM(nil, 1, g, newRoom[float32](g, 1))
		requireSame(t, want.C, g.C, "transA %t, transB %t", trans[0], trans[1])
	}
	for i := range m { // row by row, which are products of a vector
		row := &kernel.GEMM[float32]{M: 1, N: n, K: k, A: want.A[i*k:], LDA: k, B: want.B, LDB: n, C: make([]float32, n), LDC: n}
		runGEMM(nil, 1, row, newRoom[float32](row, 1))
		requireSame(t, want.C[i*n:(i+1)*n], row.C, "row %d", i)
	}
	for j := range n { // column by column
		col := &kernel.GEMM[float32]{M: m, N: 1, K: k, A: want.A, LDA: k, B: want.B[j:], LDB: n, C: make([]float32, m), LDC: 1}
		runGEMM(nil, 1, col, newRoom[float32](col, 1))
		for i := range m {
			requireSame(t, want.C[i*n+j:][:1], col.C[i:][:1], "column %d", j)
		}
	}
}

// requireSame demands the same bits, or where products are fused nearly the same values.
func requireSame(t *testing.T, want, got []float32, format string, args ...any) {
	if kernel.Family() == "go" && fuses(1+0x1p-12, -(1+0x1p-11)) {
		require.InDeltaSlice(t, want, got, 1e-4, append([]any{format}, args...)...)
		return
	}
	require.Equal(t, want, got, append([]any{format}, args...)...)
}

// fuses reports whether x*x+y, which is 2^-24 for the numbers above, is computed with one rounding.
//
//go:noinline
func fuses(x, y float32) bool { return x*x+y != 0 }

// at is element (i, j) of op(x).
func at[T kernel.Float](x []T, ld int, trans bool, i, j int) *T {
	if trans {
		i, j = j, i
	}
	return &x[i*ld+j]
}

func TestGEMMCuts(t *testing.T) {
	for _, c := range []struct{ m, n, k, chunks int }{
		{0, 5, 5, 0}, {5, 0, 5, 0}, {5, 5, 0, 1}, {1, 1, 1, 1}, {16, 16, 16, 1},
		{128, 512, 784, 8}, {1024, 1024, 1024, 24}, {128, 10, 512, 2}, {256, 256, 64, 8}, {512, 512, 512, 12},
	} {
		require.Equal(t, c.chunks, kernel.GEMMChunks(c.m, c.n, c.k), "%v", c)
	}
	for range 2000 {
		m, n, k := rand.IntN(3000), rand.IntN(3000), rand.IntN(3000)
		small := kernel.GEMMScratch(m, n, k, 4)
		require.LessOrEqual(t, small, int64(256<<10))
		require.LessOrEqual(t, small, 2*64+int64(4*(k+7)*(m+12+n+16)), "clipped to the shape %d %d %d", m, n, k)
		require.LessOrEqual(t, kernel.GEMMScratch(m, n, k, 8), 2*small)
	}
	require.Zero(t, kernel.GEMMScratch(5, 5, 0, 4))
}

func TestGEMMPanics(t *testing.T) {
	good := func() *kernel.GEMM[float32] {
		return &kernel.GEMM[float32]{M: 3, N: 4, K: 5, A: make([]float32, 15), LDA: 5, B: make([]float32, 20), LDB: 4, C: make([]float32, 12), LDC: 4}
	}
	for text, spoil := range map[string]func(g *kernel.GEMM[float32]){
		"A has 14 elements, want 3 rows of 5 with leading dimension 5": func(g *kernel.GEMM[float32]) { g.A = g.A[:14] },
		"A has 15 elements, want 5 rows of 3 with leading dimension 5": func(g *kernel.GEMM[float32]) { g.TransA = true },
		"B has 19 elements":                           func(g *kernel.GEMM[float32]) { g.B = g.B[:19] },
		"C has 12 elements":                           func(g *kernel.GEMM[float32]) { g.LDC = 5 },
		"leading dimension 3 of B":                    func(g *kernel.GEMM[float32]) { g.LDB = 3 },
		"leading dimension -1 of A":                   func(g *kernel.GEMM[float32]) { g.LDA = -1 },
		"negative size":                               func(g *kernel.GEMM[float32]) { g.K = -1 },
		"Bias has 3 elements":                         func(g *kernel.GEMM[float32]) { g.Bias = make([]float32, 3) },
		fmt.Sprint("leading dimension ", math.MaxInt): func(g *kernel.GEMM[float32]) { g.LDA = math.MaxInt },
	} {
		g := good()
		spoil(g)
		require.Contains(t, panics(func() { g.Chunk(make([]byte, 4096), 0) }), text)
	}
	require.Contains(t, panics(func() { good().Chunk(make([]byte, 4096), 1) }), "chunk 1 of 1")
	large := randomGEMM[float32](30, 40, 50, false, false)
	require.Contains(t, panics(func() { large.Chunk(make([]byte, 8), 0) }), "scratch")
	require.NotPanics(t, func() { large.Chunk(newRoom(large, 1).lanes[0], 0) })
}

func TestView(t *testing.T) {
	b := kernel.View[byte](make([]byte, 64))
	f := kernel.View[float32](b[:15])
	require.Len(t, f, 3)
	f[2] = 1
	require.Equal(t, []byte{0, 0, 0x80, 0x3f}, b[8:12])
	require.Nil(t, kernel.View[float64](b[:7]))
	require.Nil(t, kernel.View[float64](nil))
	require.Contains(t, panics(func() { kernel.View[float32](b[1:]) }), "multiple of 4")
}

// panics is what f panics with.
func panics(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}
