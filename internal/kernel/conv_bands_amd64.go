//go:build amd64 && !purego

package kernel

// convBands is the lane of a chunk of the forward pass that reads sixteen neighbours of a row at a time.
type convBands struct {
	*Conv
	weight  leftRows
	bias    []float32
	o       int       // first output channel
	copied  []float32 // rows of the image with their border, if they are copied
	offsets []int64   // of taps, in the image or the copy
	out     []float32 // a panel of the result
	pitch   int       // from a row to the next one
	apart   int       // from a channel to the next one
}

func convForwardBands(p *Conv, y, x, w, b []float32, scratch []byte, chunk int) {
	c := newConvOuter(p, p.outGroup(), p.depth())
	t, group, r0, r1 := c.at(chunk)
	l := convBands{Conv: p, o: group*p.outGroup() + r0}
	l.cut(&c, w, b, r1-r0, scratch)
	first, last := t.p0/p.Out[1], (t.p1-1)/p.Out[1]
	for n := t.n0; n < t.n1; n++ {
		image, top := x[(n*p.C+group*p.inGroup())*p.plane():], 0
		if p.bandCopied() {
			top = first * p.Stride[0]
			l.copyRows(image, top, (last-first)*p.Stride[0]+(p.Kernel[0]-1)*p.Dilation[0]+1)
			image = l.copied
		}
		for at := t.p0; at < t.p1; {
			oh, ow := at/p.Out[1], at%p.Out[1]
			cols := min(p.Out[1]-ow, t.p1-at)
			l.row(y[(n*p.O+l.o)*p.pixels()+oh*p.Out[1]:], image[(oh*p.Stride[0]-top)*l.pitch:], ow, cols)
			at += cols
		}
	}
}

// cut shares out the scratch, and finds where taps are read.
func (l *convBands) cut(c *convOuter, w, b []float32, rows int, scratch []byte) {
	col, out, tail := l.forwardPanels(c)
	l.offsets = View[int64](scratch)[:l.depth()]
	room, scratch := convTake[float32](scratch, col)
	l.copied = room[2*l.depth():]
	l.out, scratch = convTake[float32](scratch, out)
	l.weight = leftRows{data: w[l.o*l.depth():], ld: l.depth(), n: rows}
	l.weight.tail, _ = convTake[float32](scratch, tail)
	if b != nil {
		l.bias = b[l.o:][:rows]
	}
	l.pitch, l.apart = l.In[1], l.plane()
	remainder := l.In[1]
	if l.bandCopied() {
		l.pitch, remainder = l.bandPitch()
		l.apart = l.bandRoom() / l.inGroup()
	}
	for k := range l.offsets {
		c, tap := k/l.taps(), k%l.taps()
		i, j := tap/l.Kernel[1]*l.Dilation[0], tap%l.Kernel[1]*l.Dilation[1]
		l.offsets[k] = int64(c*l.apart + i*l.pitch + j%l.Stride[1]*remainder + j/l.Stride[1])
	}
}

// copyRows copies rows of the image from number top of the padded plane on.
func (l *convBands) copyRows(image []float32, top, rows int) {
	_, remainder := l.bandPitch()
	for c := range l.inGroup() {
		for r := range rows {
			var from []float32
			if ih := top + r - l.Pad[0]; ih >= 0 && ih < l.In[0] {
				from = image[c*l.plane()+ih*l.In[1]:][:l.In[1]]
			}
			to := l.copied[c*l.apart+r*l.pitch:]
			for s := range l.Stride[1] {
				padded(to[s*remainder:][:remainder], from, s-l.Pad[1], l.Stride[1])
			}
		}
	}
}

// row computes pixels from number ow on of an output row, at y in each channel's plane, from the rows of the image that begin
// at x. The last sixteen may be some of those before again. Of fewer than sixteen, others are computed with them and dropped.
func (l *convBands) row(y, x []float32, ow, cols int) {
	if cols < panelCols {
		at := min(ow, l.Out[1]-panelCols)
		l.weight.multiply(0, l.depth(), rightRows{x[at:], l.offsets}, l.out, panelCols, l.bias, false)
		for r := range l.weight.n {
			copy(y[r*l.pixels()+ow:][:cols], l.out[r*panelCols+ow-at:])
		}
		return
	}
	for j := 0; j < cols; j += panelCols {
		at := ow + min(j, cols-panelCols)
		l.weight.multiply(0, l.depth(), rightRows{x[at:], l.offsets}, y[at:], l.pixels(), l.bias, false)
	}
}
