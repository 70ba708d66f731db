// Rotary position embedding (Su, Lu, Pan, Murtadha, Wen and Liu, "RoFormer", 2021): pair i of the Dim numbers of each head
// is turned by an angle that its position and i make:
//
//	a, b = x[p], x[q]     angle = position base^(-2i/Dim)     y[p] = a cos - b sin     y[q] = b cos + a sin
//
// where (p, q) is (i, i+Dim/2), or (2i, 2i+1) if interleaved. The gradient is the turn back, by the negative angle, so it
// reads nothing. Angles, sines and cosines are float64, rounded once.

package kernel

import "math"

// RoPE is the sizes of x [Batch Steps Heads Dim] and what the angles are made of.
type RoPE struct {
	Batch, Steps, Heads, Dim int

	Offset      int     // position of the first step
	Base        float64 // of the angles
	Interleaved bool
	Inverse     bool // turn back
}

// Chunks is the number of chunks: ranges of steps, for all entries and heads.
func (p *RoPE) Chunks() int {
	step := p.Batch * p.Heads * p.Dim
	if step == 0 {
		return 0
	}
	return RowChunks(p.Steps, step)
}

// Scratch is the bytes that a lane wants for elements of elem bytes: frequency, cosine and sine of each pair.
func (p *RoPE) Scratch(elem int) int64 {
	half := int64(p.Dim / 2)
	return roundUp64(8*half) + 2*roundUp64(int64(elem)*half)
}

// Rotate fills the steps of chunk c of dst with those of x turned, or adds them. dst and x may be one.
func Rotate[T Float](p *RoPE, dst Rank4[T], add bool, x Rank4[T], scratch []byte, c int) {
	half := p.Dim / 2
	freq, cos, sin := carve[float64](&scratch, half), carve[T](&scratch, half), carve[T](&scratch, half)
	for i := range freq {
		freq[i] = math.Pow(p.Base, -2*float64(i)/float64(p.Dim))
	}
	lo, hi := RowRange(p.Steps, p.Batch*p.Heads*p.Dim, c)
	for t := lo; t < hi; t++ {
		position := float64(p.Offset + t)
		if p.Inverse {
			position = -position
		}
		for i, f := range freq {
			s, c := math.Sincos(position * f)
			cos[i], sin[i] = T(c), T(s)
		}
		for b := range p.Batch {
			for h := range p.Heads {
				y, x := dst.at(b, t, h, p.Dim), x.at(b, t, h, p.Dim)
				turn(p, y.data, y.cs, add, x.data, x.cs, cos, sin)
			}
		}
	}
}

// turn is one head at one position.
func turn[T Float](p *RoPE, y []T, ys int, add bool, x []T, xs int, cos, sin []T) {
	step, other := 1, len(cos) // from pair to pair, and from the first of a pair to the second
	if p.Interleaved {
		step, other = 2, 1
	}
	ya, yb, xa, xb := y, y[other*ys:], x, x[other*xs:]
	ys, xs = ys*step, xs*step
	if ys == 1 && xs == 1 {
		turnHalves(ya, yb, add, xa, xb, cos, sin)
		return
	}
	sin = sin[:len(cos)]
	for i, c := range cos {
		s, a, b := sin[i], xa[i*xs], xb[i*xs]
		a, b = a*c-b*s, b*c+a*s
		if add {
			a += ya[i*ys]
			b += yb[i*ys]
		}
		ya[i*ys], yb[i*ys] = a, b
	}
}

// turnHalves is turn where pairs follow one another.
func turnHalves[T Float](ya, yb []T, add bool, xa, xb, cos, sin []T) {
	n := len(cos)
	ya, yb, xa, xb, sin = ya[:n], yb[:n], xa[:n], xb[:n], sin[:n]
	if turnFast(ya, yb, add, xa, xb, cos, sin) {
		return
	}
	if add {
		for i, c := range cos {
			s, a, b := sin[i], xa[i], xb[i]
			ya[i] += a*c - b*s
			yb[i] += b*c + a*s
		}
		return
	}
	for i, c := range cos {
		s, a, b := sin[i], xa[i], xb[i]
		ya[i], yb[i] = a*c-b*s, b*c+a*s
	}
}
