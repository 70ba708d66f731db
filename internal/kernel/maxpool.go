// Maximum over windows of a plane, in the layout [... H W]; padding is -Inf.
//
//	forward   y[o] = the largest of x in window o, code[o] = which     reads x
//	backward  dx[the element that code[o] names] += g[o]               reads codes
//
// A code is the place in the window, row after row, before the border cuts it. It takes as few bits as the window needs,
// 1, 2, 4, 8 or 16, so that codes of neighbours share a byte: two bits for a window of 2 x 2, four for 3 x 3. Code i has
// bits i*width and on of the little-endian bit string. A flat chunk starts at a multiple of 8 elements and so on a byte.
//
// As torch has it, of equal elements the first wins, of NaNs the last, and NaN beats all.

package kernel

// Pool is the geometry of windows over planes. Pairs are height and width. No window lies in the padding alone.
type Pool struct {
	Planes          int
	In, Kernel, Out [2]int
	Stride, Pad     [2]int
}

func (p *Pool) plane() int  { return p.In[0] * p.In[1] }
func (p *Pool) pixels() int { return p.Out[0] * p.Out[1] }

// window is the positions along dimension d of window o, before the border cuts it, and within.
func (p *Pool) window(d, o int) (start, lo, hi int) {
	start = o*p.Stride[d] - p.Pad[d]
	return start, max(0, start), min(p.In[d], start+p.Kernel[d])
}

// MaxPoolWindow is the largest window that codes can name the elements of.
const MaxPoolWindow = 1 << 16

// codeBits is the width of a code.
func (p *Pool) codeBits() int {
	bits := 1
	for p.Kernel[0]*p.Kernel[1] > 1<<bits {
		bits *= 2
	}
	return bits
}

// CodeBytes is the size of the codes of n outputs.
func (p *Pool) CodeBytes(n int) int { return (n*p.codeBits() + 7) / 8 }

// MaxPool fills outputs [lo, hi) of y, in row-major order, and, unless codes is nil, their codes. lo is a multiple of 8.
func MaxPool[T Float](p *Pool, y, x []T, codes []uint8, lo, hi int) {
	if codes != nil {
		codes = codes[p.CodeBytes(lo):p.CodeBytes(hi)]
		clear(codes)
	}
	if maxPoolFast(p, y, x, codes, lo, hi) {
		return
	}
	bits := p.codeBits()
	small := p.Kernel == [2]int{2, 2} && p.Pad == [2]int{}
	var at [256]uint16
	for i := lo; i < hi; {
		row := i / p.Out[1]
		ow := i % p.Out[1]
		n := min(hi-i, p.Out[1]-ow, len(at))
		plane := x[row/p.Out[0]*p.plane():][:p.plane()]
		if small {
			maxPool2(p, y[i:i+n], plane, &at, row%p.Out[0], ow)
		} else {
			maxPoolRow(p, y[i:i+n], plane, &at, row%p.Out[0], ow)
		}
		if codes != nil {
			putCodes(codes, bits, i-lo, at[:n])
		}
		i += n
	}
}

// maxPoolRow fills outputs of row oh from ow on, and which elements they are.
func maxPoolRow[T Float](p *Pool, y, plane []T, at *[256]uint16, oh, ow int) {
	top, r0, r1 := p.window(0, oh)
	for i := range y {
		left, c0, c1 := p.window(1, ow+i)
		best, code := plane[r0*p.In[1]+c0], (r0-top)*p.Kernel[1]+c0-left
		for r := r0; r < r1; r++ {
			first := (r-top)*p.Kernel[1] + c0 - left
			for k, v := range plane[r*p.In[1]+c0 : r*p.In[1]+c1] {
				if v > best || v != v {
					best, code = v, first+k
				}
			}
		}
		y[i], at[i] = best, uint16(code)
	}
}

// maxPool2 is maxPoolRow for windows of 2 x 2 that no border cuts. It does not branch on data: which of two neighbours is
// larger is a surprise to the branch predictor every second time.
func maxPool2[T Float](p *Pool, y, plane []T, at *[256]uint16, oh, ow int) {
	w, step := p.In[1], p.Stride[1]
	upper := plane[oh*p.Stride[0]*w+ow*step:]
	lower := upper[w:]
	for i := range y {
		u, l := upper[i*step:i*step+2], lower[i*step:i*step+2]
		a, b := beats(u[1], u[0]), beats(l[1], l[0])
		m := beats(l[b], u[a])
		code := m*(2+b) + (1-m)*a
		y[i], at[i] = upper[i*step+code&1+code>>1*w], uint16(code)
	}
}

// beats is 1 if a is larger than b, or NaN, and 0 otherwise.
func beats[T Float](a, b T) int {
	var larger, isNaN int
	if a > b {
		larger = 1
	}
	if a != a {
		isNaN = 1
	}
	return larger | isNaN
}

// putCodes sets codes from number i on, whose bits are zero.
func putCodes(codes []uint8, bits, i int, at []uint16) {
	if bits == 16 {
		for k, c := range at {
			codes[2*(i+k)], codes[2*(i+k)+1] = uint8(c), uint8(c>>8)
		}
		return
	}
	for k, c := range at {
		bit := (i + k) * bits
		codes[bit/8] |= uint8(c) << (bit % 8)
	}
}

// codeAt is code number i.
func codeAt(codes []uint8, bits, i int) int {
	if bits == 16 {
		return int(codes[2*i]) | int(codes[2*i+1])<<8
	}
	return int(codes[i*bits/8]) >> (i * bits % 8) & (1<<bits - 1)
}

// MaxPoolBackward fills planes [lo, hi) of dx with the gradient of x, or adds it.
func MaxPoolBackward[T Float](p *Pool, dx []T, add bool, g []T, codes []uint8, lo, hi int) {
	if maxPoolBackFast(p, dx, add, g, codes, lo, hi) {
		return
	}
	if !add {
		clear(dx[lo*p.plane() : hi*p.plane()])
	}
	bits, i := p.codeBits(), lo*p.pixels()
	for n := lo; n < hi; n++ {
		plane := dx[n*p.plane():][:p.plane()]
		for oh := range p.Out[0] {
			for ow := range p.Out[1] {
				c := uint32(codeAt(codes, bits, i))
				r, k := int(c/uint32(p.Kernel[1])), int(c%uint32(p.Kernel[1]))
				plane[(oh*p.Stride[0]-p.Pad[0]+r)*p.In[1]+ow*p.Stride[1]-p.Pad[1]+k] += g[i]
				i++
			}
		}
	}
}

// Chunks is how many pieces planes are cut into for backward; PlaneRange gives one. Windows overlap, planes do not.
func (p *Pool) Chunks() int { return RowChunks(p.Planes, p.plane()) }

// PlaneRange is the planes of chunk c.
func (p *Pool) PlaneRange(c int) (lo, hi int) { return RowRange(p.Planes, p.plane(), c) }
