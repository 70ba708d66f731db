package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/internal/kernel"
)

// MixedGEMM runs products of which some operands are of a half type. The values are those of [kernel.GEMM] on widened
// operands, bit for bit, and of a C of a half type those, rounded; and within what GEMM promises of sums in float64.
func MixedGEMM(t *testing.T) {
	for _, s := range [][3]int{{1, 1, 1}, {5, 7, 3}, {1, 40, 300}, {40, 1, 300}, {6, 16, 8}, {33, 31, 517}, {100, 10, 64}, {200, 300, 40}, {97, 130, 260}, {4, 4, 0}} {
		eachMixed(s, 0, func(m *mixed, operands int) { m.check(t, operands) })
	}
	for i, s := range [][3]int{{100, 170, 300}, {390, 101, 128}, {97, 1030, 520}} {
		eachMixed(s, 2*(i+1), func(m *mixed, _ int) { m.checkStages(t) })
	}
}

// eachMixed goes through which operands are halves, and which half, starting from set first.
func eachMixed(s [3]int, first int, f func(m *mixed, operands int)) {
	for operands := first; operands < 8; operands++ {
		for _, half := range []kernel.Half{kernel.F16, kernel.BF16} {
			gemmCase{m: s[0], n: s[1], k: s[2], pad: s[0] % 3}.storages(func(c gemmCase) {
				f(newMixed(c, operands, half), operands)
			})
		}
	}
}

// mixed is a product, and the same one with operands widened.
type mixed struct {
	g    kernel.MixedGEMM
	wide *product[float32]
}

func newMixed(c gemmCase, operands int, half kernel.Half) *mixed {
	p := newProduct[float32](c)
	if p.k > 0 && p.m > 3 { // in one sum
		*p.a(3, p.k-1) = float32(math.Inf(1))
	}
	m := &mixed{wide: p, g: kernel.MixedGEMM{M: c.m, N: c.n, K: c.k, Add: c.add, Bias: kernel.Mixed{Float: p.g.Bias, Half: half}}}
	if bits := make([]uint16, len(p.g.Bias)); p.g.Bias != nil && operands%2 != 0 {
		half.Round(bits, p.g.Bias)
		half.Widen(p.g.Bias, bits)
		m.g.Bias = kernel.Mixed{Bits: bits, Half: half}
	}
	r := rand.New(rand.NewPCG(1, uint64(operands)))
	for i, x := range []struct {
		to    *kernel.Mixed
		from  []float32
		ld    int
		trans bool
	}{{&m.g.A, p.g.A, p.g.LDA, c.transA}, {&m.g.B, p.g.B, p.g.LDB, c.transB}, {&m.g.C, p.g.C, p.g.LDC, false}} {
		*x.to = kernel.Mixed{Float: x.from, LD: x.ld, Trans: x.trans, Half: half}
		if operands>>i&1 == 0 {
			if x.to.Round = i == 1 && operands > 0; x.to.Round { // float32 as they lie, rounded as they are read
				x.to.Float = append([]float32(nil), x.from...)
				roundTo(half, x.from)
			}
			continue
		}
		bits := make([]uint16, len(x.from), len(x.from)+1+r.IntN(4))
		half.Round(bits, x.from)
		half.Widen(x.from, bits)
		x.to.Float, x.to.Bits = nil, bits
	}
	if m.g.C.Bits == nil {
		m.g.C.Float = append([]float32(nil), p.g.C...)
	}
	p.old = append([]float32(nil), p.g.C...)
	return m
}

// roundTo rounds x to a half type, in float32.
func roundTo(half kernel.Half, x []float32) {
	bits := make([]uint16, len(x))
	half.Round(bits, x)
	half.Widen(x, bits)
}

// check computes both and compares; where all operands are halves, with float64 as well.
func (m *mixed) check(t *testing.T, operands int) {
	if operands == 7 {
		m.wide.check(t) // with float64
	} else {
		m.wide.inScratch(t, m.wide.g.Whole)
	}
	n := kernel.MixedGEMMScratch(m.g.M, m.g.N, m.g.K)
	for i := range kernel.MixedGEMMChunks(m.g.M, m.g.N, m.g.K) {
		s, whole := newScratch(n)
		m.g.Chunk(s, i)
		m.wide.requireUntouched(t, whole[len(s):])
	}
	m.compare(t)
}

// checkStages computes both, the one of halves in stages, chunks in descending order, and compares.
func (m *mixed) checkStages(t *testing.T) {
	g, stages := &m.g, m.g.Staging()
	require.NotZero(t, stages.Stages(), "%v", m.wide)
	m.wide.inScratch(t, m.wide.g.Whole)
	shared, whole := newScratch(stages.Shared(4))
	for i := range stages.Stages() {
		chunks := stages.Chunks(i)
		require.LessOrEqual(t, chunks, stages.MostChunks())
		for c := range chunks {
			s, lane := newScratch(kernel.MixedGEMMStageScratch(g.M, g.N, g.K))
			g.Stage(shared, s, i, chunks-1-c)
			m.wide.requireUntouched(t, lane[len(s):])
		}
	}
	m.wide.requireUntouched(t, whole[len(shared):])
	m.compare(t)
}

// compare is for C of both.
func (m *mixed) compare(t *testing.T) {
	want, got := m.wide.g.C, m.g.C.Float
	if m.g.C.Bits != nil {
		half := m.g.C.Half
		bits := make([]uint16, len(want))
		half.Round(bits, want)
		want, got = make([]float32, len(bits)), make([]float32, len(bits))
		half.Widen(want, bits)
		half.Widen(got, m.g.C.Bits)
	}
	for i, w := range want {
		if math.Float32bits(w) != math.Float32bits(got[i]) && (w == w || got[i] == got[i]) {
			require.Failf(t, "wrong value", "%v: C[%d] is %v, want %v", m.wide, i, got[i], w)
		}
	}
}
