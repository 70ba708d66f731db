package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// A convolution of halves gives what that of float32 gives on the same numbers, up to the order of sums and one rounding, in
// any geometry, chunks in any order, in exactly the scratch that it asks for.
func TestMixedConv(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 7))
			p := mixedGeometry(r)
			m := newMixedConvCase(&p, kernel.Half(seed%2), r)
			m.run()
			m.compare(t, fmt.Sprintf("seed %d: %+v", seed, p))
		}
	})
}

// mixedGeometry is one of small images, of large ones with many rows or channels, or depthwise.
func mixedGeometry(r *rand.Rand) kernel.Conv {
	for {
		p := kernel.Conv{N: 1 + r.IntN(3), Groups: 1 + r.IntN(2)}
		p.C, p.O = p.Groups*(1+r.IntN(30)), p.Groups*(1+r.IntN(30))
		if r.IntN(4) == 0 {
			p.Groups = p.C
			p.O = p.C * (1 + r.IntN(2))
		}
		fits := true
		for d := range p.In {
			p.In[d], p.Kernel[d] = 1+r.IntN(40), 1+r.IntN(4)
			p.Stride[d], p.Dilation[d] = max(1, r.IntN(4)), max(1, r.IntN(4)-1)
			p.Pad[d] = max(0, r.IntN(5)-2)
			room := p.In[d] + 2*p.Pad[d] - p.Dilation[d]*(p.Kernel[d]-1) - 1
			p.Out[d] = room/p.Stride[d] + 1
			fits = fits && room >= 0
		}
		if fits {
			return p
		}
	}
}

// mixedConvCase is x, w, b, g, dx and dw as float32 and as halves, then y of both.
type mixedConvCase struct {
	p    kernel.Conv
	half kernel.Half
	wide [7][]float32
	bits [7][]uint16
	add  bool
}

func newMixedConvCase(p *kernel.Conv, half kernel.Half, r *rand.Rand) *mixedConvCase {
	m := &mixedConvCase{p: *p, half: half, add: r.IntN(2) == 0}
	depth, out := p.C/p.Groups*p.Kernel[0]*p.Kernel[1], p.N*p.O*p.Out[0]*p.Out[1]
	image := p.N * p.C * p.In[0] * p.In[1]
	for i, n := range [7]int{image, p.O * depth, p.O, out, image, p.O * depth, out} {
		m.wide[i], m.bits[i] = make([]float32, n), make([]uint16, n)
		for k := range m.wide[i] {
			m.wide[i][k] = 2*r.Float32() - 1
		}
		half.Round(m.bits[i], m.wide[i])
		half.Widen(m.wide[i], m.bits[i])
	}
	return m
}

func (m *mixedConvCase) run() {
	p := &m.p
	op := [7][]float32{m.wide[0], m.wide[1], m.wide[2], m.wide[6], m.wide[3], m.wide[4], m.wide[5]}
	convolve(p, (*fencedConv)(&op), m.add)

	of := func(i int) kernel.Mixed { return kernel.Mixed{Bits: m.bits[i], Half: m.half} }
	g := kernel.MixedConv{
		Conv: *p, X: of(0), W: of(1), B: of(2), G: of(3), DX: of(4), DW: of(5), Y: of(6), AddX: m.add, AddW: m.add,
	}
	fwd, dx, dw := p.MixedForwardWork(), p.MixedInputWork(), p.MixedWeightWork()
	each := func(w kernel.ConvWork, f func(scratch []byte, c int)) {
		scratch := make([]byte, w.Scratch)
		for i := range scratch {
			scratch[i] = 0xff
		}
		for c := range w.Chunks {
			f(scratch, w.Chunks-1-c)
		}
	}
	each(fwd, g.Forward)
	each(dx, g.Input)
	shared := make([]float32, dw.Shared/4)
	each(dw, func(scratch []byte, c int) { g.Weight(shared, scratch, c) })
	for c := range p.MixedWeightFinishChunks() {
		g.WeightFinish(shared, c)
	}
}

func (m *mixedConvCase) compare(t *testing.T, what string) {
	eps := map[kernel.Half]float64{kernel.F16: 0x1p-11, kernel.BF16: 0x1p-8}[m.half]
	for i, name := range map[int]string{4: "dx", 5: "dw", 6: "y"} {
		got := make([]float32, len(m.bits[i]))
		m.half.Widen(got, m.bits[i])
		for k, w := range m.wide[i] {
			require.LessOrEqual(t, math.Abs(float64(w-got[k])), 2*eps*math.Abs(float64(w))+1e-4, "%s[%d], %v and %v: %s", name, k, w, got[k], what)
		}
	}
}
