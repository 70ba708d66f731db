package kernel

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"syscall"
	"testing"
	"unsafe"
)

func cpuTime() int64 {
	var ts syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 3, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

type labEnt struct {
	name string
	fl   float64
	run  func()
	r    []float64
}

func (e *labEnt) slice() {
	n := int(4e6/e.fl) + 1
	t := cpuTime()
	for range n {
		e.run()
	}
	e.r = append(e.r, e.fl*float64(n)/float64(cpuTime()-t))
}

func randomGEMM[T Float](m, n, k int, ta, tb bool) *GEMM[T] {
	g := &GEMM[T]{M: m, N: n, K: k, A: make([]T, m*k), B: make([]T, k*n), C: make([]T, m*n), LDC: n, TransA: ta, TransB: tb, LDA: k, LDB: n}
	if ta {
		g.LDA = m
	}
	if tb {
		g.LDB = k
	}
	return g
}

func lab[T Float](name string, m, n, k int, ta, tb bool) *labEnt {
	var z T
	g := randomGEMM[T](m, n, k, ta, tb)
	s := make([]byte, GEMMScratch(m, n, k, int(unsafe.Sizeof(z))))
	chunks := GEMMChunks(m, n, k)
	return &labEnt{name, 2 * float64(m) * float64(n) * float64(k), func() {
		for c := range chunks {
			g.Chunk(s, c)
		}
	}, nil}
}

func TestLab(t *testing.T) {
	if os.Getenv("LAB") == "" {
		t.Skip()
	}
	runtime.LockOSThread()
	var es []*labEnt
	for _, s := range []struct {
		name    string
		m, n, k int
		ta, tb  bool
	}{
		{"NN512", 512, 512, 512, false, false},
		{"NT512", 512, 512, 512, false, true},
		{"TN512", 512, 512, 512, true, false},
		{"TT512", 512, 512, 512, true, true},
		{"NN1024", 1024, 1024, 1024, false, false},
		{"NN128x512x784", 128, 512, 784, false, false},
		{"NT128x512x784", 128, 512, 784, false, true},
		{"TN128x512x784", 128, 512, 784, true, false},
		{"NN128x10x512", 128, 10, 512, false, false},
		{"NN256x64x256", 256, 64, 256, false, false},
		{"NT256x256x64", 256, 256, 64, false, true},
		{"NN1x512x512", 1, 512, 512, false, false},
		{"NT1x512x512", 1, 512, 512, false, true},
		{"TN512x512x1", 512, 512, 1, true, false},
		{"NN512x1x512", 512, 1, 512, false, false},
		{"NN64x64x64", 64, 64, 64, false, false},
		{"NN16x16x16", 16, 16, 16, false, false},
	} {
		es = append(es, lab[float32]("f32/"+s.name, s.m, s.n, s.k, s.ta, s.tb), lab[float64]("f64/"+s.name, s.m, s.n, s.k, s.ta, s.tb))
	}
	for range 20 {
		for _, e := range es {
			e.slice()
		}
	}
	for _, e := range es {
		sort.Float64s(e.r)
		fmt.Printf("%-24s max %6.2f p90 %6.2f med %6.2f\n", e.name, e.r[19], e.r[18], e.r[10])
	}
}
