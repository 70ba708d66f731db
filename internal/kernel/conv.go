// Convolution in two dimensions, as deep learning has it (a cross-correlation), in the layout [N C H W]:
//
//	y[n o p] = b[o] + sum over k of w[o k] col[n k p]      k = (c, i, j): a channel of the group and a tap of the kernel
//	col[n k p] = x[n c oh*stride-pad+i*dilation ow*stride-pad+j*dilation], 0 outside      p = (oh, ow): an output pixel
//
//	dcol[n k p] = sum over o of w[o k] g[n o p]            dx[...] = the sum of the dcol that were read from there
//	dw[o k] = sum over n and p of g[n o p] col[n k p]
//
// Each of the three is a matrix product. col is never made whole: a chunk packs one tile of it after the other into its
// scratch and multiplies (conv_pack.go); with AVX2, float32 packs sixteen pixels at a time, or nothing
// (conv_panels_amd64.go). Where the kernel is one pixel, with stride 1 and no padding, col is x itself
// and nothing is packed. Where every channel is a group of its own there is no matrix left, and conv_depthwise.go has
// loops of its own.
//
// Padding is zeros that take part in products, as everywhere: a weight that is Inf makes the border NaN. The gradient of
// x has no such terms, since there is no output outside.
//
// How the work is cut is in conv_plan.go. No chunk writes where another does, so sums have one order.

package kernel

// Conv is the geometry of one convolution. Pairs are height and width. Out is at least 1 x 1.
type Conv struct {
	N, C, O, Groups       int // images, channels in and out; the groups share out both
	In, Kernel, Out       [2]int
	Stride, Pad, Dilation [2]int

	inOne bool // a piece of a convolution, on one lane: chunks are not cut finer to have many
}

func (p *Conv) inGroup() int  { return p.C / p.Groups }
func (p *Conv) outGroup() int { return p.O / p.Groups }
func (p *Conv) taps() int     { return p.Kernel[0] * p.Kernel[1] }
func (p *Conv) depth() int    { return p.inGroup() * p.taps() }
func (p *Conv) pixels() int   { return p.Out[0] * p.Out[1] }
func (p *Conv) plane() int    { return p.In[0] * p.In[1] }

// plain tells that col is x itself.
func (p *Conv) plain() bool {
	return p.taps() == 1 && p.Stride == [2]int{1, 1} && p.Pad == [2]int{}
}

// depthwise tells that each channel is a group of its own.
func (p *Conv) depthwise() bool { return p.Groups > 1 && p.Groups == p.C }

// ConvWork is what a call wants: how many chunks, and bytes of scratch for each lane and for all together.
type ConvWork struct {
	Chunks          int
	Scratch, Shared int64
}

// ForwardWork is what ConvForward wants, for elements of elem bytes.
func (p *Conv) ForwardWork(elem int) ConvWork {
	if p.depthwise() {
		return ConvWork{Chunks: p.outPlanes().chunks(), Scratch: int64(p.rowRoom() * elem)}
	}
	c := newConvOuter(p, p.outGroup(), p.depth())
	return ConvWork{Chunks: c.chunks(), Scratch: c.scratch(elem)}
}

// ConvForward computes chunk number chunk of y from x, w and b, which may be nil.
func ConvForward[T Float](p *Conv, y, x, w, b []T, scratch []byte, chunk int) {
	if p.depthwise() {
		depthForward(p, y, x, w, b, View[T](scratch), chunk)
		return
	}
	if convForwardFast(p, y, x, w, b, scratch, chunk) {
		return
	}
	c := newConvOuter(p, p.outGroup(), p.depth())
	t, group, r0, r1 := c.at(chunk)
	o := group*p.outGroup() + r0
	out, rest := convOut(&c, y, p.O, o, r1-r0, t, scratch)
	if b != nil {
		for r := range r1 - r0 {
			fillRow(out.data[r*out.ld:][:t.cols()], b[o+r])
		}
	}
	col, rest := convTake[T](rest, c.packRoom())
	each := GEMM[T]{M: r1 - r0, N: t.cols(), LDA: p.depth(), C: out.data, LDC: out.ld, Add: b != nil}
	for i := range max(1, c.depth.count()) {
		k0, k1 := c.depth.at(i)
		each.K, each.A = k1-k0, w[o*p.depth()+k0:]
		each.B, each.LDB = convCol(p, col, x, group, k0, k1, t)
		each.Whole(rest)
		each.Add = true
	}
	out.spread(y, p.O, o, r1-r0, t, p.pixels(), false)
}

// InputWork is what ConvInput wants.
func (p *Conv) InputWork(elem int) ConvWork {
	switch {
	case p.depthwise():
		return ConvWork{Chunks: p.inPlanes().chunks(), Scratch: int64(p.rowRoom() * elem)}
	case p.plain():
		c := newConvOuter(p, p.inGroup(), p.outGroup())
		return ConvWork{Chunks: c.chunks(), Scratch: c.scratch(elem)}
	}
	c := newConvInner(p)
	return ConvWork{Chunks: c.chunks(), Scratch: c.scratch(elem)}
}

// ConvInput computes chunk number chunk of dx, the gradient of x, from that of y and from w, or adds it.
func ConvInput[T Float](p *Conv, dx []T, add bool, g, w []T, scratch []byte, chunk int) {
	switch {
	case p.depthwise():
		depthInput(p, dx, add, g, w, View[T](scratch), chunk)
	case p.plain():
		convInputPlain(p, dx, add, g, w, scratch, chunk)
	case !convInputFast(p, dx, add, g, w, scratch, chunk):
		convInput(p, dx, add, g, w, scratch, chunk)
	}
}

// convInputPlain is the product of the transposed weight and g.
func convInputPlain[T Float](p *Conv, dx []T, add bool, g, w []T, scratch []byte, chunk int) {
	c := newConvOuter(p, p.inGroup(), p.outGroup())
	t, group, r0, r1 := c.at(chunk)
	at := group*p.inGroup() + r0
	out, rest := convOut(&c, dx, p.C, at, r1-r0, t, scratch)
	room, rest := convTake[T](rest, c.packRoom())
	each := GEMM[T]{M: r1 - r0, N: t.cols(), LDA: p.depth(), TransA: true, C: out.data, LDC: out.ld, Add: add && t.single()}
	for i := range max(1, c.depth.count()) {
		o0, o1 := c.depth.at(i)
		o := group*p.outGroup() + o0
		each.K, each.A = o1-o0, tail(w, o*p.depth()+r0)
		each.B, each.LDB = convPlanes(room, g, p.O, o, o1-o0, t, p.pixels())
		each.Whole(rest)
		each.Add = true
	}
	out.spread(dx, p.C, at, r1-r0, t, p.pixels(), add)
}

// convInput computes dcol, a tile at a time, and adds it up where it belongs.
func convInput[T Float](p *Conv, dx []T, add bool, g, w []T, scratch []byte, chunk int) {
	c := newConvInner(p)
	n0, n1, group, c0, c1 := c.at(chunk)
	if !add {
		for n := n0; n < n1; n++ {
			clear(dx[(n*p.C+group*p.inGroup()+c0)*p.plane():][:(c1-c0)*p.plane()])
		}
	}
	dcol, rest := convTake[T](scratch, c.rowsMost()*c.tiles.cols())
	room, rest := convTake[T](rest, c.packRoom())
	rows := c.rows(c1 - c0)
	for i := range c.tiles.pixels.count() {
		p0, p1 := c.tiles.pixels.at(i)
		t := convTile{n0, n1, p0, p1}
		for j := range rows.count() {
			k0, k1 := rows.at(j)
			k0, k1 = k0+c0*p.taps(), k1+c0*p.taps()
			each := GEMM[T]{M: k1 - k0, N: t.cols(), LDA: p.depth(), TransA: true, C: dcol, LDC: t.cols()}
			for l := range max(1, c.outs.count()) {
				o0, o1 := c.outs.at(l)
				o := group*p.outGroup() + o0
				each.K, each.A = o1-o0, tail(w, o*p.depth()+k0)
				each.B, each.LDB = convPlanes(room, g, p.O, o, o1-o0, t, p.pixels())
				each.Whole(rest)
				each.Add = true
			}
			for n := n0; n < n1; n++ {
				image := dx[(n*p.C+group*p.inGroup())*p.plane():]
				convUnpack(p, image, dcol[(n-n0)*t.width():], t.cols(), k0, k1, t.p0, t.p1)
			}
		}
	}
}

// WeightWork is what ConvWeight wants.
func (p *Conv) WeightWork(elem int) ConvWork {
	if p.depthwise() {
		return ConvWork{Chunks: p.weightPlanes().chunks(), Scratch: roundUp64(int64(p.taps())*8) + int64(p.rowRoom()*elem)}
	}
	c := newConvWeight(p)
	return ConvWork{Chunks: c.chunks(), Scratch: c.scratch(elem), Shared: int64(c.shared() * elem)}
}

// ConvWeight computes chunk number chunk of dw, the gradient of w, from that of y and from x, or adds it: in dw itself, or
// in shared where there are partial sums, which ConvWeightFinish adds up.
func ConvWeight[T Float](p *Conv, dw []T, add bool, g, x, shared []T, scratch []byte, chunk int) {
	if p.depthwise() {
		depthWeight(p, dw, add, g, x, scratch, chunk)
		return
	}
	c := newConvWeight(p)
	t0, t1, group, r0, r1, k0, k1 := c.at(chunk)
	if c.shared() > 0 {
		dw, add = shared[t0/c.ranges.size*p.O*p.depth():], false
	}
	if convWeightFast(&c, dw, add, g, x, scratch, chunk) {
		return
	}
	o := group*p.outGroup() + r0
	col, rest := convTake[T](scratch, c.colRoom())
	room, rest := convTake[T](rest, c.packRoom())
	each := GEMM[T]{M: r1 - r0, N: k1 - k0, TransB: true, C: dw[o*p.depth()+k0:], LDC: p.depth(), Add: add}
	if t0 == t1 {
		each.Whole(rest) // no images: zeros
	}
	for i := t0; i < t1; i++ {
		t := c.tiles.at(i)
		each.K = t.cols()
		each.A, each.LDA = convPlanes(room, g, p.O, o, r1-r0, t, p.pixels())
		each.B, each.LDB = convCol(p, col, x, group, k0, k1, t)
		each.Whole(rest)
		each.Add = true
	}
}

// WeightFinishChunks is how many pieces ConvWeightFinish works in, 0 if there is nothing to add up.
func (p *Conv) WeightFinishChunks() int {
	if c := newConvWeight(p); p.depthwise() || c.shared() == 0 {
		return 0
	}
	return Chunks(p.O * p.depth())
}

// ConvWeightFinish adds up the partial sums of piece number chunk of dw.
func ConvWeightFinish[T Float](p *Conv, dw []T, add bool, shared []T, chunk int) {
	c := newConvWeight(p)
	n := p.O * p.depth()
	lo, hi := Range(n, chunk)
	for i := lo; i < hi; i++ {
		sum := 0.0
		for r := range c.ranges.count() {
			sum += float64(shared[r*n+i])
		}
		if add {
			sum += float64(dw[i])
		}
		dw[i] = T(sum)
	}
}
