//go:build amd64 && !purego

package kernel

import "math"

// Attention in float32 with AVX2. A panel of pairs has a row for each key of the tile and a column for each of sixteen
// queries, so that
//
//   - the largest score of a query, and sums over keys, go down a column: nothing is added up across a vector;
//   - a panel of weights is the left operand of p v and ds k as it lies, and transposed in blocks of eight that of p^T g
//     and ds^T q.
//
// What is packed of queries and keys is packed once a tile. Of a panel that causality cuts, the rows behind the last query's
// are neither computed nor multiplied. Scores are in units of ln 2, for which the queries are multiplied beforehand, and all
// else is float32 as well. Every element is one sum in one order, whichever function makes it.

// attentionPanels is a call on a lane's scratch.
type attentionPanels struct {
	*Attention[float32]
	qt, gt, kp, vp, tail, qp, gp, out, pairs, grads, tileP, tileD, dk, dv []float32

	k, v             block[float32] // the tile's keys and values
	ld               int            // of the tiles of pairs
	finiteK, finiteV bool
	finiteQ, finiteG bool
}

// panelsOf is a as a call with panels, or nil.
func panelsOf[T Float](a *Attention[T]) *Attention[float32] {
	if !useAVX2 || !a.paneled() {
		return nil
	}
	f, _ := any(a).(*Attention[float32])
	return f
}

func (l *attentionPanels) cut(a *Attention[float32], scratch []byte, r attentionRoom) {
	l.Attention, l.ld = a, wholePanels(attentionStep(a.Keys))
	parts := r.parts()
	for i, x := range [13]*[]float32{
		&l.qt, &l.gt, &l.kp, &l.vp, &l.tail, &l.qp, &l.gp, &l.out, &l.pairs, &l.grads, &l.tileP, &l.tileD, &l.dk,
	} {
		*x = carve[float32](&scratch, parts[i])
	}
	l.dk, l.dv = l.dk[:r.dk], l.dk[r.dk:]
}

func forwardFast[T Float](x *Attention[T], scratch []byte, c int) bool {
	a := panelsOf(x)
	if a == nil {
		return false
	}
	var l attentionPanels
	l.cut(a, scratch, a.panelsForward())
	t := a.rowTile(c)
	l.forward(&t)
	return true
}

// forward computes the rows of Out and LSE of one tile of queries.
func (l *attentionPanels) forward(t *attentionPart) {
	var top, sum [2 * attentionMost]float32
	for r := range top {
		top[r] = float32(math.Inf(-1))
	}
	width := wholePanels(l.ValueDim)
	clear(l.out[:t.rows*width])
	for r := 0; r < t.rows; r += panelCols {
		l.transposeQueries(l.qt[r*l.Dim:], &l.Q, t, r, l.Dim, l.Scale*math.Log2E)
	}
	step := attentionStep(l.Keys)
	for t.j = 0; t.j < l.Keys; t.j += step {
		t.cols = min(step, l.Keys-t.j)
		if t.cover = l.cover(t); t.cover == coverNone {
			continue
		}
		l.k, l.v = l.keysOf(t.b, t.j, l.group(t))
		l.finiteV = packPanels(l.vp, l.v.data, l.v.rs, t.cols, l.ValueDim, 1)
		for r := 0; r < t.rows; r += panelCols {
			if u, ok := l.panel(t, r); ok {
				l.forwardPanel(&u, l.qt[r*l.Dim:], l.out[r*width:], (*[panelCols]float32)(top[r:]), (*[panelCols]float32)(sum[r:]))
			}
		}
	}
	l.finish(t, top[:t.rows], sum[:t.rows])
}

// transposeQueries makes a panel of up to sixteen queries, from number r of the tile on, of n elements each. Where there are
// less, the last one stands in.
func (l *attentionPanels) transposeQueries(dst []float32, x *Rank4[float32], t *attentionPart, r, n int, factor float64) {
	rows := min(panelCols, t.rows-r)
	b := x.at(t.b, t.i+r, t.h, n)
	transposePanel(dst, panelCols, b.data, b.rs, min(8, rows), n, float32(factor))
	last := min(8, rows-1)
	transposePanel(dst[8:], panelCols, b.data[last*b.rs:], b.rs, rows-last, n, float32(factor))
}

// panel is the sixteen queries of t from number r on, and the keys that at least one of them sees, if there are any.
func (l *attentionPanels) panel(t *attentionPart, r int) (u attentionPart, ok bool) {
	u = *t
	u.i, u.rows = t.i+r, min(panelCols, t.rows-r)
	if l.Causal {
		u.cols = l.causalCols(&u, u.rows-1)
	}
	if l.Mask.Data == nil && l.Bias.Data == nil && (!l.Causal || u.cols > 0 && l.causalCols(&u, 0) == u.cols) {
		u.cover = coverAll
	}
	return u, u.cols > 0
}

// forwardPanel adds a panel of pairs to what its queries have summed.
func (l *attentionPanels) forwardPanel(u *attentionPart, qt, out []float32, top, sum *[panelCols]float32) {
	l.scores(u, qt)
	var factor [panelCols]float32
	width := wholePanels(l.ValueDim)
	if attentionSoftmax(u.cols, &l.pairs[0], &top[0], &sum[0], &factor[0]) != 0 {
		attentionScaleRows(u.rows, &out[0], width, &factor[0])
	}
	if l.Drop > 0 {
		l.dropPanel(l.pairs, u)
	}
	if u.cover == coverSome && !l.finiteV {
		l.combinePairs(u, block[float32]{out, width, 1}, block[float32]{l.pairs, 1, panelCols}, false, l.v, l.ValueDim, 1)
		return
	}
	for j := 0; j < width; j += panelCols {
		multiplyPanel(u.cols, l.pairs, panelCols, l.vp[j*l.tileCols(u):], out[j:], width, u.rows, true)
	}
}

// tileCols is how many keys the tile has that u is a part of: rows of a packed panel.
func (l *attentionPanels) tileCols(u *attentionPart) int {
	return min(attentionStep(l.Keys), l.Keys-u.j)
}

// scores fills pairs with what softmax is taken of; what is hidden is -Inf.
func (l *attentionPanels) scores(u *attentionPart, qt []float32) {
	l.multiplyKeys(l.pairs, &l.k, l.Dim, qt, u)
	if u.cover == coverAll && l.Bias.Data == nil {
		return
	}
	if l.Bias.Data != nil {
		l.biasPanel(u)
	}
	if l.Mask.Data != nil {
		l.maskPanel(u)
	}
	for r := range u.rows {
		for k := l.causalCols(u, r); k < u.cols; k++ {
			l.pairs[k*panelCols+r] = float32(math.Inf(-1))
		}
	}
}

// multiplyKeys computes a panel of pairs [keys 16] from rows of n elements of keys or values and a panel of queries.
func (l *attentionPanels) multiplyKeys(dst []float32, keys *block[float32], n int, queries []float32, u *attentionPart) {
	if raceEnabled {
		touchRows(keys.data, u.cols, keys.rs, n)
	}
	if six, four := panelGroups(u.cols); 6*six+4*four <= l.tileCols(u) {
		panelRowProduct(n, &keys.data[0], keys.rs, &queries[0], &dst[0], panelCols, six, four, nil, false)
		return
	}
	rows := leftRows{keys.data, keys.rs, u.cols, l.tail}
	rows.multiply(0, n, rightRows{data: queries}, dst, panelCols, nil, false)
}

// biasPanel adds the additive mask to a panel of scores. -Inf hides, whatever the score.
func (l *attentionPanels) biasPanel(u *attentionPart) {
	s := &l.Bias.Strides
	for r := range u.rows {
		row := l.Bias.Data[u.b*s[0]+u.h*s[1]+(u.i+r)*s[2]+u.j*s[3]:]
		for k := range u.cols {
			p := &l.pairs[k*panelCols+r]
			if v := row[k*s[3]]; hides(v) {
				*p = v
			} else {
				*p += v * math.Log2E
			}
		}
	}
}

// maskPanel hides scores.
func (l *attentionPanels) maskPanel(u *attentionPart) {
	s := &l.Mask.Strides
	for r := range u.rows {
		row := l.Mask.Data[u.b*s[0]+u.h*s[1]+(u.i+r)*s[2]+u.j*s[3]:]
		for k := range u.cols {
			if !row[k*s[3]] {
				l.pairs[k*panelCols+r] = float32(math.Inf(-1))
			}
		}
	}
}

// dropPanel multiplies a panel by dropout's mask.
func (l *attentionPanels) dropPanel(x []float32, u *attentionPart) {
	var room [attentionMost]uint32
	words := room[:u.cols]
	threshold, factor := uint64(l.Drop*(1<<32)), l.dropFactors()
	for r := range u.rows {
		l.dropWords(words, u, r)
		for k, w := range words {
			x[k*panelCols+r] *= factor[(uint64(w)-threshold)>>63]
		}
	}
}

// finish divides the rows of a tile by their sums, and stores them and the log-sum-exp.
func (l *attentionPanels) finish(t *attentionPart, top, sum []float32) {
	for r, s := range sum {
		lse, inverse := float64(top[r])*math.Ln2+math.Log(float64(s)), 1/s
		if s == 0 { // nothing seen
			lse, inverse = math.Inf(-1), 1
		}
		if sum[r] = inverse; l.LSE != nil {
			l.LSE[l.row(t, r)] = float32(lse)
		}
	}
	width := wholePanels(l.ValueDim)
	attentionScaleRows(t.rows, &l.out[0], width, &sum[0])
	l.put(l.outputs(l.Out, t), l.out, t.rows, l.ValueDim, 1, false)
}

// put sets dst[rows n] to factor times x, whose rows are whole panels, or adds it.
func (l *attentionPanels) put(dst block[float32], x []float32, rows, n int, factor float32, add bool) {
	if raceEnabled {
		for r := range rows {
			row := dst.row(r, n)
			first, last := row[0], row[n-1]
			row[0], row[n-1] = first, last
		}
	}
	attentionPut(rows, &dst.data[0], dst.rs, &x[0], wholePanels(n), n, factor, avxMask(n%8), add)
}
