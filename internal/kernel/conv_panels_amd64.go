//go:build amd64 && !purego

package kernel

// Convolution in float32 with AVX2. Nothing of col is packed but what sixteen output pixels and one sweep of the weight need:
//
//	forward   [outs depth] times a panel of col [depth 16], gathered from the image by masked loads, one for each output row
//	          that the sixteen pixels lie in and each tap. The weight is read where it lies. Of few channels nothing is
//	          gathered (conv_bands_amd64.go).
//	dx        [outs depth]^T times a panel of g [outs 16], and the panel of dcol is added to planes in scratch likewise.
//	dw        [depth pixels] times g^T in panels of sixteen outputs. col is read from the image itself, an element at a
//	          time, six taps side by side; with padding, from a copy with its border.

// convSegment is lanes of a panel whose pixels are neighbours in one output row.
type convSegment struct{ lane, lanes, image, oh, ow int }

// segments are those of the sixteen pixels of a tile from number at on, or of as many as there are.
func (p *Conv) segments(dst *[panelCols]convSegment, t convTile, at int) []convSegment {
	n, k := min(panelCols, t.cols()-at), 0
	for lane := 0; lane < n; k++ {
		pixel := t.p0 + (at+lane)%t.width()
		s := convSegment{lane: lane, image: t.n0 + (at+lane)/t.width(), oh: pixel / p.Out[1], ow: pixel % p.Out[1]}
		s.lanes = min(n-lane, p.Out[1]-s.ow, t.p1-pixel)
		dst[k] = s
		lane += s.lanes
	}
	return dst[:k]
}

// gather fills a panel of col [channels*taps 16] from planes of x that begin at channel c.
func (p *Conv) gather(panel, x []float32, c, channels int, segments []convSegment) {
	if p.Stride[1] != 1 || raceEnabled {
		clear(panel[:channels*p.taps()*panelCols])
	}
	var patches [panelCols]panelPatch
	for tap := range p.taps() {
		i, j := tap/p.Kernel[1], tap%p.Kernel[1]
		for k, s := range segments {
			ih, left := s.oh*p.Stride[0]-p.Pad[0]+i*p.Dilation[0], s.ow*p.Stride[1]-p.Pad[1]+j*p.Dilation[1]
			lo, hi := inside(s.lanes, p.In[1], left, p.Stride[1])
			if ih < 0 || ih >= p.In[0] {
				hi = lo
			}
			at := (s.image*p.C+c)*p.plane() + ih*p.In[1] + left
			if p.Stride[1] != 1 || raceEnabled {
				p.gatherApart(panel[tap*panelCols+s.lane:], x, at, channels, lo, hi)
				continue
			}
			patches[k] = panelPatch{at - s.lane, int32(s.lane + lo), int32(s.lane + hi)}
		}
		if p.Stride[1] == 1 && !raceEnabled {
			panelGather(&panel[tap*panelCols], p.taps(), &x[0], p.plane(), channels, len(segments), &patches[0])
		}
	}
}

// gatherApart fills lanes lo to hi of one tap's rows with elements that are not neighbours, of which lane 0 would be at.
func (p *Conv) gatherApart(panel, x []float32, at, channels, lo, hi int) {
	for c := range channels {
		row := panel[c*p.taps()*panelCols:]
		for l := lo; l < hi; l++ {
			row[l] = x[at+c*p.plane()+l*p.Stride[1]]
		}
	}
}

func convForwardFast[T Float](p *Conv, y, x, w, b []T, scratch []byte, chunk int) bool {
	if !useAVX2 || !p.paneled() || !isFloat32[T]() {
		return false
	}
	if p.banded() && !raceEnabled {
		convForwardBands(p, any(y).([]float32), any(x).([]float32), any(w).([]float32), any(b).([]float32), scratch, chunk)
		return true
	}
	convForwardPanels(p, any(y).([]float32), any(x).([]float32), any(w).([]float32), any(b).([]float32), scratch, chunk)
	return true
}

func convForwardPanels(p *Conv, y, x, w, b []float32, scratch []byte, chunk int) {
	c := newConvOuter(p, p.outGroup(), p.depth())
	t, group, r0, r1 := c.at(chunk)
	colRoom, outRoom, tailRoom := p.forwardPanels(&c)
	col, scratch := convTake[float32](scratch, colRoom)
	out, scratch := convTake[float32](scratch, outRoom)
	tail, _ := convTake[float32](scratch, tailRoom)
	o, channels := group*p.outGroup()+r0, p.depthChannels()
	rows := leftRows{w[o*p.depth():], p.depth(), r1 - r0, tail}
	if raceEnabled {
		touchRows(rows.data, rows.n, rows.ld, rows.ld)
	}
	if b != nil {
		b = b[o:][:rows.n]
	}
	var room [panelCols]convSegment
	for at := 0; at < t.cols(); at += panelCols {
		segments := p.segments(&room, t, at)
		s, dst, ld := segments[0], out, panelCols
		first := s.oh*p.Out[1] + s.ow // pixel
		whole := at%t.width()+panelCols <= t.width()
		if whole && !raceEnabled {
			dst, ld = y[(s.image*p.O+o)*p.pixels()+first:], p.pixels()
		}
		for i := range channels.count() {
			c0, c1 := channels.at(i)
			p.gather(col, x, group*p.inGroup()+c0, c1-c0, segments)
			bias := b
			if i > 0 {
				bias = nil
			}
			rows.multiply(c0*p.taps(), (c1-c0)*p.taps(), rightRows{data: col}, dst, ld, bias, i > 0)
		}
		if !whole || raceEnabled {
			p.spreadPanel(y, out, o, rows.n, segments)
		}
	}
}

// spreadPanel puts a panel of rows of the result, from number o on, where its pixels belong.
func (p *Conv) spreadPanel(y, panel []float32, o, rows int, segments []convSegment) {
	for r := range rows {
		for _, s := range segments {
			copy(y[(s.image*p.O+o+r)*p.pixels()+s.oh*p.Out[1]+s.ow:][:s.lanes], panel[r*panelCols+s.lane:])
		}
	}
}

func convInputFast[T Float](p *Conv, dx []T, add bool, g, w []T, scratch []byte, chunk int) bool {
	if !useAVX2 || !isFloat32[T]() {
		return false
	}
	c := newConvInner(p)
	if p.inputPaneled(&c) {
		convInputPanels(&c, any(dx).([]float32), add, any(g).([]float32), any(w).([]float32), scratch, chunk)
		return true
	}
	return false
}

func convInputPanels(c *convInner, dx []float32, add bool, g, w []float32, scratch []byte, chunk int) {
	p := c.p
	n0, n1, group, c0, c1 := c.at(chunk)
	wRoom, gRoom, dcolRoom, planeRoom := p.inputPanels(c)
	weight, scratch := convTake[float32](scratch, wRoom)
	panel, scratch := convTake[float32](scratch, gRoom)
	dcol, scratch := convTake[float32](scratch, dcolRoom)
	planes, _ := convTake[float32](scratch, planeRoom)
	rows := (c1 - c0) * p.taps()
	ld, outs := roundUp(rows, 8), newPieces(p.outGroup(), convPanelOuts, 1)
	for n := n0; n < n1; n++ {
		clear(planes)
		for i := range outs.count() {
			o0, o1 := outs.at(i)
			if n == n0 || outs.count() > 1 {
				for o := o0; o < o1; o++ {
					row := weight[(o-o0)*ld:][:ld]
					clear(row[copy(row[:rows], w[(group*p.outGroup()+o)*p.depth()+c0*p.taps():]):])
				}
			}
			t := convTile{n, n + 1, 0, p.pixels()}
			plane := g[(n*p.O+group*p.outGroup()+o0)*p.pixels():]
			for at := 0; at < p.pixels(); at += panelCols {
				packPanels(panel, plane[at:], p.pixels(), o1-o0, min(panelCols, p.pixels()-at), 1)
				multiplyPanel(o1-o0, weight, ld, panel, dcol, panelCols, rows, false)
				p.scatter(planes, dcol, c1-c0, t, at)
			}
		}
		p.putPlanes(dx[(n*p.C+group*p.inGroup()+c0)*p.plane():], planes[panelCols:], c1-c0, add)
	}
}

// scatter adds a panel of dcol [channels*taps 16], whose pixels are those of one image from number at on, to padded planes.
func (p *Conv) scatter(planes, panel []float32, channels int, t convTile, at int) {
	var room [panelCols]convSegment
	var patches [panelCols]panelPatch
	h, w := p.padded()
	segments := p.segments(&room, t, at)
	for tap := range p.taps() {
		i, j := tap/p.Kernel[1], tap%p.Kernel[1]
		for k, s := range segments {
			off := (s.oh*p.Stride[0]+i*p.Dilation[0])*w + s.ow*p.Stride[1] + j*p.Dilation[1] + panelCols
			if p.Stride[1] != 1 {
				p.scatterApart(planes[off:], panel[tap*panelCols+s.lane:], channels, s.lanes, h*w)
				continue
			}
			patches[k] = panelPatch{off - s.lane, int32(s.lane), int32(s.lane + s.lanes)}
		}
		if p.Stride[1] == 1 {
			panelScatter(&panel[tap*panelCols], p.taps(), &planes[0], h*w, channels, len(segments), &patches[0])
		}
	}
}

func (p *Conv) scatterApart(planes, panel []float32, channels, lanes, plane int) {
	for c := range channels {
		to, from := planes[c*plane:], panel[c*p.taps()*panelCols:][:lanes]
		for l, v := range from {
			to[l*p.Stride[1]] += v
		}
	}
}

// putPlanes copies padded planes without their border to dx, or adds them.
func (p *Conv) putPlanes(dx, planes []float32, channels int, add bool) {
	h, w := p.padded()
	for c := range channels {
		for ih := range p.In[0] {
			dst := dx[c*p.plane()+ih*p.In[1]:][:p.In[1]]
			src := planes[c*h*w+(ih+p.Pad[0])*w+p.Pad[1]:][:p.In[1]]
			if add {
				addRow(dst, dst, src)
			} else {
				copy(dst, src)
			}
		}
	}
}
