package kernel

// Convolution of a few channels, as the first of a network is, where gathering a panel of col would cost more than multiplying
// it: sixteen neighbouring pixels of an output row are made from sixteen neighbours of each row that a tap reads. With AVX2
// those are read from the image itself (conv_bands_amd64.go) or, where there is padding or a stride, from a copy of some rows
// with their border, whose columns are sorted by the stride: columns 0, s, 2s and so on, then 1, s+1 and so on. What is told
// here all families must know.
const (
	convBandChannels = 4        // of a group, at most
	convBandMost     = 16 << 10 // elements of a copy, at most
)

// banded says whether forward goes so where there are kernels for it.
func (p *Conv) banded() bool {
	return p.paneled() && p.inGroup() <= convBandChannels && p.depth() <= convPanelDepth && p.Out[1] >= panelCols &&
		p.bandRoom() <= convBandMost
}

// bandUnit is what tiles are multiples of, in pixels: whole rows, unless they are long.
func (p *Conv) bandUnit() int {
	if p.Out[1] <= convCols {
		return p.Out[1]
	}
	return gemmCols
}

// bandPitch is how far rows are apart in a copy, and half-way, so to say, columns of one remainder from those of the next.
func (p *Conv) bandPitch() (row, remainder int) {
	_, w := p.padded()
	remainder = ceilDiv(w, p.Stride[1])
	return remainder * p.Stride[1], remainder
}

// bandCopied says whether there is a copy, and bandRoom is how many elements it has.
func (p *Conv) bandCopied() bool { return p.Stride[1] != 1 || p.Pad != [2]int{} }

func (p *Conv) bandRoom() int {
	if !p.bandCopied() {
		return 0
	}
	row, _ := p.bandPitch()
	return p.inGroup() * p.bandRows(max(p.bandUnit(), convCols/p.bandUnit()*p.bandUnit())) * row
}
