package kernel

import "unsafe"

// How a convolution is cut. Tiles of output pixels are pieces of one image or, where images are small, some whole ones.
//
//	outer   forward, and dx of a plain kernel: pixels x groups x rows of the result
//	inner   dx: images x groups x channels. A chunk goes through all pixels of its images, since taps overlap
//	weight  dw: groups x output channels x depth. A chunk goes through all pixels of all images; only where dw is too
//	        small to be cut so are the pixels cut as well, and then there are partial sums
//
// Work is cut finer until there are convChunks chunks, but not below convWork multiplications a chunk.
const (
	convRows  = 128 // most output channels of a tile
	convDepth = 128 // most rows of col that are packed at once
	convCols  = 128 // most output pixels: a packed tile is 64 KiB of float32

	convWeightDepth = 192 // convDepth for dw

	convChunks = 8
	convWork   = 1 << 17
	convLeast  = 32 * 64 // least elements of dw in a tile, before pixels are cut
)

// pieces cuts n into pieces of nearly equal size.
type pieces struct{ n, size int }

func newPieces(n, most, unit int) pieces {
	if n == 0 {
		return pieces{}
	}
	return pieces{n, min(n, even(n, most, unit))}
}

func (p pieces) count() int {
	if p.n == 0 {
		return 0
	}
	return ceilDiv(p.n, p.size)
}

// at is piece i. Of nothing, piece 0 is empty.
func (p pieces) at(i int) (lo, hi int) { return i * p.size, min(p.n, (i+1)*p.size) }

// last is the size of the last one.
func (p pieces) last() int { return p.n - max(0, p.count()-1)*p.size }

// convTiles are the tiles of output pixels.
type convTiles struct {
	images pieces // a piece of more than one image has all their pixels
	pixels pieces // of one image
}

func newConvTiles(images, pixels, most int) convTiles {
	return newConvTilesOf(images, pixels, most, gemmCols)
}

// newConvTilesOf is the same for tiles whose sizes are multiples of unit.
func newConvTilesOf(images, pixels, most, unit int) convTiles {
	if 2*pixels <= most {
		return convTiles{newPieces(images, most/pixels, 1), pieces{pixels, pixels}}
	}
	return convTiles{newPieces(images, 1, 1), newPieces(pixels, most, unit)}
}

func (t convTiles) count() int { return t.images.count() * t.pixels.count() }

// cols is the number of pixels of the largest tile.
func (t convTiles) cols() int { return t.images.size * t.pixels.size }

// several tells that tiles are of more than one image.
func (t convTiles) several() bool { return t.images.size > 1 }

func (t convTiles) at(i int) (a convTile) {
	per := t.pixels.count()
	a.n0, a.n1 = t.images.at(i / per)
	a.p0, a.p1 = t.pixels.at(i % per)
	return a
}

// convTile is pixels [p0, p1) of images [n0, n1).
type convTile struct{ n0, n1, p0, p1 int }

func (a convTile) single() bool { return a.n1-a.n0 == 1 }
func (a convTile) width() int   { return a.p1 - a.p0 }
func (a convTile) cols() int    { return (a.n1 - a.n0) * a.width() }

// sizes are the numbers of pixels that tiles may have.
func (t convTiles) sizes() [4]int {
	i, p := t.images, t.pixels
	return [4]int{i.size * p.size, i.size * p.last(), i.last() * p.size, i.last() * p.last()}
}

// scratchOf is what products of these pieces want. The largest need not want most: small products are cut less.
func scratchOf(m, n, k []int, elem int) (most int64) {
	for _, m := range m {
		for _, n := range n {
			for _, k := range k {
				most = max(most, GEMMScratch(m, n, k, elem))
			}
		}
	}
	return most
}

// convOuter is [rows depth] times [depth pixels].
type convOuter struct {
	p     *Conv
	rows  pieces // of one group
	depth pieces
	tiles convTiles
}

// Short sums, where one rounding weighs most, are added up in pieces: the error grows with the length of a piece and the
// number of them, not with their product, and the passes over a tile in cache cost little beside its packing.
const (
	convShort       = 64
	convShortPiece  = 16
	convShortPixels = 1024 // of all images, for dw
)

func newConvOuter(p *Conv, rows, depth int) convOuter {
	c := convOuter{p: p, depth: newPieces(depth, convDepth, 8)}
	if depth <= convShort {
		c.depth = newPieces(depth, convShortPiece, 8)
	}
	unit := gemmCols
	if p.banded() {
		unit = p.bandUnit()
	}
	for r, w := convRows, convCols; ; {
		c.rows, c.tiles = newPieces(rows, r, 4), newConvTilesOf(p.N, p.pixels(), max(unit, w/unit*unit), unit)
		if p.inOne || c.chunks() >= convChunks || max(r, w) <= 16 || c.rows.size*c.tiles.cols()*depth < 2*convWork {
			return c
		}
		if w >= r {
			w /= 2
		} else {
			r /= 2
		}
	}
}

func (c *convOuter) chunks() int { return c.tiles.count() * c.p.Groups * c.rows.count() }

// packRoom is the room for a packed tile of the right operand, in elements.
func (c *convOuter) packRoom() int {
	if c.p.plain() && !c.tiles.several() {
		return 0
	}
	return c.depth.size * c.tiles.cols()
}

// outRoom is the room for a result that belongs to several images.
func (c *convOuter) outRoom() int {
	if !c.tiles.several() {
		return 0
	}
	return c.rows.size * c.tiles.cols()
}

func (c *convOuter) scratch(elem int) int64 {
	n := c.tiles.sizes()
	bytes := bytesOf(c.packRoom(), elem) + bytesOf(c.outRoom(), elem) +
		scratchOf([]int{c.rows.size, c.rows.last()}, n[:], []int{c.depth.size, c.depth.last()}, elem)
	if elem == 4 && c.p.paneled() {
		bytes = max(bytes, convBytes(c.p.forwardPanels(c)))
	}
	return bytes
}

// at is which tile, group and rows of the group chunk i has.
func (c *convOuter) at(i int) (t convTile, group, r0, r1 int) {
	rows := c.rows.count()
	r0, r1 = c.rows.at(i % rows)
	i /= rows
	return c.tiles.at(i / c.p.Groups), i % c.p.Groups, r0, r1
}

// convInner is dcol, added up by image and channel.
type convInner struct {
	p        *Conv
	channels pieces // of one group
	outs     pieces // output channels of one group
	tiles    convTiles
}

func newConvInner(p *Conv) convInner {
	c := convInner{p: p, tiles: newConvTiles(p.N, p.pixels(), convCols)}
	c.outs = pieces{p.outGroup(), p.outGroup()}
	if c.tiles.several() {
		c.outs = newPieces(p.outGroup(), convDepth, 8)
	}
	work := p.taps() * p.outGroup() * c.tiles.images.size * p.pixels() // of one channel
	for most := max(1, min(convDepth/p.taps(), convPanelPlanes/p.guarded(1))); ; most = ceilDiv(most, 2) {
		c.channels = newPieces(p.inGroup(), most, 1)
		if p.inOne || c.chunks() >= convChunks || most == 1 || most*work < 2*convWork {
			return c
		}
	}
}

func (c *convInner) chunks() int { return c.tiles.images.count() * c.p.Groups * c.channels.count() }

// rows cuts the rows of dcol that some channels have.
func (c *convInner) rows(channels int) pieces {
	return newPieces(channels*c.p.taps(), convDepth, 4)
}

func (c *convInner) rowsMost() int {
	return max(c.rows(c.channels.size).size, c.rows(c.channels.last()).size)
}

// packRoom is the room for g of several images.
func (c *convInner) packRoom() int {
	if !c.tiles.several() {
		return 0
	}
	return c.outs.size * c.tiles.cols()
}

func (c *convInner) scratch(elem int) int64 {
	a, b, n := c.rows(c.channels.size), c.rows(c.channels.last()), c.tiles.sizes()
	bytes := bytesOf(c.rowsMost()*c.tiles.cols(), elem) + bytesOf(c.packRoom(), elem) +
		scratchOf([]int{a.size, a.last(), b.size, b.last()}, n[:], []int{c.outs.size, c.outs.last()}, elem)
	if elem == 4 && c.p.inputPaneled(c) {
		bytes = max(bytes, convBytes(c.p.inputPanels(c)))
	}
	return bytes
}

// at is which images, group and channels of the group chunk i has.
func (c *convInner) at(i int) (n0, n1, group, c0, c1 int) {
	per := c.channels.count()
	c0, c1 = c.channels.at(i % per)
	i /= per
	n0, n1 = c.tiles.images.at(i / c.p.Groups)
	return n0, n1, i % c.p.Groups, c0, c1
}

// convWeight is dw.
type convWeight struct {
	p      *Conv
	rows   pieces // output channels of one group
	depth  pieces
	tiles  convTiles
	ranges pieces // of tiles
}

func newConvWeight(p *Conv) convWeight {
	most, unit := convCols, gemmCols
	if w := p.Out[1]; w <= convCols { // tiles of whole rows
		most, unit = convCols/w*w, w
	}
	c := convWeight{p: p, tiles: newConvTilesOf(p.N, p.pixels(), most, unit)}
	work := p.N * p.pixels() // of one element
	for r, k := convRows, convWeightDepth; ; {
		c.rows, c.depth = newPieces(p.outGroup(), r, panelCols), newPieces(p.depth(), k, 8)
		if size := c.rows.size * c.depth.size; p.inOne || c.cells() >= convChunks || size < 2*convLeast || size*work < 2*convWork {
			break
		}
		if c.rows.size > panelCols { // rows of g are packed once a piece, columns for each
			r /= 2
		} else {
			k /= 2
		}
	}
	c.ranges = pieces{c.tiles.count(), c.tiles.count()}
	if n := c.cells(); !p.inOne && n > 0 && n < convChunks && c.ranges.n > 0 {
		split := min(convChunks/n, c.ranges.n, c.rows.size*c.depth.size*work/convWork)
		c.ranges.size = ceilDiv(c.ranges.n, max(1, split))
	}
	return c
}

// cells is the number of pieces of dw.
func (c *convWeight) cells() int { return c.p.Groups * c.rows.count() * c.depth.count() }

func (c *convWeight) chunks() int { return c.cells() * max(1, c.ranges.count()) }

// shared is the room for partial sums, in elements.
func (c *convWeight) shared() int {
	if c.ranges.count() <= 1 {
		return 0
	}
	return c.ranges.count() * c.p.O * c.p.depth()
}

// colRoom is the room for a packed tile of col.
func (c *convWeight) colRoom() int {
	if c.p.plain() && !c.tiles.several() {
		return 0
	}
	return c.depth.size * c.tiles.cols()
}

// packRoom is the room for g of several images.
func (c *convWeight) packRoom() int {
	if !c.tiles.several() {
		return 0
	}
	return c.rows.size * c.tiles.cols()
}

func (c *convWeight) scratch(elem int) int64 {
	k := c.tiles.sizes()
	bytes := bytesOf(c.colRoom(), elem) + bytesOf(c.packRoom(), elem) +
		scratchOf([]int{c.rows.size, c.rows.last()}, []int{c.depth.size, c.depth.last()}, k[:], elem)
	if elem == 4 && c.p.paneled() {
		bytes = max(bytes, convBytes(c.p.weightPanels(c)))
	}
	return bytes
}

// at is which tiles, group, rows and depth of the group chunk i has.
func (c *convWeight) at(i int) (t0, t1, group, r0, r1, k0, k1 int) {
	k0, k1 = c.depth.at(i % c.depth.count())
	i /= c.depth.count()
	r0, r1 = c.rows.at(i % c.rows.count())
	i /= c.rows.count()
	t0, t1 = c.ranges.at(i / c.p.Groups)
	return t0, t1, i % c.p.Groups, r0, r1, k0, k1
}

// bytesOf is the room that convTake takes for n elements.
func bytesOf(n, elem int) int64 { return roundUp64(int64(n) * int64(elem)) }

// convTake cuts n elements off the front of scratch.
func convTake[T Float](scratch []byte, n int) (room []T, rest []byte) {
	var e T
	size := bytesOf(n, int(unsafe.Sizeof(e)))
	return View[T](scratch[:size])[:n:n], scratch[size:]
}

// tail is x from element i on, or nothing where x is too short to have it.
func tail[T Float](x []T, i int) []T { return x[min(i, len(x)):] }
