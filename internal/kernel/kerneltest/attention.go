package kerneltest

import (
	"fmt"
	"math"
	"math/bits"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/philox"
)

// AttentionKernels are the functions of one implementation.
type AttentionKernels[T kernel.Float] struct {
	Forward, Rows, Columns, Heads, Bias func(a *kernel.Attention[T], scratch []byte, c int)
	Deltas                              func(a *kernel.Attention[T], c int)
}

// attentionCase is a call with its operands in float64, contiguous, for the reference.
type attentionCase struct {
	kernel.AttentionPlan
	mask  string // "", "bool" or "add"
	shape [4]int // of the mask
	lay   func(sizes [4]int) ([4]int, int)

	q, k, v, g, m []float64
}

func (c *attentionCase) String() string {
	return fmt.Sprintf("%+v mask %s %v", c.AttentionPlan, c.mask, c.shape)
}

var attentionWords = kernel.Words{Seed: 3, Stream: 5, Offset: 1<<34 - 7}

// attentionCases are all combinations of causality, masks, grouped queries and dropout, each for several sizes around tiles.
func attentionCases() (cases []*attentionCase) {
	sizes := [][2]int{{1, 1}, {3, 5}, {64, 64}, {65, 130}, {130, 81}, {1, 70}, {70, 1}}
	n := 0
	for k, size := range sizes {
		for _, causal := range []string{"no", "top left", "bottom right"} {
			for _, mask := range []string{"", "bool", "add"} {
				for _, groups := range []int{1, 2} {
					for _, drop := range []float64{0, 0.3} {
						if n++; k >= 3 && (bits.OnesCount(uint(n%36))+k)%2 == 0 { // every combination in one of two large sizes
							continue
						}
						if testing.Short() && n%3 > 0 {
							continue
						}
						c := &attentionCase{mask: mask}
						c.AttentionPlan = kernel.AttentionPlan{
							Batch: 1 + n%2, Queries: size[0], Keys: size[1], Heads: 2 * (1 + n/2%2), Groups: groups,
							Dim: []int{1, 7, 16}[n%3], ValueDim: []int{5, 16, 1}[n/3%3],
							Scale: 0.4, Causal: causal != "no", Drop: drop,
						}
						if causal == "bottom right" {
							c.Shift = c.Keys - c.Queries
						}
						c.shape = [4]int{c.Batch, c.Heads, c.Queries, c.Keys}
						for d := range c.shape { // each way to repeat the mask comes up
							if n>>d&1 == 1 {
								c.shape[d] = 1
							}
						}
						c.lay = attentionLayouts[n%3]
						cases = append(cases, c)
					}
				}
			}
		}
	}
	return cases
}

// attentionLayouts are strides of [B T H D], and the room they take: contiguous, heads before time, a part of rows that
// have other things as well; and what attention does not take, columns apart, and the last dimension outermost.
var attentionLayouts = []func(n [4]int) ([4]int, int){
	func(n [4]int) ([4]int, int) {
		return [4]int{n[1] * n[2] * n[3], n[2] * n[3], n[3], 1}, n[0] * n[1] * n[2] * n[3]
	},
	func(n [4]int) ([4]int, int) {
		return [4]int{n[1] * n[2] * n[3], n[3], n[1] * n[3], 1}, n[0] * n[1] * n[2] * n[3]
	},
	func(n [4]int) ([4]int, int) {
		row := n[2]*n[3] + 9
		return [4]int{n[1] * row, row, n[3], 1}, n[0] * n[1] * row
	},
	func(n [4]int) ([4]int, int) {
		return [4]int{n[1] * n[2] * n[3] * 2, n[2] * n[3] * 2, n[3] * 2, 2}, n[0] * n[1] * n[2] * n[3] * 2
	},
	func(n [4]int) ([4]int, int) {
		return [4]int{n[1] * n[2], n[2], 1, n[0] * n[1] * n[2]}, n[0] * n[1] * n[2] * n[3]
	},
}

// fill draws the operands, rounded to T.
func fillAttention[T kernel.Float](c *attentionCase) {
	draw := func(seed uint64, n ...int) []float64 { return widened(Rand[T](kernel.Elems(n), seed)) }
	c.q = draw(1, c.Batch, c.Queries, c.Heads, c.Dim)
	c.k = draw(2, c.Batch, c.Keys, c.Groups, c.Dim)
	c.v = draw(3, c.Batch, c.Keys, c.Groups, c.ValueDim)
	c.g = draw(4, c.Batch, c.Queries, c.Heads, c.ValueDim)
	c.m = draw(5, c.shape[:]...)
	if c.mask == "add" {
		c.Additive, c.BiasShape = true, c.shape
	}
	for i, v := range c.m {
		if hidden := v < -0.5; c.mask == "bool" {
			c.m[i] = 1
			if hidden {
				c.m[i] = 0
			}
		} else if hidden {
			c.m[i] = math.Inf(-1)
		}
	}
	if n := c.shape[3]; c.mask != "" && c.shape[2] > 1 { // one row sees nothing
		for i := range n {
			if c.m[n+i] = 0; c.mask == "add" {
				c.m[n+i] = math.Inf(-1)
			}
		}
	}
}

func widened[T kernel.Float](x []T) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// rank4 lays x out.
func rank4[T kernel.Float](x []float64, sizes [4]int, lay func([4]int) ([4]int, int)) kernel.Rank4[T] {
	strides, n := lay(sizes)
	r := kernel.Rank4[T]{Data: filled(n, T(math.NaN())), Strides: strides}
	for i, v := range x {
		r.Data[offset4(i, sizes, strides)] = T(v)
	}
	return r
}

func offset4(i int, sizes, strides [4]int) (at int) {
	for d := 3; d >= 0; d-- {
		at += i % sizes[d] * strides[d]
		i /= sizes[d]
	}
	return at
}

// gather is rank4 undone.
func gather[T kernel.Float](x kernel.Rank4[T], sizes [4]int) []T {
	y := make([]T, kernel.Elems(sizes[:]))
	for i := range y {
		y[i] = x.Data[offset4(i, sizes, x.Strides)]
	}
	return y
}

func (c *attentionCase) qShape() [4]int { return [4]int{c.Batch, c.Queries, c.Heads, c.Dim} }
func (c *attentionCase) kShape() [4]int { return [4]int{c.Batch, c.Keys, c.Groups, c.Dim} }
func (c *attentionCase) vShape() [4]int { return [4]int{c.Batch, c.Keys, c.Groups, c.ValueDim} }

// call is the operands of forward.
func callAttention[T kernel.Float](c *attentionCase) *kernel.Attention[T] {
	a := &kernel.Attention[T]{AttentionPlan: c.AttentionPlan, Words: attentionWords}
	a.Q, a.K, a.V = rank4[T](c.q, c.qShape(), c.lay), rank4[T](c.k, c.kShape(), c.lay), rank4[T](c.v, c.vShape(), c.lay)
	if c.mask == "add" {
		a.Bias = kernel.Rank4[T]{Data: rank4[T](c.m, c.shape, attentionLayouts[0]).Data, Strides: c.maskStrides()}
	} else if c.mask == "bool" {
		a.Mask.Strides = c.maskStrides()
		for _, v := range c.m {
			a.Mask.Data = append(a.Mask.Data, v != 0)
		}
	}
	a.Out = dirty[T](c.Batch*c.Queries*c.Heads*c.ValueDim, false)
	a.LSE = dirty[T](c.Batch*c.Queries*c.Heads, false)
	return a
}

func (c *attentionCase) maskStrides() [4]int {
	s, _ := attentionLayouts[0](c.shape)
	for d, n := range c.shape {
		if n == 1 {
			s[d] = 0
		}
	}
	return s
}

// attentionWant is what the reference makes: everything is a full array.
type attentionWant struct{ out, lse, dq, dk, dv, dm []float64 }

// naive is the formula, pair by pair.
func (c *attentionCase) naive() (w attentionWant) {
	w.out, w.lse = make([]float64, len(c.g)), make([]float64, c.Batch*c.Queries*c.Heads)
	w.dq, w.dk, w.dv, w.dm = make([]float64, len(c.q)), make([]float64, len(c.k)), make([]float64, len(c.v)), make([]float64, len(c.m))
	words := make([]uint32, c.Batch*c.Heads*c.Queries*c.Keys)
	philox.Fill(words, attentionWords.Seed, attentionWords.Stream, attentionWords.Offset)
	for row := range w.lse {
		b, i, h := row/(c.Queries*c.Heads), row/c.Heads%c.Queries, row%c.Heads
		c.naiveRow(&w, row, b, i, h, words[((b*c.Heads+h)*c.Queries+i)*c.Keys:][:c.Keys])
	}
	return w
}

func (c *attentionCase) naiveRow(w *attentionWant, row, b, i, h int, words []uint32) {
	d, dv := c.Dim, c.ValueDim
	key := func(j int) int { return (b*c.Keys+j)*c.Groups + h/(c.Heads/c.Groups) }
	q, g, out := c.q[row*d:][:d], c.g[row*dv:][:dv], w.out[row*dv:][:dv]
	p, seen, top, sum := make([]float64, c.Keys), make([]bool, c.Keys), math.Inf(-1), 0.0
	for j := range p {
		m := c.m[offset4(((b*c.Heads+h)*c.Queries+i)*c.Keys+j, [4]int{c.Batch, c.Heads, c.Queries, c.Keys}, c.maskStrides())]
		seen[j] = (!c.Causal || j <= i+c.Shift) && (c.mask != "bool" || m != 0) && (c.mask != "add" || !math.IsInf(m, -1))
		if seen[j] {
			p[j] = dot64(q, c.k[key(j)*d:][:d]) * c.Scale
			if c.mask == "add" {
				p[j] += m
			}
			if top = math.Max(top, p[j]); math.IsNaN(p[j]) {
				top = p[j]
			}
		}
	}
	for j := range p {
		if seen[j] {
			p[j] = math.Exp(p[j] - top)
			sum += p[j]
		}
	}
	if w.lse[row] = math.Inf(-1); !math.IsInf(top, -1) {
		w.lse[row] = top + math.Log(sum)
	}
	keep := make([]float64, c.Keys)
	for j := range p {
		if p[j] /= sum; !seen[j] {
			continue
		}
		if keep[j] = 1 / (1 - c.Drop); float64(words[j]) < c.Drop*(1<<32) {
			keep[j] = 0
		}
		for e, v := range c.v[key(j)*dv:][:dv] {
			out[e] += p[j] * keep[j] * v
		}
	}
	delta := dot64(g, out)
	for j := range p {
		if !seen[j] {
			continue
		}
		for e := range g {
			w.dv[key(j)*dv+e] += p[j] * keep[j] * g[e]
		}
		ds := p[j] * (keep[j]*dot64(g, c.v[key(j)*dv:][:dv]) - delta)
		for e := range q {
			w.dq[row*d+e] += c.Scale * ds * c.k[key(j)*d+e]
			w.dk[key(j)*d+e] += c.Scale * ds * q[e]
		}
		w.dm[offset4(((b*c.Heads+h)*c.Queries+i)*c.Keys+j, [4]int{c.Batch, c.Heads, c.Queries, c.Keys}, c.maskStrides())] += ds
	}
}

func dot64(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

// attentionSlack is what sums of n products of order one lose in GEMM, in Eps.
func attentionSlack(n int) float64 { return 16 + 4*math.Sqrt(float64(n)) }

// Attention tests forward and all gradients on every combination of options.
func Attention[T kernel.Float](t *testing.T, k AttentionKernels[T]) {
	for _, c := range attentionCases() {
		fillAttention[T](c)
		want := c.naive()
		testAttentionForward(t, k, c, &want)
		testAttentionBackward(t, k, c, &want)
	}
}

// fresh is scratch full of NaN, and no byte too much of it: nothing is carried from one chunk to the next.
func fresh(n int64) []byte {
	s, _ := newScratch(n)
	return s
}

func testAttentionForward[T kernel.Float](t *testing.T, k AttentionKernels[T], c *attentionCase, want *attentionWant) {
	elem := int(unsafe.Sizeof(T(0)))
	var a *kernel.Attention[T]
	out := AnyOrder(t, c.RowChunks(), func() (func(int), func() []T) {
		a = callAttention[T](c)
		call := a
		return func(i int) { k.Forward(call, fresh(c.Scratch(elem)), i) }, func() []T { return call.Out }
	})
	Close(t, want.out, out, 16, attentionSlack(c.Keys), "out", c)
	Close(t, want.lse, a.LSE, 4, 16, "lse", c)
	again := callAttention[T](c)
	again.LSE = nil
	for i := range c.RowChunks() {
		k.Forward(again, fresh(c.Scratch(elem)), i)
	}
	SameBits(t, out, again.Out, "without lse", c)
}

// attentionGrads makes gradients of one case.
type attentionGrads[T kernel.Float] struct {
	*attentionCase
	t    *testing.T
	base *kernel.Attention[T]
	add  bool
}

// testAttentionBackward makes each gradient in every way that there is: the bits must be the same.
func testAttentionBackward[T kernel.Float](t *testing.T, k AttentionKernels[T], c *attentionCase, want *attentionWant) {
	base := callAttention[T](c)
	base.Grad, base.Delta = narrowed[T](c.g), dirty[T](len(base.LSE), false)
	copy(base.Out, narrowed[T](want.out))
	copy(base.LSE, narrowed[T](want.lse))
	for i := range c.DeltaChunks() {
		k.Deltas(base, i)
	}
	for _, add := range []bool{false, true} {
		if add == (c.Queries%2 == 0) && c.Queries > 5 { // one of them is enough
			continue
		}
		g := attentionGrads[T]{c, t, base, add}
		old := func(x []float64) []T { return dirty[T](len(x), add) }
		full := plus(want.dq, old(c.q), add)
		full = append(append(full[:len(full):len(full)], plus(want.dk, old(c.k), add)...), plus(want.dv, old(c.v), add)...)
		dq, columns := g.run(c.RowChunks(), k.Rows, "q"), g.run(c.ColumnChunks(), k.Columns, "kv")
		all := append(clone(dq), columns...)
		size := 4 * (attentionSlack(4*c.Keys) + attentionSlack(4*c.Queries))
		Close(t, full, all, 32, size, "gradients", c, add)
		SameBits(t, all, g.run(c.HeadChunks(), k.Heads, "qkv"), "heads", c, add)
		SameBits(t, columns[:len(c.k)], g.once(c.ColumnChunks(), k.Columns, "k"), "k alone", c, add)
		SameBits(t, columns[len(c.k):], g.once(c.ColumnChunks(), k.Columns, "v-"), "v alone", c, add)
		if c.mask == "add" {
			Close(t, plus(want.dm, old(c.m), add), g.run(c.BiasChunks(), k.Bias, "m"), 32, size, "mask", c, add)
		}
	}
}

// start gives a call that makes the gradients named, and the way to them, one after the other. A dash takes v away, which
// only the gradient of k reads.
func (g *attentionGrads[T]) start(wants string) (a *kernel.Attention[T], result func() []T) {
	call := *g.base
	a = &call
	want := func(dst *kernel.AttentionGrad[T], shape [4]int) {
		old := widened(dirty[T](kernel.Elems(shape[:]), g.add))
		*dst = kernel.AttentionGrad[T]{Rank4: rank4[T](old, shape, g.lay), Add: g.add}
		result = joined(result, func() []T { return gather(dst.Rank4, shape) })
	}
	for _, w := range wants {
		switch w {
		case 'q':
			want(&a.DQ, g.qShape())
		case 'k':
			want(&a.DK, g.kShape())
		case 'v':
			want(&a.DV, g.vShape())
		case '-':
			a.V = kernel.Rank4[T]{}
		case 'm':
			a.DBias = kernel.AttentionGrad[T]{Rank4: kernel.Rank4[T]{Data: dirty[T](len(g.m), g.add), Strides: g.maskStrides()}, Add: g.add}
			result = func() []T { return a.DBias.Data }
		}
	}
	return a, result
}

// run runs the chunks in any order, once in ascending order.
func (g *attentionGrads[T]) run(chunks int, f func(*kernel.Attention[T], []byte, int), wants string) []T {
	return AnyOrder(g.t, chunks, func() (func(int), func() []T) {
		a, result := g.start(wants)
		return func(i int) { f(a, fresh(g.BackwardScratch(int(unsafe.Sizeof(T(0))))), i) }, result
	})
}

func (g *attentionGrads[T]) once(chunks int, f func(*kernel.Attention[T], []byte, int), wants string) []T {
	a, result := g.start(wants)
	for i := range chunks {
		f(a, fresh(g.BackwardScratch(int(unsafe.Sizeof(T(0))))), i)
	}
	return result()
}

func joined[T any](a, b func() []T) func() []T {
	if a == nil {
		return b
	}
	return func() []T { return append(a(), b()...) }
}

func narrowed[T kernel.Float](x []float64) []T {
	y := make([]T, len(x))
	for i, v := range x {
		y[i] = T(v)
	}
	return y
}

// AttentionHidden tests that what pairs that take no part hold shows nowhere: NaN and Inf in q, k, v and the gradient
// where everything is hidden, and in pairs only some of which are.
func AttentionHidden[T kernel.Float](t *testing.T, k AttentionKernels[T]) {
	for _, mask := range []string{"bool", "add"} {
		for _, causal := range []bool{false, true} {
			c := &attentionCase{mask: mask, lay: attentionLayouts[0]}
			c.AttentionPlan = kernel.AttentionPlan{
				Batch: 1, Queries: 70, Keys: 70, Heads: 2, Groups: 1, Dim: 3, ValueDim: 4, Scale: 0.5, Causal: causal, Drop: 0.1,
			}
			c.shape = [4]int{1, 1, 70, 70}
			fillAttention[T](c)
			nan, inf := math.NaN(), math.Inf(1)
			hidden := 0.0
			if mask == "add" {
				hidden = math.Inf(-1)
			}
			for i := range 70 { // key 5 is hidden from all, query 1 sees nothing
				c.m[i*70+5] = hidden
			}
			c.k[5*3], c.k[5*3+1], c.v[5*4+2] = nan, inf, inf
			c.q[2*3], c.g[2*4] = nan, nan // query 1, head 0
			want := c.naive()
			require.False(t, math.IsNaN(dot64(want.out, want.out)+dot64(want.dq, want.dq)+dot64(want.dk, want.dk)+dot64(want.dv, want.dv)))
			testAttentionForward(t, k, c, &want)
			testAttentionBackward(t, k, c, &want)

			// What query 9 has reaches the keys that it sees, and no others; what key 60 has reaches the queries that see it.
			c.g[9*2*4], c.v[60*4], c.k[61*3], c.q[20*2*3] = nan, -inf, inf, nan
			want = c.naive()
			require.True(t, math.IsNaN(dot64(want.out, want.out)))
			testAttentionForward(t, k, c, &want)
			testAttentionBackward(t, k, c, &want)
		}
	}
}
