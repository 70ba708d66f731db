package kernel

// MixedAttention is an [Attention] of float32 whose operands may each be of a half type, without masks. Halves are widened a
// tile at a time into the lane's scratch, attention runs on tiles as if they were all there is, and what it makes is rounded
// once: gradients, which are sums over tiles, are summed in scratch.
type MixedAttention struct {
	AttentionPlan
	Q, K, V Mixed4
	Words   Words

	Out Mixed4    // [Batch Queries Heads ValueDim], contiguous
	LSE []float32 // as Attention's

	Grad       Mixed4 // of Out
	Delta      []float32
	DQ, DK, DV MixedGrad
}

// Mixed4 is an operand of float32 or, where Bits has data, of a half type.
type Mixed4 struct {
	Float Rank4[float32]
	Bits  Rank4[uint16]
	Half  Half
	Round bool // Float counts as rounded to Half, where it is read
}

// MixedGrad is where a gradient goes.
type MixedGrad struct {
	Mixed4
	Add bool
}

// Wanted says whether there is an operand.
func (x *Mixed4) Wanted() bool { return x.Float.Data != nil || x.Bits.Data != nil }

// read fills dst with rows of n elements of head h, from step t on.
func (x *Mixed4) read(dst []float32, b, t, h, rows, n int) {
	for r := range rows {
		to := dst[r*n:][:n]
		switch {
		case n == 0:
		case x.Bits.Data != nil:
			x.Half.Widen(to, x.Bits.at(b, t+r, h, n).row(0, n))
		case x.Round:
			x.Half.quantize(to, x.Float.at(b, t+r, h, n).row(0, n))
		default:
			copy(to, x.Float.at(b, t+r, h, n).row(0, n))
		}
	}
}

// write puts rows where read had them from, or adds them: each sum is rounded once.
func (x *Mixed4) write(src []float32, b, t, h, rows, n int, add bool) {
	for r := range rows {
		from := src[r*n:][:n]
		switch {
		case n == 0:
		case x.Bits.Data != nil:
			PutHalf(x.Half, Strided[uint16]{Data: x.Bits.at(b, t+r, h, n).row(0, n)}, add, from, 0)
		default:
			Put(Strided[float32]{Data: x.Float.at(b, t+r, h, n).row(0, n)}, add, from, 0)
		}
	}
}

// mixedHeadRoom is how many elements of the gradients of the queries of a group of heads may wait in scratch.
const mixedHeadRoom = 64 << 10

// together says whether all gradients of a head are made in one go.
func (p *AttentionPlan) mixedTogether() bool {
	return p.Together() && p.Heads/max(1, p.Groups)*p.Queries*p.Dim <= mixedHeadRoom
}

// part is the plan of rows queries from i on and cols keys from j on, of one head.
func (p *AttentionPlan) part(i, rows, j, cols int) AttentionPlan {
	s := *p
	s.Batch, s.Heads, s.Groups, s.Queries, s.Keys = 1, 1, 1, rows, cols
	s.Shift, s.wordRow = p.Shift+i-j, p.Keys
	return s
}

// mixedRoom is the elements of the parts of a lane's scratch: queries, their gradients, keys, values, sums of their
// gradients, statistics, and the gradients of the queries of a group of heads.
type mixedAttentionRoom struct{ q, g, k, v, dk, dv, dq, stats, heads int }

func (p *AttentionPlan) mixedRoom() mixedAttentionRoom {
	tq, tk := attentionStep(p.Queries), attentionStep(p.Keys)
	r := mixedAttentionRoom{
		q: tq * p.Dim, g: tq * p.ValueDim, k: tk * p.Dim, v: tk * p.ValueDim, dk: tk * p.Dim, dv: tk * p.ValueDim,
		dq: tq * p.Dim, stats: tq,
	}
	if p.mixedTogether() {
		r.heads = p.Heads / p.Groups * p.Queries * p.Dim
	}
	return r
}

// MixedScratch is the bytes of scratch that Forward wants of each lane.
func (p *AttentionPlan) MixedScratch() (n int64) {
	r := p.mixedRoom()
	for _, q := range tileSizes(p.Queries) {
		s := p.part(0, q, 0, p.Keys)
		n = max(n, s.Scratch(4))
	}
	return n + convBytes(r.q, r.g, r.k, r.v, r.stats)
}

// MixedBackwardScratch is the same for Backward's functions.
func (p *AttentionPlan) MixedBackwardScratch() (n int64) {
	r := p.mixedRoom()
	for _, q := range tileSizes(p.Queries) {
		for _, k := range tileSizes(p.Keys) {
			s := p.part(0, q, 0, k)
			n = max(n, s.BackwardScratch(4))
		}
	}
	return n + convBytes(r.q, r.g, r.k, r.v, r.dk, r.dv, r.dq, r.stats, r.stats, r.heads)
}

// mixedLane is a lane's scratch, cut.
type mixedLane struct {
	q, g, k, v, dk, dv, dq, lse, delta, heads []float32
	rest                                      []byte
}

func (a *MixedAttention) lane(scratch []byte, backward bool) (l mixedLane) {
	r := a.mixedRoom()
	l.q, l.g = carve[float32](&scratch, r.q), carve[float32](&scratch, r.g)
	l.k, l.v = carve[float32](&scratch, r.k), carve[float32](&scratch, r.v)
	l.lse = carve[float32](&scratch, r.stats)
	if backward {
		l.dk, l.dv = carve[float32](&scratch, r.dk), carve[float32](&scratch, r.dv)
		l.dq, l.delta = carve[float32](&scratch, r.dq), carve[float32](&scratch, r.stats)
		l.heads = carve[float32](&scratch, r.heads)
	}
	l.rest = scratch
	return l
}

// keySource widens tiles of the keys and values of one head.
type keySource struct {
	a    *MixedAttention
	b, g int
	k, v []float32
}

// at is the tile from key j on.
func (s *keySource) at(j int) (k, v block[float32]) {
	a, n := s.a, min(attentionStep(s.a.Keys), s.a.Keys-j)
	a.K.read(s.k, s.b, j, s.g, n, a.Dim)
	if a.V.Wanted() {
		a.V.read(s.v, s.b, j, s.g, n, a.ValueDim)
	}
	return rowsBlock(s.k, a.Dim), rowsBlock(s.v, a.ValueDim)
}

func rowsBlock(x []float32, n int) block[float32] { return block[float32]{x, n, 1} }

// tile4 shows rows of n elements as an operand of one head.
func tile4(x []float32, n int) Rank4[float32] { return Rank4[float32]{x, [4]int{0, n, 0, 1}} }

// on is the part of a from query i and key j on, of head h of entry b, with q in the lane.
func (a *MixedAttention) on(l *mixedLane, b, h, i, rows, j, cols int) Attention[float32] {
	s := Attention[float32]{AttentionPlan: a.part(i, rows, j, cols), Q: tile4(l.q, a.Dim)}
	s.Words = a.Words.From(((b*a.Heads+h)*a.Queries+i)*a.Keys + j)
	a.Q.read(l.q, b, i, h, rows, a.Dim)
	return s
}

// Forward computes chunk c of RowChunks: the rows of Out and LSE of one or two tiles of queries. scratch holds MixedScratch
// bytes.
func (a *MixedAttention) Forward(scratch []byte, c int) {
	l, t, step := a.lane(scratch, false), a.rowTile(c), attentionStep(a.Queries)
	source := keySource{a, t.b, a.group(&t), l.k, l.v}
	for end := t.i + t.rows; t.i < end; t.i += step {
		rows := min(step, end-t.i)
		s := a.on(&l, t.b, t.h, t.i, rows, 0, a.Keys)
		s.tiles, s.Out, s.LSE = &source, l.g[:rows*a.ValueDim], l.lse[:rows]
		for c := range s.RowChunks() {
			s.Forward(l.rest, c)
		}
		a.Out.write(l.g, t.b, t.i, t.h, rows, a.ValueDim, false)
		for r := range rows {
			if a.LSE != nil {
				a.LSE[a.row(&t, r)] = l.lse[r]
			}
		}
	}
}

// Deltas computes chunk c of DeltaChunks of Delta. scratch is that of Backward's functions.
func (a *MixedAttention) Deltas(scratch []byte, c int) {
	n := a.ValueDim
	l := a.lane(scratch, true)
	lo, hi := RowRange(a.Batch*a.Queries*a.Heads, n, c)
	rows := max(1, min(len(l.g), len(l.v))/max(1, n))
	for ; lo < hi; lo += rows {
		k := min(rows, hi-lo)
		for r := range k { // Grad and Out are contiguous: one row after the other
			at := lo + r
			b, t, h := at/a.Heads/a.Queries, at/a.Heads%a.Queries, at%a.Heads
			a.Grad.read(l.g[r*n:], b, t, h, 1, n)
			a.Out.read(l.v[r*n:], b, t, h, 1, n)
		}
		s := Attention[float32]{AttentionPlan: a.part(0, k, 0, 1), Grad: l.g, Out: l.v, Delta: a.Delta[lo:hi]}
		s.deltas(0, k)
	}
}

// backward is on, with what backward reads of the queries.
func (a *MixedAttention) backward(l *mixedLane, b, h, i, rows, j, cols int) Attention[float32] {
	s := a.on(l, b, h, i, rows, j, cols)
	s.K, s.Grad, s.LSE, s.Delta = tile4(l.k, a.Dim), l.g, l.lse, l.delta
	if a.V.Wanted() {
		s.V = tile4(l.v, a.ValueDim)
	}
	a.Grad.read(l.g, b, i, h, rows, a.ValueDim)
	for r := range rows {
		at := (b*a.Queries+i+r)*a.Heads + h
		if l.lse[r] = a.LSE[at]; a.Delta != nil {
			l.delta[r] = a.Delta[at]
		}
	}
	return s
}

// BackwardRows computes chunk c of RowChunks of DQ.
func (a *MixedAttention) BackwardRows(scratch []byte, c int) {
	l, t, step, keys := a.lane(scratch, true), a.rowTile(c), attentionStep(a.Queries), attentionStep(a.Keys)
	source := keySource{a, t.b, a.group(&t), l.k, l.v}
	for end := t.i + t.rows; t.i < end; t.i += step {
		rows := min(step, end-t.i)
		clear(l.dq)
		for j := 0; j < a.Keys && !a.behind(t.i+rows-1, j); j += keys {
			source.at(j)
			s := a.backward(&l, t.b, t.h, t.i, rows, j, min(keys, a.Keys-j))
			s.DQ = AttentionGrad[float32]{tile4(l.dq, a.Dim), true}
			for c := range s.RowChunks() {
				s.BackwardRows(l.rest, c)
			}
		}
		a.DQ.write(l.dq, t.b, t.i, t.h, rows, a.Dim, a.DQ.Add)
	}
}

// behind says that causality hides key j and those after it from query i and those before.
func (p *AttentionPlan) behind(i, j int) bool { return p.Causal && j > i+p.Shift }

// BackwardColumns computes chunk c of ColumnChunks of DK and DV, of those that are wanted.
func (a *MixedAttention) BackwardColumns(scratch []byte, c int) {
	n, l := a.keyTiles(), a.lane(scratch, true)
	a.columns(&l, c/n/a.Groups, c/n%a.Groups, c%n*attentionStep(a.Keys), false)
}

// BackwardHeads computes chunk c of HeadChunks of DQ, DK and DV, where Together.
func (a *MixedAttention) BackwardHeads(scratch []byte, c int) {
	l, b, g, heads := a.lane(scratch, true), c/a.Groups, c%a.Groups, a.Heads/a.Groups
	clear(l.heads)
	for j := 0; j < a.Keys; j += attentionStep(a.Keys) {
		a.columns(&l, b, g, j, true)
	}
	for h := range heads {
		a.DQ.write(l.heads[h*a.Queries*a.Dim:], b, 0, g*heads+h, a.Queries, a.Dim, a.DQ.Add)
	}
}

// Together says whether BackwardHeads is to be used.
func (a *MixedAttention) Together() bool { return a.mixedTogether() }

// columns computes DK and DV of the tile of keys from j on of head g, and adds to the gradients of queries in the lane if
// that is asked for.
func (a *MixedAttention) columns(l *mixedLane, b, g, j int, withQ bool) {
	source := keySource{a, b, g, l.k, l.v}
	source.at(j)
	clear(l.dk)
	clear(l.dv)
	heads, step, cols := a.Heads/a.Groups, attentionStep(a.Queries), min(attentionStep(a.Keys), a.Keys-j)
	for h := range heads {
		for i := 0; i < a.Queries; i += step {
			rows := min(step, a.Queries-i)
			if a.behind(i+rows-1, j) {
				continue
			}
			s := a.backward(l, b, g*heads+h, i, rows, j, cols)
			if a.DK.Wanted() {
				s.DK = AttentionGrad[float32]{tile4(l.dk, a.Dim), true}
			}
			if a.DV.Wanted() {
				s.DV = AttentionGrad[float32]{tile4(l.dv, a.ValueDim), true}
			}
			if withQ {
				s.DQ = AttentionGrad[float32]{tile4(l.heads[(h*a.Queries+i)*a.Dim:], a.Dim), true}
				s.BackwardHeads(l.rest, 0)
				continue
			}
			s.BackwardColumns(l.rest, 0)
		}
	}
	if a.DK.Wanted() {
		a.DK.write(l.dk, b, j, g, cols, a.Dim, a.DK.Add)
	}
	if a.DV.Wanted() {
		a.DV.write(l.dv, b, j, g, cols, a.ValueDim, a.DV.Add)
	}
}
