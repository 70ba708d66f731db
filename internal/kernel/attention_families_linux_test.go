package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// All families agree on random calls, and nothing outside of the operands is read or written: they end, and then begin,
// where memory does.
func TestAttentionFamilies(t *testing.T) {
	f := newFencedAttention(t)
	for seed := range uint64(300) {
		f.compare(t, seed)
	}
}

func FuzzAttentionFamilies(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { newFencedAttention(t).compare(t, seed) })
}

// fencedAttention is memory for each operand: q, k, v, out, its gradient, log-sum-exp, delta and three gradients.
type fencedAttention [10][]float32

func newFencedAttention(t *testing.T) *fencedAttention {
	f := new(fencedAttention)
	for i := range f {
		f[i] = fenced(t, 1<<17)
	}
	return f
}

// anyAttention is a random call's plan and how far apart steps are.
func anyAttention(r *rand.Rand) (p kernel.AttentionPlan, gap int) {
	size := func() int { return 1 + r.IntN([]int{5, 18, 70, 150}[r.IntN(4)]) }
	p = kernel.AttentionPlan{Batch: 1 + r.IntN(2), Queries: size(), Keys: size(), Groups: 1 + r.IntN(2), Dim: 1 + r.IntN(40), ValueDim: 1 + r.IntN(40)}
	p.Heads = p.Groups * (1 + r.IntN(2))
	p.Scale, p.Causal = 0.5-r.Float64(), r.IntN(2) > 0
	if p.Causal {
		p.Shift = []int{0, p.Keys - p.Queries, r.IntN(40) - 20}[r.IntN(3)]
	}
	if r.IntN(4) == 0 {
		p.Drop = 0.2
	}
	return p, r.IntN(2) * r.IntN(9)
}

func (f *fencedAttention) compare(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 5))
	p, gap := anyAttention(r)
	mask := make([]bool, p.Queries*p.Keys)
	for i := range mask {
		mask[i] = r.IntN(8) > 0
	}
	masked := r.IntN(3) == 0
	for _, atEnd := range []bool{true, false} {
		var want *kernel.Attention[float32]
		for _, family := range kernel.Families() {
			kernel.UseFamily(t, family)
			a := f.call(p, gap, atEnd, seed)
			if masked {
				a.Mask = kernel.Rank4[bool]{Data: mask, Strides: [4]int{0, 0, p.Keys, 1}}
			}
			attend(a)
			if want == nil {
				want = unfenced(a)
				continue
			}
			what := fmt.Sprintf("seed %d: %+v mask %t", seed, p, masked)
			limit := 0x1p-24 * (60 + 16*math.Sqrt(float64(p.Queries*p.Heads+p.Keys+p.Dim)))
			nearFloats(t, want.Out, a.Out, limit, "out", what)
			nearFloats(t, want.LSE, a.LSE, limit, "lse", what)
			nearFloats(t, want.DQ.Data, a.DQ.Data, limit, "dq", what)
			nearFloats(t, want.DK.Data, a.DK.Data, limit, "dk", what)
			nearFloats(t, want.DV.Data, a.DV.Data, limit, "dv", what)
		}
	}
}

// call is a call with operands at one end of their memory.
func (f *fencedAttention) call(p kernel.AttentionPlan, gap int, atEnd bool, seed uint64) *kernel.Attention[float32] {
	r, next := rand.New(rand.NewPCG(seed, 6)), 0
	take := func(n int) []float32 {
		x := f[next]
		next++
		if atEnd {
			x = x[len(x)-n:]
		}
		x = x[:n:n]
		for i := range x {
			x[i] = 2*r.Float32() - 1
		}
		return x
	}
	rows := func(t, h, d int) kernel.Rank4[float32] {
		row := h*d + gap
		return kernel.Rank4[float32]{Data: take((p.Batch*t-1)*row + h*d), Strides: [4]int{t * row, row, d, 1}}
	}
	a := &kernel.Attention[float32]{AttentionPlan: p, Words: kernel.Words{Seed: 1, Stream: 2}}
	a.Q, a.K, a.V = rows(p.Queries, p.Heads, p.Dim), rows(p.Keys, p.Groups, p.Dim), rows(p.Keys, p.Groups, p.ValueDim)
	out := p.Batch * p.Queries * p.Heads
	a.Out, a.Grad, a.LSE, a.Delta = take(out*p.ValueDim), take(out*p.ValueDim), take(out), take(out)
	a.DQ.Rank4, a.DK.Rank4, a.DV.Rank4 = rows(p.Queries, p.Heads, p.Dim), rows(p.Keys, p.Groups, p.Dim), rows(p.Keys, p.Groups, p.ValueDim)
	a.DQ.Add, a.DK.Add = true, true
	return a
}

// unfenced keeps results of a, whose memory will be used again.
func unfenced(a *kernel.Attention[float32]) *kernel.Attention[float32] {
	b := *a
	for _, x := range []*[]float32{&b.Out, &b.LSE, &b.DQ.Data, &b.DK.Data, &b.DV.Data} {
		*x = append([]float32(nil), *x...)
	}
	return &b
}

// attend runs forward and backward.
func attend(a *kernel.Attention[float32]) {
	scratch := make([]byte, max(a.Scratch(4), a.BackwardScratch(4)))
	for c := range a.RowChunks() {
		a.Forward(scratch, c)
	}
	for c := range a.DeltaChunks() {
		a.Deltas(c)
	}
	for c := range a.HeadChunks() {
		a.BackwardHeads(scratch, c)
	}
}

// nearFloats demands that the difference is at most limit of the size.
func nearFloats(t *testing.T, want, got []float32, limit float64, what ...any) {
	t.Helper()
	for i, w := range want {
		d := math.Abs(float64(got[i]) - float64(w))
		if w != got[i] && !(d <= limit*(1+math.Abs(float64(w)))) { // NaN is far too
			require.Failf(t, "families differ", "%v: element %d: want %v, got %v", what, i, w, got[i])
		}
	}
}
