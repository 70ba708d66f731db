//go:build amd64 && !purego

package kernel

//go:generate go -C _gen run ./pool2d -out ../pool2d_amd64.s

// Pooling over windows of 2 x 2 with stride 2: upper and lower are two rows of x, and of dx, y and g one of the result. Eight
// windows at a time; what is left over at the end of a row is done by going back to its last eight, where that does no
// harm.

// maxPool2x2 computes eights times eight maxima, and their codes of two bits. spread is poolSpread. eights is at least 1.
//
//go:noescape
func maxPool2x2(y, upper, lower *float32, eights int, codes, spread *uint16)

// maxPool2x2Back fills, or adds to, the two rows that the windows are in.
//
//go:noescape
func maxPool2x2Back(upper, lower, grad *float32, eights int, codes *uint16, add bool)

// avgPool2x2 computes eights times eight means.
//
//go:noescape
func avgPool2x2(y, upper, lower *float32, eights int)

// avgPool2x2Back fills, or adds to, the two rows that the windows are in.
//
//go:noescape
func avgPool2x2Back(upper, lower, grad *float32, eights int, add bool)

// poolSpread has the eight bits of a byte at every other place.
var poolSpread = func() (t [256]uint16) {
	for i := range t {
		for bit := range 8 {
			t[i] |= uint16(i>>bit&1) << (2 * bit)
		}
	}
	return t
}()

// poolWords is for how many times eight windows codes are held at a time.
const poolWords = 32

// halves tells that windows are 2 x 2, side by side, and that a row has eight of them.
func (p *Pool) halves() bool {
	two := [2]int{2, 2}
	return p.Kernel == two && p.Stride == two && p.Pad == [2]int{} && p.Out[1] >= 8
}

// rows gives the two rows of plane n that windows (oh, ow) and on are in.
func (p *Pool) rows(x []float32, n, oh, ow int) (upper, lower []float32) {
	upper = x[n*p.plane()+2*oh*p.In[1]+2*ow:]
	return upper, upper[p.In[1]:]
}

func maxPoolFast[T Float](p *Pool, y, x []T, codes []uint8, lo, hi int) bool {
	if !useAVX2 || !isFloat32[T]() || !p.halves() {
		return false
	}
	maxPoolHalves(p, any(y).([]float32), any(x).([]float32), codes, lo, hi)
	return true
}

// maxPoolHalves is MaxPool; codes begins with output lo.
func maxPoolHalves(p *Pool, y, x []float32, codes []uint8, lo, hi int) {
	var words [poolWords]uint16
	for i := lo; i < hi; {
		row, ow := i/p.Out[1], i%p.Out[1]
		n := min(hi-i, p.Out[1]-ow, 8*poolWords)
		upper, lower := p.rows(x, row/p.Out[0], row%p.Out[0], ow)
		if n < 8 {
			maxPoolFew(p, y[i:i+n], upper, codes, i-lo)
			i += n
			continue
		}
		upper, lower = upper[:2*n], lower[:2*n]
		maxPool2x2(&y[i], &upper[0], &lower[0], n/8, &words[0], &poolSpread[0])
		putWords(codes, 2*(i-lo), words[:n/8])
		if n%8 > 0 {
			at := n - 8
			maxPool2x2(&y[i+at], &upper[2*at], &lower[2*at], 1, &words[0], &poolSpread[0])
			putWords(codes, 2*(i-lo+at), words[:1])
		}
		i += n
	}
}

// maxPoolFew is for less than eight windows.
func maxPoolFew(p *Pool, y, upper []float32, codes []uint8, at int) {
	var few [256]uint16
	maxPool2(p, y, upper, &few, 0, 0)
	if codes != nil {
		putCodes(codes, 2, at, few[:len(y)])
	}
}

// putWords sets sixteen bits for each word, from that number on. They are 0, or have these values already.
func putWords(codes []uint8, bit int, words []uint16) {
	if codes == nil {
		return
	}
	for _, w := range words {
		v := uint32(w) << (bit % 8)
		codes[bit/8] |= uint8(v)
		codes[bit/8+1] |= uint8(v >> 8)
		if v >>= 16; v != 0 {
			codes[bit/8+2] |= uint8(v)
		}
		bit += 16
	}
}

// takeWords undoes putWords.
func takeWords(words []uint16, codes []uint8, bit int) {
	for i := range words {
		v := uint32(codes[bit/8]) | uint32(codes[bit/8+1])<<8
		if bit%8 > 0 {
			v |= uint32(codes[bit/8+2]) << 16
		}
		words[i] = uint16(v >> (bit % 8))
		bit += 16
	}
}

func maxPoolBackFast[T Float](p *Pool, dx []T, add bool, g []T, codes []uint8, lo, hi int) bool {
	if !useAVX2 || !isFloat32[T]() || !p.halves() {
		return false
	}
	d, gf := any(dx).([]float32), any(g).([]float32)
	p.eachRow(d, gf, add, lo, hi, func(upper, lower, g []float32, at int, eights int) {
		var words [poolWords]uint16
		for k := 0; k < eights; k += poolWords {
			n := min(poolWords, eights-k)
			takeWords(words[:n], codes, 2*(at+8*k))
			maxPool2x2Back(&upper[16*k], &lower[16*k], &g[8*k], n, &words[0], add)
		}
	}, func(upper, lower []float32, g float32, at int) {
		c := codeAt(codes, 2, at)
		row := upper
		if c >= 2 {
			row = lower
		}
		row[c%2] += g
	})
	return true
}

// eachRow goes through the rows of planes [lo, hi) of dx. many is called for windows from number at on, by eights, and few
// for single ones at the end of a row, if they must not be done twice. What no window covers becomes 0, unless add.
func (p *Pool) eachRow(dx, g []float32, add bool, lo, hi int, many func(upper, lower, g []float32, at, eights int), few func(upper, lower []float32, g float32, at int)) {
	n := p.Out[1]
	for i := lo * p.Out[0]; i < hi*p.Out[0]; i++ {
		upper, lower := p.rows(dx, i/p.Out[0], i%p.Out[0], 0)
		upper, lower = upper[:p.In[1]], lower[:p.In[1]]
		g := g[i*n:][:n]
		many(upper, lower, g, i*n, n/8)
		if !add {
			clear(upper[2*n:])
			clear(lower[2*n:])
		}
		if n%8 > 0 && !add {
			many(upper[2*(n-8):], lower[2*(n-8):], g[n-8:], i*n+n-8, 1)
			continue
		}
		for k := n &^ 7; k < n; k++ {
			few(upper[2*k:], lower[2*k:], g[k], i*n+k)
		}
	}
	if end := 2 * p.Out[0] * p.In[1]; !add && end < p.plane() {
		for n := lo; n < hi; n++ {
			clear(dx[n*p.plane()+end:][:p.plane()-end])
		}
	}
}

func avgPoolFast[T Float](p *AvgPool, y, x []T, lo, hi int) bool {
	if !useAVX2 || !isFloat32[T]() || p.Adaptive || !p.halves() {
		return false
	}
	yf, xf, n := any(y).([]float32), any(x).([]float32), p.Out[1]
	for i := lo * p.Out[0]; i < hi*p.Out[0]; i++ {
		upper, lower := p.rows(xf, i/p.Out[0], i%p.Out[0], 0)
		upper, lower = upper[:2*n], lower[:2*n]
		row := yf[i*n:][:n]
		avgPool2x2(&row[0], &upper[0], &lower[0], n/8)
		if n%8 > 0 {
			at := n - 8
			avgPool2x2(&row[at], &upper[2*at], &lower[2*at], 1)
		}
	}
	return true
}

func avgPoolBackFast[T Float](p *AvgPool, dx []T, add bool, g []T, lo, hi int) bool {
	if !useAVX2 || !isFloat32[T]() || p.Adaptive || !p.halves() {
		return false
	}
	p.eachRow(any(dx).([]float32), any(g).([]float32), add, lo, hi, func(upper, lower, g []float32, _, eights int) {
		avgPool2x2Back(&upper[0], &lower[0], &g[0], eights, add)
	}, func(upper, lower []float32, g float32, _ int) {
		g *= 0.25
		upper[0], upper[1] = upper[0]+g, upper[1]+g
		lower[0], lower[1] = lower[0]+g, lower[1]+g
	})
	return true
}
