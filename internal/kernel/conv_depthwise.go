package kernel

// Depthwise: each channel is convolved with kernels of its own, to one output channel or more. All loops go along rows: a
// row of x is copied into scratch between its zeros, so that no loop asks where the border is.
//
// dx is made row by row, from those rows of g that a tap leads to; dw channel by channel, each tap a sum in float64 over
// all images and pixels.

// planes is how many of some planes a chunk takes: about as much work as a flat chunk.
type planes struct{ n, cost int }

func (p planes) chunks() int           { return RowChunks(p.n, p.cost) }
func (p planes) at(c int) (lo, hi int) { return RowRange(p.n, p.cost, c) }
func (p *Conv) cost() int              { return p.pixels() * max(1, p.taps()/2) }
func (p *Conv) outPlanes() planes      { return planes{p.N * p.O, p.cost()} }
func (p *Conv) inPlanes() planes       { return planes{p.N * p.C, p.cost() * p.outGroup()} }
func (p *Conv) weightPlanes() planes   { return planes{p.O, p.cost() * p.N} }
func (p *Conv) rowRoom() int           { return max(p.reach(), p.Pad[1]+p.In[1]) }
func (p *Conv) reach() int             { return (p.Out[1]-1)*p.Stride[1] + (p.Kernel[1]-1)*p.Dilation[1] + 1 }
func (p *Conv) row(oh, i int) (ih int) { return oh*p.Stride[0] - p.Pad[0] + i*p.Dilation[0] }
func (p *Conv) outRow(ih, i int) (oh int) {
	at := ih + p.Pad[0] - i*p.Dilation[0]
	if at < 0 || at%p.Stride[0] != 0 || at/p.Stride[0] >= p.Out[0] {
		return -1
	}
	return at / p.Stride[0]
}

// bordered gives row ih of a plane between its zeros, as far as the taps of an output row reach.
func bordered[T Float](p *Conv, room, plane []T, ih int) []T {
	reach, width := p.reach(), p.In[1]
	var row []T
	if ih >= 0 && ih < p.In[0] {
		row = plane[ih*width:][:width]
		if p.Pad[1] == 0 {
			return row
		}
	}
	padded(room[:reach], row, -p.Pad[1], 1)
	return room[:reach]
}

func depthForward[T Float](p *Conv, y, x, w, b, room []T, chunk int) {
	lo, hi := p.outPlanes().at(chunk)
	for at := lo; at < hi; at++ {
		n, o := at/p.O, at%p.O
		plane := x[(n*p.C+o/p.outGroup())*p.plane():][:p.plane()]
		taps := w[o*p.taps():][:p.taps()]
		var bias T
		if b != nil {
			bias = b[o]
		}
		for oh := range p.Out[0] {
			out := y[at*p.pixels()+oh*p.Out[1]:][:p.Out[1]]
			fillRow(out, bias)
			for i := range p.Kernel[0] {
				row := bordered(p, room, plane, p.row(oh, i))
				tapRow(out, row, taps[i*p.Kernel[1]:][:p.Kernel[1]], p.Stride[1], p.Dilation[1])
			}
		}
	}
}

// tapRow adds w[j] row[i*stride+j*dilation], for all j, to y[i].
func tapRow[T Float](y, row, w []T, stride, dilation int) {
	for ; len(w) >= 3 && stride == 1; w = w[3:] {
		n, a, b, c := len(y), w[0], w[1], w[2]
		r0, r1, r2 := row[:n], row[dilation:][:n], row[2*dilation:][:n]
		for i, s := range y {
			s += a * r0[i]
			s += b * r1[i]
			s += c * r2[i]
			y[i] = s
		}
		row = row[min(3*dilation, len(row)):]
	}
	for _, v := range w {
		r := row[:(len(y)-1)*stride+1]
		for i := range y {
			y[i] += v * r[i*stride]
		}
		row = row[min(dilation, len(row)):]
	}
}

func depthInput[T Float](p *Conv, dx []T, add bool, g, w, room []T, chunk int) {
	lo, hi := p.inPlanes().at(chunk)
	width := p.In[1]
	room = room[:p.rowRoom()]
	for at := lo; at < hi; at++ {
		n, c := at/p.C, at%p.C
		for ih := range p.In[0] {
			clear(room)
			for o := c * p.outGroup(); o < (c+1)*p.outGroup(); o++ {
				for i := range p.Kernel[0] {
					if oh := p.outRow(ih, i); oh >= 0 {
						out := g[(n*p.O+o)*p.pixels()+oh*p.Out[1]:][:p.Out[1]]
						spreadRow(room, out, w[o*p.taps()+i*p.Kernel[1]:][:p.Kernel[1]], p.Stride[1], p.Dilation[1])
					}
				}
			}
			row := dx[at*p.plane()+ih*width:][:width]
			if add {
				addRow(row, row, room[p.Pad[1]:][:width])
			} else {
				copy(row, room[p.Pad[1]:])
			}
		}
	}
}

// spreadRow adds w[j] g[i] to row[i*stride+j*dilation].
func spreadRow[T Float](row, g, w []T, stride, dilation int) {
	for ; len(w) >= 3 && stride == 1 && len(g) > 2*dilation; w = w[3:] {
		spread3(row, g, [3]T(w), dilation)
		row = row[min(3*dilation, len(row)):]
	}
	for _, v := range w {
		if stride == 1 {
			spread1(row, g, v)
		} else {
			r := row[:(len(g)-1)*stride+1]
			for i, s := range g {
				r[i*stride] += v * s
			}
		}
		row = row[min(dilation, len(row)):]
	}
}

func spread1[T Float](row, g []T, v T) {
	row = row[:len(g)]
	for i, s := range g {
		row[i] += v * s
	}
}

// spread3 is three taps with stride 1: together where all three reach, one by one at the ends.
func spread3[T Float](row, g []T, w [3]T, d int) {
	n := len(g)
	spread1(row, g[:2*d], w[0])
	spread1(row[d:], g[:d], w[1])
	spread1(row[n:], g[n-d:], w[1])
	spread1(row[n:], g[n-2*d:], w[2])
	r, g0 := row[2*d:n], g[2*d:n]
	g1, g2 := g[d:][:len(r)], g[:len(r)]
	g0 = g0[:len(r)]
	for i, s := range r {
		s += w[0] * g0[i]
		s += w[1] * g1[i]
		s += w[2] * g2[i]
		r[i] = s
	}
}

func depthWeight[T Float](p *Conv, dw []T, add bool, g, x []T, scratch []byte, chunk int) {
	lo, hi := p.weightPlanes().at(chunk)
	sums := View[float64](scratch)[:p.taps()]
	room := View[T](scratch[bytesOf(p.taps(), 8):])
	for o := lo; o < hi; o++ {
		clear(sums)
		for n := range p.N {
			plane := x[(n*p.C+o/p.outGroup())*p.plane():][:p.plane()]
			for oh := range p.Out[0] {
				out := g[(n*p.O+o)*p.pixels()+oh*p.Out[1]:][:p.Out[1]]
				for i := range p.Kernel[0] {
					row := bordered(p, room, plane, p.row(oh, i))
					tapSums(sums[i*p.Kernel[1]:][:p.Kernel[1]], out, row, p.Stride[1], p.Dilation[1])
				}
			}
		}
		for i, s := range sums {
			if add {
				s += float64(dw[o*p.taps()+i])
			}
			dw[o*p.taps()+i] = T(s)
		}
	}
}

// tapSums adds to sums[j] the sum of g[i] row[i*stride+j*dilation].
func tapSums[T Float](sums []float64, g, row []T, stride, dilation int) {
	for j := range sums {
		r := row[:(len(g)-1)*stride+1]
		s := 0.0
		if stride == 1 {
			s = tapDot(g, r)
		} else {
			for i, v := range g {
				s += float64(v * r[i*stride])
			}
		}
		sums[j] += s
		row = row[min(dilation, len(row)):]
	}
}

// tapDot is the sum of a[i] b[i] in four interleaved chains.
func tapDot[T Float](a, b []T) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += float64(x[0] * y[0])
		s1 += float64(x[1] * y[1])
		s2 += float64(x[2] * y[2])
		s3 += float64(x[3] * y[3])
	}
	for ; i < len(a); i++ {
		s0 += float64(a[i] * b[i])
	}
	return (s0 + s1) + (s2 + s3)
}
