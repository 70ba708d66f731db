//go:build amd64 && !purego

package kernel

func convWeightFast[T Float](c *convWeight, dw []T, add bool, g, x []T, scratch []byte, chunk int) bool {
	if !useAVX2 || !c.p.paneled() || !isFloat32[T]() {
		return false
	}
	var l convWeightPanels
	l.cut(c, scratch, chunk)
	l.sum(any(g).([]float32), any(x).([]float32))
	l.give(any(dw).([]float32), add)
	return true
}

// convWeightPanels is the lane of a chunk of dw: rows r0 to r1 of a group, from column k0 to k1.
type convWeightPanels struct {
	*Conv
	tiles                          convTiles
	t0, t1, group, r0, r1, k0, k1  int
	width                          int       // of sums: rows in whole panels
	g, sums, planes                []float32 // sums is [columns width]
	offsets                        []int64   // of columns in x, or in planes
	planeHeight, planeWidth, apart int       // of what the offsets are in
}

func (l *convWeightPanels) cut(c *convWeight, scratch []byte, chunk int) {
	l.Conv, l.tiles = c.p, c.tiles
	l.t0, l.t1, l.group, l.r0, l.r1, l.k0, l.k1 = c.at(chunk)
	l.width = wholePanels(l.r1 - l.r0)
	g, sums, planes, offsets := l.weightPanels(c)
	l.g, scratch = convTake[float32](scratch, g)
	l.sums, scratch = convTake[float32](scratch, sums)
	l.planes, scratch = convTake[float32](scratch, planes)
	l.offsets = View[int64](scratch)[:offsets/2]
	l.planeHeight, l.planeWidth = l.In[0], l.In[1]
	if l.Pad != [2]int{} {
		_, l.planeWidth = l.padded()
		l.planeHeight = l.bandRows(l.tiles.pixels.size)
	}
	l.apart = l.planeHeight * l.planeWidth
	first := l.k0 / l.taps()
	for i := range roundUp(l.k1-l.k0, 6) {
		k := min(l.k0+i, l.k1-1)
		tap := k % l.taps()
		at := (k/l.taps()-first)*l.apart + tap/l.Kernel[1]*l.Dilation[0]*l.planeWidth + tap%l.Kernel[1]*l.Dilation[1]
		l.offsets[i] = int64(at)
	}
}

// sum adds up all tiles of the chunk.
func (l *convWeightPanels) sum(g, x []float32) {
	clear(l.sums[:roundUp(l.k1-l.k0, 6)*l.width])
	for i := l.t0; i < l.t1; i++ {
		t := l.tiles.at(i)
		for n := t.n0; n < t.n1; n++ {
			l.image(g[(n*l.O+l.group*l.outGroup()+l.r0)*l.pixels():], x[(n*l.C+l.group*l.inGroup()+l.k0/l.taps())*l.plane():], t.p0, t.p1)
		}
	}
}

// image adds pixels p0 to p1 of one image, given what of g and x begins at the chunk's first row and channel.
func (l *convWeightPanels) image(g, x []float32, p0, p1 int) {
	rows, n := l.r1-l.r0, p1-p0
	for r := 0; r < rows; r += panelCols {
		panel := l.g[r*n:]
		for h := 0; h < min(panelCols, rows-r); h += 8 {
			transposePanel(panel[h:], panelCols, g[(r+h)*l.pixels()+p0:], l.pixels(), min(8, rows-r-h), n, 1)
		}
	}
	if raceEnabled {
		touchRows(x, (l.k1-1)/l.taps()-l.k0/l.taps()+1, l.plane(), l.plane())
	}
	top := 0
	if l.Pad != [2]int{} {
		top = p0 / l.Out[1] * l.Stride[0] // in planes with their border
		l.border(x, top)
		x = l.planes
	}
	for r := 0; r < rows; r += panelCols {
		for k := 0; k < l.k1-l.k0; k += 6 {
			l.six(x, l.g[r*n:], l.sums[k*l.width+r:], l.offsets[k:], top, p0, p1)
		}
	}
}

// six adds the products of six columns and a panel of g: the sum of a rectangle of pixels at a time, or of a row where there
// are so few that one rounding weighs.
func (l *convWeightPanels) six(x, g, sums []float32, offsets []int64, top, p0, p1 int) {
	step := l.Stride[1]
	for at := p0; at < p1; {
		oh, ow := at/l.Out[1], at%l.Out[1]
		rows, cols := 1, min(l.Out[1]-ow, p1-at)
		if ow == 0 && p1-at >= l.Out[1] && l.N*l.pixels() > convShortPixels {
			rows = (p1 - at) / l.Out[1]
		}
		from := (oh*l.Stride[0]-top)*l.planeWidth + ow*step
		panelTaps(rows, cols, &x[from], &offsets[0], step, l.Stride[0]*l.planeWidth-cols*step, &g[(at-p0)*panelCols], &sums[0], l.width)
		at += rows * cols
	}
}

// border copies rows of x, from number top of the padded plane on, to planes, with zeros where they are padding.
func (l *convWeightPanels) border(x []float32, top int) {
	first, last := l.k0/l.taps(), (l.k1-1)/l.taps()
	for c := range last - first + 1 {
		for r := range l.planeHeight {
			dst := l.planes[c*l.apart+r*l.planeWidth:][:l.planeWidth]
			var row []float32
			if ih := top + r - l.Pad[0]; ih >= 0 && ih < l.In[0] {
				row = x[c*l.plane()+ih*l.In[1]:][:l.In[1]]
			}
			padded(dst, row, -l.Pad[1], 1)
		}
	}
}

// give stores the sums, or adds them to what dw has.
func (l *convWeightPanels) give(dw []float32, add bool) {
	for r := range l.r1 - l.r0 {
		row := dw[(l.group*l.outGroup()+l.r0+r)*l.depth()+l.k0:][:l.k1-l.k0]
		for k := range row {
			s := l.sums[k*l.width+r]
			if add {
				s += row[k]
			}
			row[k] = s
		}
	}
}
