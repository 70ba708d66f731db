package kernel

// convCol gives rows [k0, k1) of a group's col for a tile, and its leading dimension: where it lies, or packed into room.
func convCol[T Float](p *Conv, room, x []T, group, k0, k1 int, t convTile) ([]T, int) {
	c := group * p.inGroup()
	if p.plain() {
		return convPlanes(room, x, p.C, c+k0, k1-k0, t, p.plane())
	}
	if k0 == k1 {
		return nil, t.cols()
	}
	for n := t.n0; n < t.n1; n++ {
		convPack(p, room[(n-t.n0)*t.width():], t.cols(), x[(n*p.C+c)*p.plane():], k0, k1, t.p0, t.p1)
	}
	return room, t.cols()
}

// convPlanes gives a tile of planes [c, c+rows) of x [N channels pixels] as a matrix [rows pixels], and its leading
// dimension: where it lies if it is of one image, else copied into room.
func convPlanes[T Float](room, x []T, channels, c, rows int, t convTile, pixels int) ([]T, int) {
	if t.single() {
		return tail(x, (t.n0*channels+c)*pixels+t.p0), pixels
	}
	for r := range rows {
		for n := t.n0; n < t.n1; n++ {
			copy(room[r*t.cols()+(n-t.n0)*t.width():][:t.width()], x[(n*channels+c+r)*pixels+t.p0:])
		}
	}
	return room, t.cols()
}

// convMatrix is where a product goes: the result itself, or scratch from where spread distributes it to several images.
type convMatrix[T Float] struct {
	data []T
	ld   int
}

// convOut gives the place for rows [c, c+rows) of a tile of y [N channels pixels], and the scratch that is left.
func convOut[T Float](o *convOuter, y []T, channels, c, rows int, t convTile, scratch []byte) (m convMatrix[T], rest []byte) {
	room, rest := convTake[T](scratch, o.outRoom())
	if t.single() {
		pixels := o.p.pixels()
		return convMatrix[T]{y[(t.n0*channels+c)*pixels+t.p0:], pixels}, rest
	}
	return convMatrix[T]{room, t.cols()}, rest
}

// spread copies to y, or adds, what lies in scratch.
func (m convMatrix[T]) spread(y []T, channels, c, rows int, t convTile, pixels int, add bool) {
	if t.single() {
		return
	}
	for r := range rows {
		for n := t.n0; n < t.n1; n++ {
			src, dst := m.data[r*m.ld+(n-t.n0)*t.width():][:t.width()], y[(n*channels+c+r)*pixels+t.p0:]
			if add {
				addRow(dst[:len(src)], dst[:len(src)], src)
			} else {
				copy(dst, src)
			}
		}
	}
}

// convPack fills rows [k0, k1) of dst, ld apart, with pixels [p0, p1) of col, read from x [channels of a group, H, W].
func convPack[T Float](p *Conv, dst []T, ld int, x []T, k0, k1, p0, p1 int) {
	for k := k0; k < k1; k++ {
		c, tap := k/p.taps(), k%p.taps()
		i, j := tap/p.Kernel[1], tap%p.Kernel[1]
		packPlane(p, dst[(k-k0)*ld:][:p1-p0], x[c*p.plane():][:p.plane()], i*p.Dilation[0]-p.Pad[0], j*p.Dilation[1]-p.Pad[1], p0)
	}
}

// packPlane fills dst with the pixels from number at on, of which pixel (0, 0) is read from (top, left).
func packPlane[T Float](p *Conv, dst, plane []T, top, left, at int) {
	width := p.In[1]
	for oh, ow := at/p.Out[1], at%p.Out[1]; len(dst) > 0; oh, ow = oh+1, 0 {
		n := min(len(dst), p.Out[1]-ow)
		var row []T
		if ih := oh*p.Stride[0] + top; ih >= 0 && ih < p.In[0] {
			row = plane[ih*width:][:width]
		}
		padded(dst[:n], row, ow*p.Stride[1]+left, p.Stride[1])
		dst = dst[n:]
	}
}

// inside is the range of i in [0, n) for which at+i*step lies in [0, size).
func inside(n, size, at, step int) (lo, hi int) {
	if at < 0 {
		lo = min(n, ceilDiv(-at, step))
	}
	if at < size {
		hi = min(n, ceilDiv(size-at, step))
	}
	return lo, max(lo, hi)
}

// padded fills dst[i] with row[at+i*step], or 0 outside.
func padded[T Float](dst, row []T, at, step int) {
	lo, hi := inside(len(dst), len(row), at, step)
	clear(dst[:lo])
	clear(dst[hi:])
	if lo == hi {
		return
	}
	dst, row = dst[lo:hi], row[at+lo*step:]
	if step == 1 {
		copy(dst, row)
		return
	}
	row = row[:(len(dst)-1)*step+1]
	for i := range dst {
		dst[i] = row[i*step]
	}
}

// convUnpack adds pixels [p0, p1) of rows [k0, k1) of dcol, ld apart, to where col has them from in dx.
func convUnpack[T Float](p *Conv, dx, dcol []T, ld, k0, k1, p0, p1 int) {
	for k := k0; k < k1; k++ {
		c, tap := k/p.taps(), k%p.taps()
		i, j := tap/p.Kernel[1], tap%p.Kernel[1]
		unpackPlane(p, dx[c*p.plane():][:p.plane()], dcol[(k-k0)*ld:][:p1-p0], i*p.Dilation[0]-p.Pad[0], j*p.Dilation[1]-p.Pad[1], p0)
	}
}

func unpackPlane[T Float](p *Conv, plane, src []T, top, left, at int) {
	width := p.In[1]
	for oh, ow := at/p.Out[1], at%p.Out[1]; len(src) > 0; oh, ow = oh+1, 0 {
		n := min(len(src), p.Out[1]-ow)
		if ih := oh*p.Stride[0] + top; ih >= 0 && ih < p.In[0] {
			addApart(plane[ih*width:][:width], src[:n], ow*p.Stride[1]+left, p.Stride[1])
		}
		src = src[n:]
	}
}

// addApart adds src[i] to row[at+i*step], if that is inside.
func addApart[T Float](row, src []T, at, step int) {
	lo, hi := inside(len(src), len(row), at, step)
	if lo == hi {
		return
	}
	src, row = src[lo:hi], row[at+lo*step:]
	if step == 1 {
		row = row[:len(src)]
		for i, v := range src {
			row[i] += v
		}
		return
	}
	row = row[:(len(src)-1)*step+1]
	for i, v := range src {
		row[i*step] += v
	}
}

// fillRow sets every element.
func fillRow[T Float](x []T, v T) {
	for i := range x {
		x[i] = v
	}
}
