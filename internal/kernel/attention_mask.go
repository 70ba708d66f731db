package kernel

import "math"

// Which pairs of a query and a key take part: see attention.go.

// cover is how many pairs of a tile take part.
type cover uint8

const (
	coverNone cover = iota
	coverSome
	coverAll
)

// cover looks at causality first, which costs nothing, and then at the mask's elements.
func (a *Attention[T]) cover(t *attentionPart) cover {
	c := coverAll
	if a.Causal {
		switch {
		case t.j > t.i+t.rows-1+a.Shift:
			return coverNone
		case t.j+t.cols-1 > t.i+a.Shift:
			c = coverSome
		}
	}
	m := coverAll
	if a.Mask.Data != nil {
		m = a.maskCover(t)
	} else if a.Bias.Data != nil {
		m = a.biasCover(t)
	}
	return min(c, m)
}

// maskCover stops as soon as it has seen a pair of either kind.
func (a *Attention[T]) maskCover(t *attentionPart) cover {
	m, rows := maskTile(&a.Mask, t)
	first := m.data[0]
	for r := range rows {
		row := m.data[r*m.rs:]
		for k := range t.cols {
			if row[k*m.cs] != first {
				return coverSome
			}
		}
	}
	if first {
		return coverAll
	}
	return coverNone
}

func (a *Attention[T]) biasCover(t *attentionPart) cover {
	m, rows := maskTile(&a.Bias, t)
	first := hides(m.data[0])
	for r := range rows {
		row := m.data[r*m.rs:]
		for k := range t.cols {
			if hides(row[k*m.cs]) != first {
				return coverSome
			}
		}
	}
	if first {
		return coverNone
	}
	return coverAll
}

// hides says that an element of the additive mask is -Inf.
func hides[T Float](v T) bool { return math.IsInf(float64(v), -1) }

// maskTile is the piece of a mask that belongs to t. Where its rows repeat, only the first needs looking at.
func maskTile[E any](m *Rank4[E], t *attentionPart) (block[E], int) {
	s := &m.Strides
	b := block[E]{m.Data[t.b*s[0]+t.h*s[1]+t.i*s[2]+t.j*s[3]:], s[2], s[3]}
	if b.rs == 0 {
		return b, min(1, t.rows)
	}
	return b, t.rows
}

// causalCols is how many of the keys of t causality lets row r see.
func (a *Attention[T]) causalCols(t *attentionPart, r int) int {
	if !a.Causal {
		return t.cols
	}
	return max(0, min(t.cols, t.i+r+a.Shift+1-t.j))
}

// hide makes -Inf of the scores of row r that the mask hides.
func (a *Attention[T]) hide(p []float64, t *attentionPart, r int) {
	s := &a.Mask.Strides
	row := a.Mask.Data[t.b*s[0]+t.h*s[1]+(t.i+r)*s[2]+t.j*s[3]:]
	for k := range p {
		if !row[k*s[3]] {
			p[k] = math.Inf(-1)
		}
	}
}

// addBias adds the additive mask to the scores of row r. -Inf hides, whatever the score: NaN would survive the sum.
func (a *Attention[T]) addBias(p []float64, t *attentionPart, r int) {
	s := &a.Bias.Strides
	row := a.Bias.Data[t.b*s[0]+t.h*s[1]+(t.i+r)*s[2]+t.j*s[3]:]
	for k := range p {
		if v := row[k*s[3]]; hides(v) {
			p[k] = math.Inf(-1)
		} else {
			p[k] += float64(v)
		}
	}
}

// sees says whether the pair of row r and column k of t takes part.
func (a *Attention[T]) sees(t *attentionPart, r, k int) bool {
	i, j := t.i+r, t.j+k
	if a.Causal && j > i+a.Shift {
		return false
	}
	if s := &a.Mask.Strides; a.Mask.Data != nil && !a.Mask.Data[t.b*s[0]+t.h*s[1]+i*s[2]+j*s[3]] {
		return false
	}
	s := &a.Bias.Strides
	return a.Bias.Data == nil || !hides(a.Bias.Data[t.b*s[0]+t.h*s[1]+i*s[2]+j*s[3]])
}
