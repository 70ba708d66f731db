package kernel

// How much convolution with panels (conv_panels_amd64.go) takes of a lane's scratch: known to all families, since the
// figure must be the same for all.

const (
	convPanelDepth  = 320      // most rows of a panel of col, where a kernel does not have more taps
	convPanelOuts   = 192      // most output channels that are multiplied at once for dx
	convPanelPlanes = 24 << 10 // most elements of the planes of dx that are summed in scratch
	convPanelTaps   = 1024     // beyond that kernels are left to GEMM
)

// paneled says whether panels are used where there are kernels for them.
func (p *Conv) paneled() bool {
	return !p.depthwise() && !p.plain() && p.taps() <= convPanelTaps && p.N*p.inGroup()*p.outGroup()*p.plane() > 0
}

// depthChannels is how many channels a panel of col has at a time.
func (p *Conv) depthChannels() pieces {
	return newPieces(p.inGroup(), max(1, convPanelDepth/p.taps()), 1)
}

// padded is the size of a plane with its border, and guarded that of some of them with room before and after for a vector
// that is written as a whole.
func (p *Conv) padded() (height, width int) { return p.In[0] + 2*p.Pad[0], p.In[1] + 2*p.Pad[1] }

func (p *Conv) guarded(channels int) int {
	h, w := p.padded()
	return channels*h*w + 2*panelCols
}

// panels sums sizes of parts, given in elements.
func convBytes(elems ...int) (n int64) {
	for _, e := range elems {
		n += bytesOf(e, 4)
	}
	return n
}

// forwardPanels is the scratch of forward: a panel of col, one of the result, and the last rows of the weight.
func (p *Conv) forwardPanels(c *convOuter) (col, out, tail int) {
	depth := p.depthChannels().size * p.taps()
	col = depth * panelCols
	if p.banded() {
		col = max(col, p.bandRoom()+2*depth)
	}
	return col, (c.rows.size + 4) * panelCols, 4 * depth
}

// inputPanels is the scratch of dx: the weight, a panel of g and one of dcol, and the planes.
func (p *Conv) inputPanels(c *convInner) (w, g, dcol, planes int) {
	rows := roundUp(c.channels.size*p.taps(), 8)
	outs := newPieces(p.outGroup(), convPanelOuts, 1).size
	return outs * rows, outs * panelCols, rows * panelCols, p.guarded(c.channels.size)
}

// inputPaneled says whether the planes of dx fit.
func (p *Conv) inputPaneled(c *convInner) bool {
	return p.paneled() && p.guarded(c.channels.size) <= convPanelPlanes
}

// weightPanels is the scratch of dw: g transposed in panels, sums, padded planes and offsets.
func (p *Conv) weightPanels(c *convWeight) (g, sums, planes, offsets int) {
	rows, depth := wholePanels(c.rows.size), roundUp(c.depth.size, 6)
	if p.Pad != [2]int{} {
		_, w := p.padded()
		channels := min(p.inGroup(), ceilDiv(c.depth.size-1, p.taps())+1)
		planes = channels * p.bandRows(c.tiles.pixels.size) * w
	}
	return roundUp(c.tiles.pixels.size, 8) * rows, depth * rows, planes, 2 * depth
}

// bandRows is how many rows of x some neighbouring output pixels are made from.
func (p *Conv) bandRows(pixels int) int {
	rows := ceilDiv(pixels-1, p.Out[1]) + 1
	if pixels%p.Out[1] == 0 {
		rows = pixels / p.Out[1] // tiles of whole rows start with one
	}
	return (rows-1)*p.Stride[0] + (p.Kernel[0]-1)*p.Dilation[0] + 1
}
