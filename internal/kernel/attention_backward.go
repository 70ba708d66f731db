package kernel

import "math"

// The gradients of attention. Weights are computed again from q, k and the log-sum-exp of each row, tile by tile:
//
//	p[i j]  = exp(s[i j] - lse[i])                         ds[i j] = p[i j] (m[i j] g[i].v[j] - delta[i])
//	delta[i] = g[i].out[i], which is the sum over j of p[i j] m[i j] g[i].v[j]
//
//	dq[i] = scale sum over j of ds[i j] k[j]               dk[j] = scale sum over i of ds[i j] q[i]
//	dv[j] = sum over i of p[i j] m[i j] g[i]               dbias[i j] = ds[i j]
//
// where those of k and v go over all heads of their group, and that of the additive mask over what it was repeated for.
//
// BackwardHeads makes the first three together, with five products a tile, each chunk all of one head of k and v.
// Where that gives too few chunks, BackwardRows makes dq, and BackwardColumns dk and dv: seven products in all. Either
// way each element is the same sum in the same order: over tiles of keys for dq, over heads and tiles of queries for dk
// and dv, in the destination itself. dbias costs two products more; its sums are float64.

// DeltaChunks is how many chunks Deltas works in.
func (p *AttentionPlan) DeltaChunks() int {
	return RowChunks(p.Batch*p.Queries*p.Heads, p.ValueDim)
}

// Deltas computes chunk c of Delta.
func (a *Attention[T]) Deltas(c int) {
	n := a.ValueDim
	lo, hi := RowRange(a.Batch*a.Queries*a.Heads, n, c)
	a.deltas(lo, hi)
}

// deltas is those of rows lo to hi.
func (a *Attention[T]) deltas(lo, hi int) {
	n := a.ValueDim
	if deltasFast(a, lo, hi) {
		return
	}
	for i := lo; i < hi; i++ {
		a.Delta[i] = T(dotRow(a.Grad[i*n:][:n], a.Out[i*n:][:n]))
	}
}

// dotRow is the sum of x y in four interleaved chains.
func dotRow[T Float](x, y []T) float64 {
	var s0, s1, s2, s3 float64
	y = y[:len(x)]
	for len(x) >= 4 && len(y) >= 4 {
		s0 += float64(x[0]) * float64(y[0])
		s1 += float64(x[1]) * float64(y[1])
		s2 += float64(x[2]) * float64(y[2])
		s3 += float64(x[3]) * float64(y[3])
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		s0 += float64(v) * float64(y[i])
	}
	return (s0 + s1) + (s2 + s3)
}

// HeadChunks is how many chunks BackwardHeads works in.
func (p *AttentionPlan) HeadChunks() int { return p.Batch * p.Groups }

// Together says whether BackwardHeads keeps as many lanes busy as there are by default.
func (p *AttentionPlan) Together() bool { return p.HeadChunks() >= gemmWantChunks }

// ColumnChunks is how many chunks BackwardColumns works in.
func (p *AttentionPlan) ColumnChunks() int { return p.HeadChunks() * p.keyTiles() }

// BiasChunks is how many chunks BackwardBias works in.
func (p *AttentionPlan) BiasChunks() int {
	rows, cols := p.biasTiles()
	return p.BiasShape[0] * p.BiasShape[1] * rows * cols
}

// biasTiles is how many tiles the additive mask is cut into.
func (p *AttentionPlan) biasTiles() (rows, cols int) {
	rows, cols = min(1, p.BiasShape[2]), min(1, p.BiasShape[3])
	if p.BiasShape[2] > 1 {
		rows = p.queryTiles()
	}
	if p.BiasShape[3] > 1 {
		cols = p.keyTiles()
	}
	return rows, cols
}

// BackwardRows computes chunk c of RowChunks of DQ.
func (a *Attention[T]) BackwardRows(scratch []byte, c int) {
	if rowsFast(a, scratch, c) {
		return
	}
	var l attentionLane[T]
	l.cut(&a.AttentionPlan, scratch, true)
	t, step := a.rowTile(c), attentionStep(a.Queries)
	for end := t.i + t.rows; t.i < end; t.i += step {
		one := t
		one.rows = min(step, end-t.i)
		a.rows(&l, &one)
	}
}

// rows computes DQ of one tile of queries.
func (a *Attention[T]) rows(l *attentionLane[T], t *attentionPart) {
	dq := a.DQ.at(t.b, t.i, t.h, a.Dim)
	if !a.DQ.Add {
		dq.clear(t.rows, a.Dim)
	}
	q := a.Q.at(t.b, t.i, t.h, a.Dim)
	step := attentionStep(a.Keys)
	for ; t.j < a.Keys; t.j += step {
		t.cols = min(step, a.Keys-t.j)
		if t.cover = a.cover(t); t.cover == coverNone {
			continue
		}
		k, v := a.keysOf(t.b, t.j, a.group(t))
		a.pairs(l, t, q, k, v, a.Scale)
		a.combine(l, t, dq, l.grads, false, k, a.Dim, true)
	}
}

// keysOf is the blocks of k and, where it is read, v from key j on.
func (a *Attention[T]) keysOf(b, j, g int) (k, v block[T]) {
	if a.tiles != nil { // T is float32
		x, y := a.tiles.at(j)
		return any(x).(block[T]), any(y).(block[T])
	}
	return a.K.at(b, j, g, a.Dim), a.V.at(b, j, g, a.ValueDim)
}

// BackwardColumns computes chunk c of ColumnChunks of DK and DV, of those that are wanted. V is read for DK only.
func (a *Attention[T]) BackwardColumns(scratch []byte, c int) {
	n := a.keyTiles()
	b, g, j := c/n/a.Groups, c/n%a.Groups, c%n*attentionStep(a.Keys)
	if columnsFast(a, scratch, b, g, j) {
		return
	}
	var l attentionLane[T]
	l.cut(&a.AttentionPlan, scratch, true)
	a.columns(&l, b, g, j, false)
}

// BackwardHeads computes chunk c of HeadChunks of DQ, DK and DV, of those that are wanted.
func (a *Attention[T]) BackwardHeads(scratch []byte, c int) {
	b, g, heads := c/a.Groups, c%a.Groups, a.Heads/a.Groups
	for h := g * heads; h < (g+1)*heads && !a.DQ.Add && a.Queries > 0; h++ {
		dq := a.DQ.at(b, 0, h, a.Dim)
		dq.clear(a.Queries, a.Dim)
	}
	if headsFast(a, scratch, b, g) {
		return
	}
	var l attentionLane[T]
	l.cut(&a.AttentionPlan, scratch, true)
	for j := 0; j < a.Keys; j += attentionStep(a.Keys) {
		a.columns(&l, b, g, j, true)
	}
}

// columns computes DK and DV of the tile of keys from j on of head g, and adds to DQ if that is asked for.
func (a *Attention[T]) columns(l *attentionLane[T], b, g, j int, withQ bool) {
	t := attentionPart{b: b, j: j, cols: min(attentionStep(a.Keys), a.Keys-j)}
	dk, dv := a.DK.at(b, j, g, a.Dim), a.DV.at(b, j, g, a.ValueDim)
	if a.DK.Wanted() && !a.DK.Add {
		dk.clear(t.cols, a.Dim)
	}
	if a.DV.Wanted() && !a.DV.Add {
		dv.clear(t.cols, a.ValueDim)
	}
	heads, step := a.Heads/a.Groups, attentionStep(a.Queries)
	k, v := a.keysOf(b, j, g)
	for t.h = g * heads; t.h < (g+1)*heads; t.h++ {
		for t.i = 0; t.i < a.Queries; t.i += step {
			t.rows = min(step, a.Queries-t.i)
			if t.cover = a.cover(&t); t.cover == coverNone {
				continue
			}
			q := a.Q.at(t.b, t.i, t.h, a.Dim)
			a.pairs(l, &t, q, k, v, a.Scale)
			if a.DV.Wanted() {
				a.combine(l, &t, dv, l.weights, true, a.outputs(a.Grad, &t), a.ValueDim, true)
			}
			if a.DK.Wanted() {
				a.combine(l, &t, dk, l.grads, true, q, a.Dim, true)
			}
			if withQ {
				a.combine(l, &t, a.DQ.at(t.b, t.i, t.h, a.Dim), l.grads, false, k, a.Dim, true)
			}
		}
	}
}

// pairs fills weights with p m and, where there is v, grads with scale ds.
func (a *Attention[T]) pairs(l *attentionLane[T], t *attentionPart, q, k, v block[T], scale float64) {
	l.multiply(block[T]{l.weights, t.cols, 1}, q, k.transposed(), t.rows, t.cols, a.Dim, false)
	grads := a.V.Data != nil || a.ValueDim == 0
	if grads {
		g := a.outputs(a.Grad, t)
		l.multiply(block[T]{l.grads, t.cols, 1}, g, v.transposed(), t.rows, t.cols, a.ValueDim, false)
	}
	for r := range t.rows {
		p := l.row(l.weights, t, r)
		var ds []T
		if grads {
			ds = l.row(l.grads, t, r)
		}
		a.pairRow(p, ds, t, r, scale)
		if t.cover == coverSome {
			a.clearHidden(p, ds, t, r)
		}
	}
}

// pairRow turns a row of the products q.k into weights, and one of g.v, unless it is nil, into scale ds.
func (a *Attention[T]) pairRow(x, ds []T, t *attentionPart, r int, scale float64) {
	var room [attentionMost]float64
	row := a.row(t, r)
	lse := float64(a.LSE[row])
	p := room[:a.scores(room[:], x, t, r, lse)]
	if math.IsInf(lse, -1) { // the row sees nothing
		p = p[:0]
	}
	clear(x[len(p):])
	x = x[:len(p)]
	exp[T](p)
	for k, w := range p {
		x[k] = T(w)
	}
	if a.Drop > 0 {
		a.dropRow(x, t, r)
	}
	if ds == nil {
		return
	}
	clear(ds[len(p):])
	ds = ds[:len(p)]
	if a.Drop > 0 {
		a.dropRow(ds, t, r)
	}
	delta := float64(a.Delta[row])
	for k, w := range p {
		ds[k] = T(w * (float64(ds[k]) - delta) * scale)
	}
}

// clearHidden makes 0 of what NaN in a row made of hidden pairs.
func (a *Attention[T]) clearHidden(p, ds []T, t *attentionPart, r int) {
	if AllFinite(p) && AllFinite(ds) {
		return
	}
	for k := range p {
		if !a.sees(t, r, k) {
			p[k] = 0
			if ds != nil {
				ds[k] = 0
			}
		}
	}
}

// BackwardBias computes chunk c of BiasChunks of DBias.
func (a *Attention[T]) BackwardBias(scratch []byte, c int) {
	var l attentionLane[T]
	l.cut(&a.AttentionPlan, scratch, true)
	nr, nc := a.biasTiles()
	from := [4]int{c / (nr * nc) / a.BiasShape[1], c / (nr * nc) % a.BiasShape[1],
		c % (nr * nc) / nc * attentionStep(a.Queries), c % nc * attentionStep(a.Keys)}
	to := [4]int{a.Batch, a.Heads, a.Queries, a.Keys} // where the mask repeats
	for d, n := range a.BiasShape {
		if n > 1 {
			to[d] = min(n, from[d]+[4]int{1, 1, attentionStep(a.Queries), attentionStep(a.Keys)}[d])
		}
	}
	a.biasTile(&l, from, to)
}

// biasTile sums the gradients of all pairs between from and to, which are one tile of the mask.
func (a *Attention[T]) biasTile(l *attentionLane[T], from, to [4]int) {
	sums := block[float64]{l.pairs, attentionStep(a.Keys), 1}
	rows, cols := to[2]-from[2], to[3]-from[3]
	if a.BiasShape[2] == 1 {
		rows, sums.rs = 1, 0
	}
	if a.BiasShape[3] == 1 {
		cols, sums.cs = 1, 0
	}
	clear(l.pairs)
	var t attentionPart
	for t.b = from[0]; t.b < to[0]; t.b++ {
		for t.h = from[1]; t.h < to[1]; t.h++ {
			for t.i = from[2]; t.i < to[2]; t.i += attentionStep(a.Queries) {
				for t.j = from[3]; t.j < to[3]; t.j += attentionStep(a.Keys) {
					a.addPairs(l, &t, sums)
				}
			}
		}
	}
	d, s := &a.DBias, &a.DBias.Strides
	at := from[0]*s[0] + from[1]*s[1]
	for r := range rows {
		for c := range cols {
			v, e := T(sums.data[r*sums.rs+c*sums.cs]), &d.Data[at+(from[2]+r)*s[2]+(from[3]+c)*s[3]]
			if d.Add {
				v += *e
			}
			*e = v
		}
	}
}

// addPairs adds the gradients of the tile at t to sums.
func (a *Attention[T]) addPairs(l *attentionLane[T], t *attentionPart, sums block[float64]) {
	t.rows = min(attentionStep(a.Queries), a.Queries-t.i)
	t.cols = min(attentionStep(a.Keys), a.Keys-t.j)
	if t.cover = a.cover(t); t.cover == coverNone {
		return
	}
	q := a.Q.at(t.b, t.i, t.h, a.Dim)
	k, v := a.keysOf(t.b, t.j, a.group(t))
	a.pairs(l, t, q, k, v, 1)
	for r := range t.rows {
		row := sums.data[r*sums.rs:]
		for c, x := range l.row(l.grads, t, r) {
			row[c*sums.cs] += float64(x)
		}
	}
}
