//go:build amd64 && !purego

package kernel

import "math"

func deltasFast[T Float](x *Attention[T], lo, hi int) bool {
	a := panelsOf(x)
	if a == nil {
		return false
	}
	n := a.ValueDim
	mask := avxMask(n % 8)
	for i := lo; i < hi; i++ {
		g, out := a.Grad[i*n:][:n], a.Out[i*n:][:n]
		a.Delta[i] = float32(attentionDot(&g[0], &out[0], n, mask))
	}
	return true
}

func rowsFast[T Float](x *Attention[T], scratch []byte, c int) bool {
	a := panelsOf(x)
	if a == nil {
		return false
	}
	var l attentionPanels
	l.cut(a, scratch, a.panelsRows())
	t := a.rowTile(c)
	l.rows(&t)
	return true
}

func columnsFast[T Float](x *Attention[T], scratch []byte, b, g, j int) bool {
	a := panelsOf(x)
	if a == nil {
		return false
	}
	var l attentionPanels
	l.cut(a, scratch, a.panelsColumns())
	l.columns(b, g, j, false)
	return true
}

func headsFast[T Float](x *Attention[T], scratch []byte, b, g int) bool {
	a := panelsOf(x)
	if a == nil {
		return false
	}
	var l attentionPanels
	l.cut(a, scratch, a.panelsColumns())
	for j := 0; j < a.Keys; j += attentionStep(a.Keys) {
		l.columns(b, g, j, true)
	}
	return true
}

// rows computes DQ of one tile of queries.
func (l *attentionPanels) rows(t *attentionPart) {
	if !l.DQ.Add {
		dq := l.DQ.at(t.b, t.i, t.h, l.Dim)
		dq.clear(t.rows, l.Dim)
	}
	for r := 0; r < t.rows; r += panelCols {
		l.queries(l.qt[r*l.Dim:], l.gt[r*l.ValueDim:], t, r)
	}
	step := attentionStep(l.Keys)
	for t.j = 0; t.j < l.Keys; t.j += step {
		t.cols = min(step, l.Keys-t.j)
		if t.cover = l.cover(t); t.cover == coverNone {
			continue
		}
		l.packKeys(t, true)
		for r := 0; r < t.rows; r += panelCols {
			if u, ok := l.panel(t, r); ok {
				l.pairsAndGrads(&u, l.qt[r*l.Dim:], l.gt[r*l.ValueDim:])
				l.addQueries(&u)
			}
		}
	}
}

// queries makes panels of up to sixteen queries, from number r of the tile on, and of their gradients if there is v.
func (l *attentionPanels) queries(qt, gt []float32, t *attentionPart, r int) {
	l.transposeQueries(qt, &l.Q, t, r, l.Dim, l.Scale*math.Log2E)
	if l.V.Data != nil {
		n := l.Heads * l.ValueDim
		g := Rank4[float32]{l.Grad, [4]int{l.Queries * n, n, l.ValueDim, 1}}
		l.transposeQueries(gt, &g, t, r, l.ValueDim, 1)
	}
}

// packKeys goes to a tile of keys and values, and packs the keys if they are to be a right operand.
func (l *attentionPanels) packKeys(t *attentionPart, panels bool) {
	if l.k, l.v = l.keysOf(t.b, t.j, l.group(t)); panels {
		l.finiteK = packPanels(l.kp, l.k.data, l.k.rs, t.cols, l.Dim, 1)
	}
}

// pairsAndGrads fills pairs with p m and, where there is v, grads with ds.
func (l *attentionPanels) pairsAndGrads(u *attentionPart, qt, gt []float32) {
	var lse, delta [panelCols]float32
	blind := false // a row sees nothing
	for r := range lse {
		lse[r] = float32(math.Inf(1)) // makes weights 0
		if r >= u.rows {
			continue
		}
		if at := l.row(u, r); math.IsInf(float64(l.LSE[at]), -1) {
			blind = true
		} else {
			lse[r] = float32(float64(l.LSE[at]) * math.Log2E)
		}
		if l.V.Data != nil {
			delta[r] = l.Delta[l.row(u, r)]
		}
	}
	l.scores(u, qt)
	spoiled := attentionWeights(u.cols, &l.pairs[0], &lse[0])
	if l.V.Data != nil {
		l.multiplyKeys(l.grads, &l.v, l.ValueDim, gt, u)
		if l.Drop > 0 {
			l.dropPanel(l.grads, u)
		}
		spoiled |= attentionGrads(u.cols, &l.grads[0], &l.pairs[0], &delta[0])
	}
	if spoiled != 0 && (blind || u.cover == coverSome) {
		l.clearPanel(u)
	}
	if l.Drop > 0 {
		l.dropPanel(l.pairs, u)
	}
}

// clearPanel makes 0 of what NaN made of hidden pairs, and of rows that see nothing.
func (l *attentionPanels) clearPanel(u *attentionPart) {
	for r := range u.rows {
		blind := math.IsInf(float64(l.LSE[l.row(u, r)]), -1)
		for k := range u.cols {
			if blind || !l.sees(u, r, k) {
				l.pairs[k*panelCols+r] = 0
				if l.V.Data != nil {
					l.grads[k*panelCols+r] = 0
				}
			}
		}
	}
}

// addQueries adds a panel's part to DQ.
func (l *attentionPanels) addQueries(u *attentionPart) {
	width := wholePanels(l.Dim)
	if u.cover == coverSome && !l.finiteK {
		clear(l.out)
		l.combinePairs(u, block[float32]{l.out, width, 1}, block[float32]{l.grads, 1, panelCols}, false, l.k, l.Dim, 1)
	} else {
		for j := 0; j < width; j += panelCols {
			multiplyPanel(u.cols, l.grads, panelCols, l.kp[j*l.tileCols(u):], l.out[j:], width, u.rows, false)
		}
	}
	l.put(l.DQ.at(u.b, u.i, u.h, l.Dim), l.out, u.rows, l.Dim, float32(l.Scale), true)
}

// columns computes DK and DV of the tile of keys from j on of head g, and adds to DQ if that is asked for.
func (l *attentionPanels) columns(b, g, j int, withQ bool) {
	heads := l.Heads / l.Groups
	t := attentionPart{b: b, h: g * heads, j: j, cols: min(attentionStep(l.Keys), l.Keys-j)}
	l.packKeys(&t, withQ)
	l.take(l.dk, &l.DK, &t, g, l.Dim)
	l.take(l.dv, &l.DV, &t, g, l.ValueDim)
	step := attentionStep(l.Queries)
	for ; t.h < (g+1)*heads; t.h++ {
		for t.i = 0; t.i < l.Queries; t.i += step {
			t.rows = min(step, l.Queries-t.i)
			if t.cover = l.cover(&t); t.cover != coverNone {
				l.column(&t, withQ)
			}
		}
	}
	l.give(&l.DK, l.dk, &t, g, l.Dim)
	l.give(&l.DV, l.dv, &t, g, l.ValueDim)
}

// take starts sums of the gradients of a tile of keys, from what is there already or from 0.
func (l *attentionPanels) take(sum []float32, d *AttentionGrad[float32], t *attentionPart, g, n int) {
	if !d.Wanted() {
		return
	}
	clear(sum)
	if d.Add {
		width, from := wholePanels(n), d.at(t.b, t.j, g, n)
		for r := range t.cols {
			copy(sum[r*width:], from.row(r, n))
		}
	}
}

// give stores them.
func (l *attentionPanels) give(d *AttentionGrad[float32], sum []float32, t *attentionPart, g, n int) {
	if d.Wanted() {
		l.put(d.at(t.b, t.j, g, n), sum, t.cols, n, 1, false)
	}
}

// column adds the part of one tile of queries.
func (l *attentionPanels) column(t *attentionPart, withQ bool) {
	q, g := l.Q.at(t.b, t.i, t.h, l.Dim), l.outputs(l.Grad, t)
	if l.DK.Wanted() {
		l.finiteQ = packPanels(l.qp, q.data, q.rs, t.rows, l.Dim, float32(l.Scale))
	}
	if l.DV.Wanted() {
		l.finiteG = packPanels(l.gp, g.data, g.rs, t.rows, l.ValueDim, 1)
	}
	var seen [attentionMost / panelCols]int // keys, by each panel
	for r := 0; r < t.rows; r += panelCols {
		u, ok := l.panel(t, r)
		if !ok {
			continue
		}
		seen[r/panelCols] = u.cols
		l.queries(l.qt, l.gt, t, r)
		l.pairsAndGrads(&u, l.qt, l.gt)
		if withQ {
			l.addQueries(&u)
		}
		if l.DV.Wanted() {
			l.turn(l.tileP[r*l.ld:], l.pairs, u.cols)
		}
		if l.DK.Wanted() {
			l.turn(l.tileD[r*l.ld:], l.grads, u.cols)
		}
	}
	if l.DV.Wanted() {
		l.addKeys(l.dv, l.tileP, l.gp, t, &seen, g, l.ValueDim, l.finiteG, 1)
	}
	if l.DK.Wanted() {
		l.addKeys(l.dk, l.tileD, l.qp, t, &seen, q, l.Dim, l.finiteQ, float32(l.Scale))
	}
}

// turn puts a panel of n keys into a tile, whose rows are queries. Rows end with zeros up to a multiple of sixteen.
func (l *attentionPanels) turn(tile, panel []float32, n int) {
	clear(panel[n*panelCols : wholePanels(n)*panelCols])
	transposePanel(tile, l.ld, panel, panelCols, wholePanels(n), panelCols, 1)
}

// addKeys adds the product of the transpose of a tile of pairs and x, which is packed in panels, to sums of keys. Sixteen
// keys at a time begin at the first queries that see one of them.
func (l *attentionPanels) addKeys(sum, tile, panels []float32, t *attentionPart, seen *[attentionMost / panelCols]int, x block[float32], n int, finite bool, factor float32) {
	width := wholePanels(n)
	if t.cover == coverSome && !finite {
		l.combinePairs(t, block[float32]{sum, width, 1}, block[float32]{tile, l.ld, 1}, true, x, n, factor)
		return
	}
	first := func(k int) int { // the first panel that sees key k, if there is any
		for i := range ceilDiv(t.rows, panelCols) {
			if seen[i] > k {
				return i * panelCols
			}
		}
		return t.rows
	}
	for k := 0; k < t.cols; {
		from, end := first(k), k+panelCols
		for end < t.cols && first(end) == from {
			end += panelCols
		}
		end = min(end, t.cols)
		for j := 0; j < width && from < t.rows; j += panelCols {
			multiplyPanel(t.rows-from, tile[from*l.ld+k:], l.ld, panels[j*t.rows+from*panelCols:], sum[k*width+j:], width, end-k, true)
		}
		k = end
	}
}
