package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
	"github.com/thimble-ml/thimble/internal/pool"
)

// randomGEMM is a product of contiguous matrices.
func randomGEMM[T kernel.Float](m, n, k int, transA, transB bool) *kernel.GEMM[T] {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []T {
		s := make([]T, n)
		for i := range s {
			s[i] = T(2*r.Float64() - 1)
		}
		return s
	}
	g := &kernel.GEMM[T]{
		M: m, N: n, K: k, TransA: transA, TransB: transB,
		A: random(m * k), LDA: k, B: random(k * n), LDB: n, C: make([]T, m*n), LDC: n,
	}
	if transA {
		g.LDA = m
	}
	if transB {
		g.LDB = k
	}
	return g
}

// gemmRoom is the scratch of each lane and what is shared.
type gemmRoom struct {
	lanes  [][]byte
	shared []byte
}

func newRoom[T kernel.Float](g *kernel.GEMM[T], lanes int) (r gemmRoom) {
	aligned := func(n int64) []byte {
		b := make([]byte, n+64)
		return b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&63:][:n]
	}
	size := int(unsafe.Sizeof(T(0)))
	if s := kernel.GEMMStaging(g.M, g.N, g.K); s.Stages() > 0 {
		r.shared = aligned(s.Shared(size))
		for range lanes {
			r.lanes = append(r.lanes, aligned(s.Scratch(size)))
		}
		return r
	}
	for range lanes {
		r.lanes = append(r.lanes, aligned(kernel.GEMMScratch(g.M, g.N, g.K, size)))
	}
	return r
}

// runGEMM computes all stages, or where there are none all chunks, on a pool if there is one.
func runGEMM[T kernel.Float](p *pool.Pool, lanes int, g *kernel.GEMM[T], room gemmRoom) {
	run := func(chunks int, f func(lane, chunk int)) {
		if p != nil {
			p.Run(lanes, chunks, f)
			return
		}
		for c := range chunks {
			f(0, c)
		}
	}
	stages := kernel.GEMMStaging(g.M, g.N, g.K)
	for s := range stages.Stages() {
		run(stages.Chunks(s), func(lane, chunk int) { g.Stage(room.shared, room.lanes[lane], s, chunk) })
	}
	if stages.Stages() == 0 {
		run(kernel.GEMMChunks(g.M, g.N, g.K), func(lane, chunk int) { g.Chunk(room.lanes[lane], chunk) })
	}
}

// BenchmarkGEMM compares the product with gonum's, on one worker and on two, and gives the fraction of the processor's peak. gonum takes as many goroutines as there
// are processors; with one worker it is given one. The order of contestants within a shape is fixed, so medians of
// several runs of the whole benchmark say more than one long run:
//
//	for i in 1 2 3 4 5 6 7; do go test -run xxx -bench GEMM -benchtime 200ms ./internal/kernel; done
func BenchmarkGEMM(b *testing.B) {
	b.Run("float32", func(b *testing.B) {
		benchmarkShapes(b, kernel.Families(), func(g *kernel.GEMM[float32]) {
			gonum.Implementation{}.Sgemm(flag(g.TransA), flag(g.TransB), g.M, g.N, g.K, 1, g.A, g.LDA, g.B, g.LDB, 0, g.C, g.LDC)
		})
	})
	b.Run("float64", func(b *testing.B) {
		benchmarkShapes(b, kernel.Families(), func(g *kernel.GEMM[float64]) {
			gonum.Implementation{}.Dgemm(flag(g.TransA), flag(g.TransB), g.M, g.N, g.K, 1, g.A, g.LDA, g.B, g.LDB, 0, g.C, g.LDC)
		})
	})
}

func flag(trans bool) blas.Transpose {
	if trans {
		return blas.Trans
	}
	return blas.NoTrans
}

func benchmarkShapes[T kernel.Float](b *testing.B, families []string, theirs func(*kernel.GEMM[T])) {
	for _, s := range []struct {
		m, n, k        int
		transA, transB bool
	}{
		{256, 256, 256, false, false},
		{512, 512, 512, false, false},
		{1024, 1024, 1024, false, false},
		{512, 3072, 768, false, true},
		{768, 3072, 512, true, false},
		{512, 768, 3072, false, false},
		{128, 512, 784, false, false},
		{128, 512, 784, false, true},
		{128, 512, 784, true, false},
		{128, 10, 512, false, false},
		{256, 256, 64, false, true},
		{256, 64, 256, false, false},
		{1, 512, 512, false, true},
		{64, 64, 64, false, false},
	} {
		g := randomGEMM[T](s.m, s.n, s.k, s.transA, s.transB)
		name := fmt.Sprintf("%s%s_%dx%dx%d", letter(s.transA), letter(s.transB), s.m, s.n, s.k)
		for _, workers := range []int{1, 2} {
			p := pool.New(workers)
			room := newRoom(g, workers)
			for _, f := range families {
				kernel.UseFamily(b, f)
				benchmarkProduct(b, fmt.Sprintf("%s/%s-%d", name, f, workers), g, workers, func() { runGEMM(p, workers, g, room) })
			}
			benchmarkProduct(b, fmt.Sprintf("%s/gonum-%d", name, workers), g, workers, func() { theirs(g) })
			p.Close()
		}
	}
}

func letter(trans bool) string {
	if trans {
		return "T"
	}
	return "N"
}

func benchmarkProduct[T kernel.Float](b *testing.B, name string, g *kernel.GEMM[T], procs int, f func()) {
	b.Run(name, func(b *testing.B) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		for b.Loop() {
			f()
		}
		flops := 2 * float64(g.M) * float64(g.N) * float64(g.K) * float64(b.N)
		rate := flops / float64(b.Elapsed().Nanoseconds())
		b.ReportMetric(rate, "GFLOP/s")
		if peak := kerneltest.Peak() * float64(procs) * 4 / float64(unsafe.Sizeof(T(0))); peak > 0 {
			b.ReportMetric(rate/peak, "of-peak")
		}
	})
}
