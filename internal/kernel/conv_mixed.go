package kernel

// Convolution of half types: pieces of the image, of the weight and of the gradient are widened into the lane's scratch, and
// the convolution of float32 runs on them as a smaller one of its own. A piece of pixels is some whole images or a band of
// rows of one, in which padding above and below lies as zeros; sums over channels, or pixels, are made in scratch and
// rounded once.

// MixedConv is a convolution and its operands. Each is a row of elements of float32 or of a half type; those that a function
// does not read may be missing.
type MixedConv struct {
	Conv
	X, W, B Mixed // image, weight, bias
	Y, G    Mixed // result, its gradient
	DX, DW  Mixed
	AddX    bool // to DX
	AddW    bool
}

const (
	convMixedRoom   = 24 << 10 // most elements of a piece, unless one channel's has more
	convMixedPixels = 384      // of a piece, about
	convMixedParts  = 8        // most partial sums of dw
)

// convPieces is how a convolution is cut: images, and rows of the result or, for dx, of dx; channels of a group, and outputs.
// Of a depthwise one, channels are cut together with their outputs.
type convPieces struct {
	p                            *Conv
	images, rows, channels, outs pieces
	window                       int // rows of the result that a piece is made from, for dx all pieces; 0: its own
}

// ofSize cuts n units, of which each takes so many elements.
func ofSize(n, each int) pieces { return newPieces(n, max(1, convMixedRoom/max(1, each)), 1) }

func (p *Conv) mixedPieces(dx bool) (c convPieces) {
	c.p = p
	n := p.Out[0]
	if dx {
		n = p.In[0]
	}
	if pixels := max(1, p.pixels()); 2*pixels <= convMixedPixels {
		c.images, c.rows = newPieces(p.N, convMixedPixels/pixels, 1), pieces{n, n}
	} else {
		c.images, c.rows = newPieces(p.N, 1, 1), newPieces(n, max(1, convMixedPixels/max(1, p.Out[1])), 1)
	}
	rows := c.rows.size
	if dx {
		rows = min(p.Out[0], (c.rows.size-1+p.Dilation[0]*(p.Kernel[0]-1))/p.Stride[0]+1)
		c.window = rows
	}
	band, plane := c.images.size*p.bandOf(rows)*p.In[1], c.images.size*rows*p.Out[1]
	if p.depthwise() {
		c.channels = ofSize(p.C, max(band, p.outGroup()*plane, p.outGroup()*p.taps()))
		c.outs = pieces{p.outGroup(), p.outGroup()}
		return c
	}
	c.channels = ofSize(p.inGroup(), max(band, p.taps()))
	c.outs = ofSize(p.outGroup(), max(plane, c.channels.size*p.taps()))
	return c
}

// bandOf is how many rows of x, padding among them, some rows of the result are made from.
func (p *Conv) bandOf(rows int) int { return (rows-1)*p.Stride[0] + (p.Kernel[0]-1)*p.Dilation[0] + 1 }

// groups is how many times the pieces of channels are gone through.
func (c *convPieces) groups() int {
	if c.p.depthwise() {
		return 1
	}
	return c.p.Groups
}

// outPieces is how many pieces of outputs stand beside a piece of channels.
func (c *convPieces) outPieces() int {
	if c.p.depthwise() {
		return 1
	}
	return c.outs.count()
}

// convPiece is one piece: images, rows of the result, the first channel and output, and how many.
type convPiece struct {
	n0, n1, r0, r1 int
	c, cn, o, on   int
}

// over is t with piece i of the channels and piece j of the outputs of a group.
func (c *convPieces) over(t convPiece, group, i, j int) convPiece {
	p := c.p
	c0, c1 := c.channels.at(i)
	if p.depthwise() {
		t.c, t.cn, t.o, t.on = c0, c1-c0, c0*p.outGroup(), (c1-c0)*p.outGroup()
		return t
	}
	o0, o1 := c.outs.at(j)
	t.c, t.cn, t.o, t.on = group*p.inGroup()+c0, c1-c0, group*p.outGroup()+o0, o1-o0
	return t
}

// pixels is piece i of images and rows.
func (c *convPieces) pixels(i int) (t convPiece) {
	t.n0, t.n1 = c.images.at(i / c.rows.count())
	t.r0, t.r1 = c.rows.at(i % c.rows.count())
	return t
}

func (c *convPieces) pixelPieces() int { return c.images.count() * c.rows.count() }

// sub is the convolution of a piece.
func (p *Conv) sub(t convPiece) Conv {
	q := *p
	q.N, q.C, q.O, q.Groups, q.inOne = t.n1-t.n0, t.cn, t.on, 1, true
	if p.depthwise() {
		q.Groups = t.cn
	}
	q.Out[0], q.In[0], q.Pad[0] = t.r1-t.r0, p.bandOf(t.r1-t.r0), 0
	return q
}

// depthOf is how many elements of the weight an output has for some channels.
func (p *Conv) depthOf(channels int) int {
	if p.depthwise() {
		return p.taps()
	}
	return channels * p.taps()
}

// rooms is the elements of the widened pieces: of x, of the weight, of the result.
func (c *convPieces) rooms() (x, w, y int) {
	p, rows := c.p, c.rows.size
	if c.window > 0 {
		rows = c.window
	}
	t := c.over(convPiece{n1: c.images.size, r1: rows}, 0, 0, 0)
	q := p.sub(t)
	return q.N * q.C * q.plane(), q.O * p.depthOf(q.C), q.N * q.O * q.pixels()
}

// subWork is the largest of what f says of the sizes that pieces have.
func (c *convPieces) subWork(f func(q *Conv) ConvWork) (w ConvWork) {
	rows := [2]int{c.rows.size, c.rows.last()}
	if c.window > 0 {
		rows = [2]int{c.window, c.window}
	}
	for k := range 16 {
		t := convPiece{n1: c.images.size, r1: rows[k&1], cn: c.channels.size, on: c.outs.size}
		if k&2 != 0 {
			t.n1 = c.images.last()
		}
		if k&4 != 0 {
			t.cn = c.channels.last()
		}
		if k&8 != 0 {
			t.on = c.outs.last()
		}
		if c.p.depthwise() {
			t.on = t.cn * c.p.outGroup()
		}
		q := c.p.sub(t)
		s := f(&q)
		w.Scratch = max(w.Scratch, s.Scratch) // none is shared: a piece is on one lane
	}
	return w
}

// readX widens the band of x that a piece is made from.
func (g *MixedConv) readX(dst []float32, t convPiece) {
	band, at := g.bandOf(t.r1-t.r0), 0
	for n := t.n0; n < t.n1; n++ {
		for c := t.c; c < t.c+t.cn; c++ {
			for r := range band {
				row := dst[at:][:g.In[1]]
				at += g.In[1]
				if ih := t.r0*g.Stride[0] - g.Pad[0] + r; ih >= 0 && ih < g.In[0] {
					g.X.read(row, ((n*g.C+c)*g.In[0]+ih)*g.In[1])
				} else {
					clear(row)
				}
			}
		}
	}
}

// readRows widens the rows of g, or of another operand like the result, that a piece has.
func (g *MixedConv) readRows(dst []float32, x *Mixed, t convPiece) {
	size, at := (t.r1-t.r0)*g.Out[1], 0
	for n := t.n0; n < t.n1; n++ {
		for o := t.o; o < t.o+t.on; o++ {
			x.read(dst[at:][:size], (n*g.O+o)*g.pixels()+t.r0*g.Out[1])
			at += size
		}
	}
}

// readW widens the piece of the weight.
func (g *MixedConv) readW(dst []float32, t convPiece) {
	depth := g.depthOf(t.cn)
	for o := range t.on {
		if depth == 0 {
			return
		}
		g.W.read(dst[o*depth:][:depth], g.weightAt(t, o))
	}
}

// weightAt is where the weight of output number o of a piece begins.
func (g *MixedConv) weightAt(t convPiece, o int) int {
	if g.depthwise() {
		return (t.o + o) * g.taps()
	}
	return (t.o+o)*g.depth() + t.c%g.inGroup()*g.taps()
}

// read is dst's elements from number at on, where they are of any type.
func (x *Mixed) read(dst []float32, at int) {
	if x.wide() {
		copy(dst, x.Float[at:])
		return
	}
	x.widen(dst, at)
}

// write puts src from element number at on, or adds it.
func (x *Mixed) write(src []float32, at int, add bool) {
	if x.Bits != nil {
		PutHalf(x.Half, Strided[uint16]{Data: x.Bits}, add, src, at)
		return
	}
	Put(Strided[float32]{Data: x.Float}, add, src, at)
}

// MixedForwardWork is what Forward wants.
func (p *Conv) MixedForwardWork() ConvWork {
	c := p.mixedPieces(false)
	x, w, y := c.rooms()
	s := c.subWork(func(q *Conv) ConvWork { return q.ForwardWork(4) })
	chunks := c.pixelPieces() * c.groups() * c.outPieces()
	if p.depthwise() {
		chunks *= c.channels.count()
	}
	return ConvWork{Chunks: chunks, Scratch: convBytes(x, w, y, y, max(1, c.channels.size)*c.outs.size) + s.Scratch}
}

// Forward computes chunk number chunk of Y.
func (g *MixedConv) Forward(scratch []byte, chunk int) {
	c := g.mixedPieces(false)
	nx, nw, ny := c.rooms()
	x, scratch := convTake[float32](scratch, nx)
	w, scratch := convTake[float32](scratch, nw)
	y, scratch := convTake[float32](scratch, ny)
	more, scratch := convTake[float32](scratch, ny)
	bias, scratch := convTake[float32](scratch, max(1, c.channels.size)*c.outs.size)
	first, channels, j := 0, c.channels.count(), 0
	if g.depthwise() { // a chunk has one piece of channels
		first, chunk = chunk%channels, chunk/channels
		channels = first + 1
	} else {
		j, chunk = chunk%c.outPieces(), chunk/c.outPieces()
	}
	t, group := c.pixels(chunk/c.groups()), chunk%c.groups()
	for i := first; i < max(channels, first+1); i++ {
		t = c.over(t, group, i, j)
		g.readX(x, t)
		g.readW(w, t)
		q, to, b := g.sub(t), y, g.B.row(bias, t.o, t.on)
		if i > first {
			to, b = more, nil
		}
		for k := range q.ForwardWork(4).Chunks {
			ConvForward(&q, to, x, w, b, scratch, k)
		}
		if n := q.N * q.O * q.pixels(); i > first {
			addRow(y[:n], y[:n], more[:n])
		}
	}
	size, at := (t.r1-t.r0)*g.Out[1], 0
	for n := t.n0; n < t.n1; n++ {
		for o := t.o; o < t.o+t.on; o++ {
			g.Y.write(y[at:][:size], (n*g.O+o)*g.pixels()+t.r0*g.Out[1], false)
			at += size
		}
	}
}

// MixedInputWork is what Input wants.
func (p *Conv) MixedInputWork() ConvWork {
	c := p.mixedPieces(true)
	x, w, y := c.rooms()
	s := c.subWork(func(q *Conv) ConvWork { return q.InputWork(4) })
	return ConvWork{Chunks: c.pixelPieces() * c.groups() * c.channels.count(), Scratch: convBytes(x, w, y, p.In[1]) + s.Scratch}
}

// Input computes chunk number chunk of DX.
func (g *MixedConv) Input(scratch []byte, chunk int) {
	c := g.mixedPieces(true)
	nx, nw, ny := c.rooms()
	dx, scratch := convTake[float32](scratch, nx)
	w, scratch := convTake[float32](scratch, nw)
	y, scratch := convTake[float32](scratch, ny)
	zero, scratch := convTake[float32](scratch, g.In[1])
	clear(dx)
	clear(zero)
	i, chunk := chunk%c.channels.count(), chunk/c.channels.count()
	t, group := c.pixels(chunk/c.groups()), chunk%c.groups()
	h0, h1 := t.r0, t.r1
	t.r0, t.r1 = g.windowOf(h0, c.window)
	for j := range c.outPieces() {
		t = c.over(t, group, i, j)
		g.readRows(y, &g.G, t)
		g.readW(w, t)
		q := g.sub(t)
		for k := range q.InputWork(4).Chunks {
			ConvInput(&q, dx, true, y, w, scratch, k)
		}
	}
	t = c.over(t, group, i, 0)
	band, top := g.bandOf(t.r1-t.r0), t.r0*g.Stride[0]-g.Pad[0]
	for n := t.n0; n < t.n1; n++ {
		for k := range t.cn {
			for h := h0; h < h1; h++ {
				row := zero
				if r := h - top; r >= 0 && r < band {
					row = dx[(((n-t.n0)*t.cn+k)*band+r)*g.In[1]:][:g.In[1]]
				}
				g.DX.write(row, ((n*g.C+t.c+k)*g.In[0]+h)*g.In[1], g.AddX)
			}
		}
	}
}

// windowOf is as many rows of the result as the pieces of dx are made from, among them all that row h of dx and those
// behind it in its piece belong to.
func (p *Conv) windowOf(h, window int) (r0, r1 int) {
	r0 = max(0, ceilDiv(max(0, h+p.Pad[0]-(p.Kernel[0]-1)*p.Dilation[0]), p.Stride[0]))
	r0 = min(r0, p.Out[0]-window)
	return r0, r0 + window
}

// weightParts are the pieces of pixels that each partial sum of dw is made from.
func (c *convPieces) weightParts() pieces {
	n := c.pixelPieces()
	cells := c.groups() * c.channels.count() * c.outPieces()
	parts := max(1, min(n, convMixedParts/max(1, cells)))
	return pieces{n, ceilDiv(max(1, n), parts)}
}

// MixedWeightWork is what Weight wants. Partial sums, where there are several, are in shared scratch.
func (p *Conv) MixedWeightWork() ConvWork {
	c := p.mixedPieces(false)
	x, w, y := c.rooms()
	s := c.subWork(func(q *Conv) ConvWork { return q.WeightWork(4) })
	parts := c.weightParts()
	work := ConvWork{
		Chunks:  c.groups() * c.channels.count() * c.outPieces() * max(1, parts.count()),
		Scratch: convBytes(x, w, y) + s.Scratch,
	}
	if parts.count() > 1 {
		work.Shared = 4 * int64(parts.count()) * int64(p.O*p.depth())
	}
	return work
}

// Weight computes chunk number chunk of DW, or of a partial sum.
func (g *MixedConv) Weight(shared []float32, scratch []byte, chunk int) {
	c := g.mixedPieces(false)
	nx, nw, ny := c.rooms()
	x, scratch := convTake[float32](scratch, nx)
	dw, scratch := convTake[float32](scratch, nw)
	y, scratch := convTake[float32](scratch, ny)
	i, chunk := chunk%c.channels.count(), chunk/c.channels.count()
	j, chunk := chunk%c.outPieces(), chunk/c.outPieces()
	group, part := chunk%c.groups(), chunk/c.groups()
	parts := c.weightParts()
	clear(dw)
	var t convPiece
	lo, hi := parts.at(part)
	for k := lo; k < hi; k++ {
		t = c.over(c.pixels(k), group, i, j)
		g.readX(x, t)
		g.readRows(y, &g.G, t)
		q := g.sub(t)
		for k := range q.WeightWork(4).Chunks {
			ConvWeight(&q, dw, true, y, x, nil, scratch, k)
		}
	}
	if lo == hi {
		t = c.over(t, group, i, j) // no pixels: zeros
	}
	depth := g.depthOf(t.cn)
	for o := range t.on {
		row, at := dw[o*depth:][:depth], g.weightAt(t, o)
		if parts.count() > 1 {
			copy(shared[part*g.O*g.depth()+at:], row)
		} else {
			g.DW.write(row, at, g.AddW)
		}
	}
}

// MixedWeightFinishChunks is how many chunks WeightFinish works in: none where there are no partial sums.
func (p *Conv) MixedWeightFinishChunks() int {
	c := p.mixedPieces(false)
	if parts := c.weightParts(); parts.count() <= 1 {
		return 0
	}
	return Chunks(p.O * p.depth())
}

// WeightFinish adds up partial sums.
func (g *MixedConv) WeightFinish(shared []float32, chunk int) {
	c := g.mixedPieces(false)
	parts, n := c.weightParts(), g.O*g.depth()
	lo, hi := Range(n, chunk)
	SumRows(shared[lo:], parts.count(), hi-lo, n)
	g.DW.write(shared[lo:hi], lo, g.AddW)
}
