// Scaled dot-product attention in tiles with an online softmax (Dao, Fu, Ermon, Rudra and Re, "FlashAttention", 2022):
//
//	s[i j] = scale q[i].k[j] + bias[i j]     p[i] = softmax over the j that take part     out[i] = sum over j of p[i j] m[i j] v[j]
//
// for each batch entry and head, where m is dropout's mask, 0 or 1/(1-p). Grouped queries: heads h of q share head
// h/(Heads/Groups) of k and v. No array of Queries x Keys exists anywhere: a tile of queries goes over the tiles of
// keys, carrying for each row the largest score so far, the sum of exponentials relative to it, and the row of out,
// which is scaled down whenever the largest score rises (Milakov and Gimelshein, 2018). What stays is out and the
// log-sum-exp of each row.
//
// A pair (i, j) takes part unless causality, the boolean mask (false) or the additive one (-Inf) hides it. A hidden pair
// contributes nothing to anything, whatever q, k, v and gradients hold there, NaN included: it is left out, not multiplied
// by 0. Tiles without a pair that takes part are skipped. A row without any is 0, and so are its gradients. (A row whose
// scores are all -Inf counts as one, as in torch.)
//
// In plain Go, products of tiles are GEMM's and hence sums of T; scores, softmax and its sums are float64. With AVX2, float32
// stays float32 throughout, and has products of its own: attention_panels_amd64.go.

package kernel

import (
	"math"
)

// AttentionPlan is the sizes and options of a call, with what follows from them: chunks and scratch.
type AttentionPlan struct {
	Batch, Queries, Keys int
	Heads, Groups        int // of q, and of k and v: Heads is a multiple
	Dim, ValueDim        int // of q and k, of v and out

	Scale  float64
	Causal bool // query i sees the keys up to i+Shift
	Shift  int
	Drop   float64 // probability with which a weight is dropped

	wordRow int // random words from one query to the next; 0: Keys

	Additive  bool   // there is an additive mask
	BiasShape [4]int // of it: each size is the pairs' or 1
}

// Attention is a call: its plan and its operands. Those that a function does not read may be missing.
type Attention[T Float] struct {
	AttentionPlan
	Q, K, V Rank4[T]    // [Batch Queries Heads Dim], [Batch Keys Groups Dim], [Batch Keys Groups ValueDim], as AttentionTakes
	Mask    Rank4[bool] // [Batch Heads Queries Keys], stride 0 where it repeats; true takes part. No data: no mask
	Bias    Rank4[T]    // the same for the additive mask
	Words   Words       // word ((b Heads + h) Queries + i) Keys + j decides about pair (i, j)

	Out []T // [Batch Queries Heads ValueDim]
	LSE []T // [Batch Queries Heads], -Inf for a row that sees nothing; forward may do without

	tiles *keySource // forward's keys and values, instead of K and V

	// Backward only.
	Grad       []T // of Out
	Delta      []T // as LSE: filled by Deltas, read by all others
	DQ, DK, DV AttentionGrad[T]
	DBias      AttentionGrad[T] // in the additive mask's own shape
}

// AttentionTakes says whether q, k, v and their gradients may have these strides: the elements of a head must lie side by
// side, and those of one step not among those of the next. Steps, heads and entries may be anywhere.
func AttentionTakes(shape, strides [4]int) bool {
	return (shape[3] <= 1 || strides[3] == 1) && (shape[1] <= 1 || strides[1] >= shape[3])
}

// AttentionGrad is where a gradient goes; no data: it is not wanted. Gradients that one function writes must not overlap
// each other.
type AttentionGrad[T Float] struct {
	Rank4[T]
	Add bool
}

// Wanted says whether there is a destination.
func (g *AttentionGrad[T]) Wanted() bool { return g.Data != nil }

// attentionTile is the usual size of a tile of queries or keys, and attentionMost the most that it has: sequences of a few
// more than 64 are not cut.
const (
	attentionTile = 64
	attentionMost = attentionTile + panelCols
)

// attentionStep is the size of the tiles of n queries or keys: nearly equal ones. With AVX2, queries go by sixteen.
func attentionStep(n int) int {
	if n <= attentionMost {
		return max(1, n)
	}
	return even(n, attentionTile, panelCols)
}

// rowStep is how many queries a chunk of RowChunks has: two tiles, if there are chunks enough, since keys are packed once a
// chunk.
func (p *AttentionPlan) rowStep() int {
	step := attentionStep(p.Queries)
	if p.Batch*p.Heads*ceilDiv(p.Queries, 2*step) >= gemmWantChunks {
		return min(2*step, max(1, p.Queries))
	}
	return step
}

func (p *AttentionPlan) rowTiles() int   { return ceilDiv(p.Queries, p.rowStep()) }
func (p *AttentionPlan) queryTiles() int { return ceilDiv(p.Queries, attentionStep(p.Queries)) }
func (p *AttentionPlan) keyTiles() int   { return ceilDiv(p.Keys, attentionStep(p.Keys)) }

// RowChunks is how many chunks Forward and BackwardRows work in: tiles of queries.
func (p *AttentionPlan) RowChunks() int { return p.Batch * p.Heads * p.rowTiles() }

// attentionPart is one tile of pairs: rows queries from i on and cols keys from j on, of one batch entry and head.
type attentionPart struct {
	b, h    int
	i, rows int
	j, cols int
	cover   cover
}

// rowTile is chunk c of RowChunks. The last queries come first: under causality they take longest.
func (p *AttentionPlan) rowTile(c int) (t attentionPart) {
	n, step := p.rowTiles(), p.rowStep()
	t.b, t.h = c/n/p.Heads, c/n%p.Heads
	t.i = (n - 1 - c%n) * step
	t.rows = min(step, p.Queries-t.i)
	return t
}

// group is the head of k and v that t's head shares.
func (p *AttentionPlan) group(t *attentionPart) int { return t.h / (p.Heads / p.Groups) }

// row is the number of row r of t in LSE and Delta.
func (p *AttentionPlan) row(t *attentionPart, r int) int { return (t.b*p.Queries+t.i+r)*p.Heads + t.h }

// Forward computes chunk c of RowChunks: the rows of Out and LSE of one or two tiles of queries. scratch holds
// Scratch bytes.
func (a *Attention[T]) Forward(scratch []byte, c int) {
	if forwardFast(a, scratch, c) {
		return
	}
	var l attentionLane[T]
	l.cut(&a.AttentionPlan, scratch, false)
	t, step := a.rowTile(c), attentionStep(a.Queries)
	for end := t.i + t.rows; t.i < end; t.i += step {
		one := t
		one.rows = min(step, end-t.i)
		a.forward(&l, &one)
	}
}

// forward computes the rows of Out and LSE of one tile of queries.
func (a *Attention[T]) forward(l *attentionLane[T], t *attentionPart) {
	q := a.Q.at(t.b, t.i, t.h, a.Dim)
	out := a.outputs(a.Out, t)
	for r := range t.rows {
		l.top[r], l.sum[r] = math.Inf(-1), 0
	}
	begun := false
	step := attentionStep(a.Keys)
	for ; t.j < a.Keys; t.j += step {
		t.cols = min(step, a.Keys-t.j)
		if t.cover = a.cover(t); t.cover == coverNone {
			continue
		}
		k, v := a.keysOf(t.b, t.j, a.group(t))
		l.multiply(block[T]{l.weights, t.cols, 1}, q, k.transposed(), t.rows, t.cols, a.Dim, false)
		for r := range t.rows {
			a.softmaxRow(l, t, r, out.row(r, a.ValueDim), begun)
		}
		a.combine(l, t, out, l.weights, false, v, a.ValueDim, begun)
		begun = true
	}
	for r := range t.rows {
		a.finishRow(l, t, r, out.row(r, a.ValueDim), begun)
	}
}

// softmaxRow turns row r of the products q.k into weights relative to the row's largest score so far, and scales what is
// summed already, out among it if it is begun, if that score rises.
func (a *Attention[T]) softmaxRow(l *attentionLane[T], t *attentionPart, r int, out []T, begun bool) {
	var room [attentionMost]float64
	x := l.row(l.weights, t, r)
	p := room[:a.scores(room[:], x, t, r, 0)]
	clear(x[len(p):])
	top := l.top[r]
	for _, s := range p {
		if s > top || s != s { // NaN stays: it is not less than anything
			top = s
		}
	}
	if math.IsInf(top, -1) {
		clear(x)
		return
	}
	if was := l.top[r]; top != was {
		scale := math.Exp(was - top)
		l.top[r] = top
		l.sum[r] *= scale
		if begun {
			Multiply(out, T(scale))
		}
	}
	for k := range p {
		p[k] -= top
	}
	exp[T](p)
	l.sum[r] += sumRow(p)
	x = x[:len(p)]
	for k, w := range p {
		x[k] = T(w)
	}
	if a.Drop > 0 {
		a.dropRow(x, t, r)
	}
}

// scores fills p with the scores of row r, less by so much, from the products q.k, and says how many there are: keys
// behind are hidden by causality. Others that are hidden become -Inf.
func (a *Attention[T]) scores(p []float64, x []T, t *attentionPart, r int, less float64) int {
	n := a.causalCols(t, r)
	p, x = p[:n], x[:n]
	scale := a.Scale
	for k, v := range x {
		p[k] = float64(v)*scale - less
	}
	if a.Mask.Data != nil {
		a.hide(p, t, r)
	}
	if a.Bias.Data != nil {
		a.addBias(p, t, r)
	}
	return n
}

// dropFactors is what dropout multiplies a weight by: kept, and dropped.
func (a *Attention[T]) dropFactors() [2]T {
	if a.Drop == 1 {
		return [2]T{}
	}
	return [2]T{T(1 / (1 - a.Drop)), 0}
}

// dropWords draws the words of the first pairs of row r.
func (a *Attention[T]) dropWords(dst []uint32, t *attentionPart, r int) {
	row := a.Keys
	if a.wordRow > 0 {
		row = a.wordRow
	}
	at := ((t.b*a.Heads+t.h)*a.Queries+t.i+r)*row + t.j
	a.Words.From(at).fill(dst)
}

// dropRow multiplies the weights of row r by dropout's mask.
func (a *Attention[T]) dropRow(x []T, t *attentionPart, r int) {
	var room [attentionMost]uint32
	words := room[:len(x)]
	a.dropWords(words, t, r)
	threshold, factor := uint64(a.Drop*(1<<32)), a.dropFactors()
	for k, w := range words {
		x[k] *= factor[(uint64(w)-threshold)>>63]
	}
}

// finishRow divides a row of out by its sum.
func (a *Attention[T]) finishRow(l *attentionLane[T], t *attentionPart, r int, out []T, begun bool) {
	top, lse := l.top[r], math.Inf(-1)
	if math.IsInf(top, -1) {
		if !begun {
			clear(out)
		}
	} else {
		inverse := 1 / l.sum[r]
		for k, v := range out {
			out[k] = T(float64(v) * inverse)
		}
		lse = top + math.Log(l.sum[r])
	}
	if a.LSE != nil {
		a.LSE[a.row(t, r)] = T(lse)
	}
}
