// Choosing between two operands, element by element. Broadcasting is stride 0.
//
//	Where   dst = cond ? a : b                 reads all three
//	Fill    dst = cond ? value : src           reads src and cond
//	Keep    dst = or += cond = when ? g : 0    reads cond: the gradients of all of them
//
// What is not chosen does not matter, NaN or not. The loops do not branch on cond.

package kernel

import "unsafe"

// Where fills elements [lo, hi), in row-major order, of dst with a where cond holds, with b elsewhere. dst may be a or b.
func Where[T Number](dst Strided[T], cond Strided[bool], a, b Strided[T], lo, hi int) {
	var d, x, y blocks[T]
	var c blocks[uint8]
	d.open(dst)
	x.open(a)
	y.open(b)
	c.open(Truth(cond))
	for n := 0; lo < hi; lo += n {
		n = reach(hi-lo, d.flat && x.flat && y.flat && c.flat)
		row := d.at(lo, n)
		chooseRow(row, c.at(lo, n), x.at(lo, n), y.at(lo, n))
		d.put(lo, row)
	}
}

// Fill fills elements [lo, hi), in row-major order, of dst with value where cond holds, with src elsewhere. dst may be
// src.
func Fill[T Number](dst, src Strided[T], cond Strided[bool], value T, lo, hi int) {
	var d, x blocks[T]
	var c blocks[uint8]
	var values [expBlock]T
	d.open(dst)
	x.open(src)
	c.open(Truth(cond))
	takeRow(values[:], []T{value}, 0)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row := d.at(lo, n)
		chooseRow(row, c.at(lo, n), values[:n], x.at(lo, n))
		d.put(lo, row)
	}
}

// Keep fills elements [lo, hi), in row-major order, of dst with g where cond is when, with 0 elsewhere, or adds that.
func Keep[T Float](dst Strided[T], add bool, g Strided[T], cond Strided[bool], when bool, lo, hi int) {
	var d, gs blocks[T]
	var c blocks[uint8]
	d.open(dst)
	gs.open(g)
	c.open(Truth(cond))
	for n := 0; lo < hi; lo += n {
		n = reach(hi-lo, d.flat && gs.flat && c.flat)
		row := d.at(lo, n)
		keepRow(row, add, gs.at(lo, n), c.at(lo, n), bit(!when))
		d.put(lo, row)
	}
}

// chooseRow works on the elements' bits, which a conditional move can choose between.
func chooseRow[T Number](d []T, c []uint8, x, y []T) {
	done := chooseFast(d, c, x, y)
	d, c, x, y = d[done:], c[done:], x[done:], y[done:]
	if unsafe.Sizeof(T(0)) == 4 {
		chooseBits(bitsOf[uint32](d), c, bitsOf[uint32](x), bitsOf[uint32](y))
		return
	}
	chooseBits(bitsOf[uint64](d), c, bitsOf[uint64](x), bitsOf[uint64](y))
}

func chooseBits[W uint32 | uint64](d []W, c []uint8, x, y []W) {
	c, x, y = c[:len(d)], x[:len(d)], y[:len(d)]
	for i := range d {
		v := y[i]
		d[i] = v ^ (v^x[i])&-W(c[i])
	}
}

// bitsOf sees numbers as words of the same size.
func bitsOf[W uint32 | uint64, T Number](x []T) []W {
	return unsafe.Slice((*W)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

func keepRow[T Float](d []T, add bool, g []T, c []uint8, flip uint8) {
	done := keepFast(d, add, g, c, flip)
	d, g, c = d[done:], g[done:], c[done:]
	g, c = g[:len(d)], c[:len(d)]
	for i := range d {
		v := keepIf(c[i]^flip, g[i])
		if add {
			v += d[i]
		}
		d[i] = v
	}
}
