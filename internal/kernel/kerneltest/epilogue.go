package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/internal/kernel"
)

// Epilogues runs products with each epilogue, in every way that there is to compute them, and demands the bits of a product
// and then a pass over all of C. NaN and infinities are among the sums.
func Epilogues(t *testing.T) {
	t.Run("float32", epilogues[float32])
	t.Run("float64", epilogues[float64])
	t.Run("halves", mixedEpilogues)
}

var allEpilogues = []kernel.Epilogue{
	kernel.EpilogueAdd, kernel.EpilogueReLU, kernel.EpilogueGELU, kernel.EpilogueGELUTanh, kernel.EpilogueSiLU, kernel.EpilogueSwiGLU,
}

// epilogueShapes go every way: tiles and their edges, a row, a column, K = 0, several blocks of K, several chunks, stages.
var epilogueShapes = [][3]int{
	{1, 1, 1}, {5, 7, 3}, {6, 16, 8}, {1, 300, 40}, {300, 1, 40}, {4, 5, 0}, {33, 31, 517}, {128, 10, 512}, {70, 300, 40},
	{131, 129, 300}, {97, 1033, 45},
}

func epilogues[T kernel.Float](t *testing.T) {
	for i, s := range epilogueShapes {
		for j, e := range allEpilogues {
			n := i + j
			c := gemmCase{m: s[0], n: s[1], k: s[2], pad: n % 3, transA: n&1 != 0, transB: n&2 != 0, add: n%5 == 0, bias: n%4 < 2}
			checkEpilogue[T](t, c, e)
		}
	}
}

// checkEpilogue compares the product with epilogue e, computed in every way, with a pass over the one without.
func checkEpilogue[T kernel.Float](t *testing.T, c gemmCase, e kernel.Epilogue) {
	want := newEpilogue[T](c, e)
	want.g.Epilogue = kernel.EpilogueNone
	want.inScratch(t, want.g.Whole)
	pass(e, want.g.C, want.g.LDC, want.g.With, want.g.LDW, c.m, c.n)
	check := func(way string, compute func(p *product[T])) {
		got := newEpilogue[T](c, e)
		compute(got)
		requireSameValues(t, want.g.C, got.g.C, "%s, epilogue %d, %v", way, e, c)
	}
	check("whole", func(p *product[T]) { p.inScratch(t, p.g.Whole) })
	check("chunks", func(p *product[T]) { p.onLanes(t, kernel.GEMMChunks(c.m, c.n, c.k), 2) })
	if s := kernel.GEMMStaging(c.m, c.n, c.k); s.Stages() > 0 {
		check("stages", func(p *product[T]) { p.inStages(t, false, 2) })
	}
}

// newEpilogue is a product with an epilogue, of whose sums some are not finite.
func newEpilogue[T kernel.Float](c gemmCase, e kernel.Epilogue) *product[T] {
	p := newProduct[T](c)
	p.spoil()
	p.g.Epilogue = e
	p.g.With, p.g.LDW = matrix[T](rand.New(rand.NewPCG(9, uint64(e))), c.m, c.n, (c.pad+int(e))%3, false)
	p.g.With[0] = T(math.Inf(-1))
	return p
}

// spoil makes some sums NaN or infinite.
func (p *product[T]) spoil() {
	if p.k > 0 {
		*p.a(p.m-1, p.k-1) = T(math.NaN())
		*p.a(p.m/2, 0) = T(math.Inf(1))
	}
}

// pass is the op after a product as it runs on a tensor by itself, rows ld apart.
func pass[T kernel.Float](e kernel.Epilogue, c []T, ldc int, with []T, ldw, m, n int) {
	y := kernel.Strided[T]{Data: c, Shape: []int{m, n}, Strides: []int{ldc, 1}}
	w := kernel.Strided[T]{Data: with, Shape: []int{m, n}, Strides: []int{ldw, 1}}
	switch e {
	case kernel.EpilogueAdd:
		kernel.Add(y, y, w, 0, m*n)
	case kernel.EpilogueSiLU:
		kernel.Map(kernel.UnarySiLU, 0, y, y, 0, m*n)
	case kernel.EpilogueSwiGLU:
		kernel.SwiGLU(y, w, y, 0, m*n)
	default:
		flat := make([]T, m*n)
		for i := range m {
			copy(flat[i*n:], c[i*ldc:][:n])
		}
		switch e {
		case kernel.EpilogueReLU:
			kernel.ReLU(flat, flat, make([]uint8, kernel.MaskBytes(m*n)))
		case kernel.EpilogueGELU:
			kernel.GELU(flat, flat)
		case kernel.EpilogueGELUTanh:
			kernel.GELUTanh(flat, flat)
		}
		for i := range m {
			copy(c[i*ldc:][:n], flat[i*n:])
		}
	}
}

// requireSameValues demands the same bits; one NaN is as good as another.
func requireSameValues[T kernel.Float](t *testing.T, want, got []T, format string, args ...any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		if v := got[i]; w != v && (w == w || v == v) || w == 0 && math.Signbit(float64(w)) != math.Signbit(float64(v)) {
			require.Failf(t, "wrong value", "C[%d] is %v, want %v: "+format, append([]any{i, v, w}, args...)...)
		}
	}
}

// mixedEpilogues does the same for operands of a half type, whose C is rounded between product and pass.
func mixedEpilogues(t *testing.T) {
	n := 0
	for _, s := range epilogueShapes {
		for _, operands := range []int{3, 4, 7} { // C in float32; A and B rounded or not, C of a half type; all of it
			for _, half := range []kernel.Half{kernel.F16, kernel.BF16} {
				n++
				c := gemmCase{m: s[0], n: s[1], k: s[2], pad: n % 3, transA: n&1 != 0, transB: n&2 != 0, add: n%5 == 0, bias: n%2 == 0}
				m := newMixed(c, operands, half)
				plain := m.fresh()
				plain.compute(t, false)
				for _, e := range allEpilogues {
					m.checkEpilogue(t, e, plain.values(), operands)
				}
			}
		}
	}
}

// checkEpilogue compares the product with epilogue e with a pass over want, the product without, in float32 and rounded.
func (m *mixed) checkEpilogue(t *testing.T, e kernel.Epilogue, want []float32, operands int) {
	half := m.g.C.Half
	with, ld := matrix[float32](rand.New(rand.NewPCG(9, uint64(e))), m.g.M, m.g.N, int(e)%3, false)
	with[0] = float32(math.Inf(-1))
	w := kernel.Mixed{Float: with, LD: ld, Half: half}
	if operands%2 == 0 {
		bits := make([]uint16, len(with))
		half.Round(bits, with)
		half.Widen(with, bits)
		w = kernel.Mixed{Bits: bits, LD: ld, Half: half}
	}
	pass(e, want, m.g.C.LD, with, ld, m.g.M, m.g.N)
	if m.g.C.Bits != nil {
		roundTo(half, want)
	}
	for _, staged := range []bool{false, true} {
		if s := m.g.Staging(); staged && s.Stages() == 0 {
			continue
		}
		got := m.fresh()
		got.g.Epilogue, got.g.With = e, w
		got.compute(t, staged)
		requireSameValues(t, want, got.values(), "epilogue %d, staged %t, %v, operands %d", e, staged, m.wide, operands)
	}
}

// fresh is m with a C of its own.
func (m *mixed) fresh() *mixed {
	f := *m
	f.g.C.Bits = append([]uint16(nil), m.g.C.Bits...)
	f.g.C.Float = append([]float32(nil), m.g.C.Float...)
	return &f
}

// compute computes C, all in chunks or all in stages.
func (m *mixed) compute(t *testing.T, staged bool) {
	g := &m.g
	if !staged {
		s, whole := newScratch(kernel.MixedGEMMScratch(g.M, g.N, g.K))
		for i := range kernel.MixedGEMMChunks(g.M, g.N, g.K) {
			g.Chunk(s, i)
		}
		m.wide.requireUntouched(t, whole[len(s):])
		return
	}
	stages := g.Staging()
	shared, _ := newScratch(stages.Shared(4))
	s, _ := newScratch(kernel.MixedGEMMStageScratch(g.M, g.N, g.K))
	for i := range stages.Stages() {
		for c := range stages.Chunks(i) {
			g.Stage(shared, s, i, c)
		}
	}
}

// values is C as float32.
func (m *mixed) values() []float32 {
	if m.g.C.Bits == nil {
		return append([]float32(nil), m.g.C.Float...)
	}
	v := make([]float32, len(m.g.C.Bits))
	m.g.C.Half.Widen(v, m.g.C.Bits)
	return v
}
