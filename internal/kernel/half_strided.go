// Half tensors to kernels that compute in float32, and back, each operand with its own strides:
//
//	Widen           dst = or += src          float32 from a half
//	Round           dst = or += src          a half from float32
//	AccumulateHalf  dst += src               both halves
//
// Sums are made in float32 and rounded once, to nearest even. Blocks of expBlock elements lie on the stack.

package kernel

// Half says which 16 bits a half type has.
type Half uint8

// The half types.
const (
	F16  Half = iota // IEEE 754 binary16
	BF16             // the upper half of a float32
)

// Widen fills dst, as long as src, with the values of src.
func (h Half) Widen(dst []float32, src []uint16) {
	if h == F16 {
		F16ToF32(dst, src)
		return
	}
	BF16ToF32(dst, src)
}

// Round fills dst, as long as src, with src rounded to nearest even.
func (h Half) Round(dst []uint16, src []float32) {
	if h == F16 {
		F32ToF16(dst, src)
		return
	}
	F32ToBF16(dst, src)
}

// Widen fills elements [lo, hi), in row-major order, of dst with src, or adds it.
func Widen(h Half, dst Strided[float32], add bool, src Strided[uint16], lo, hi int) {
	var room [expBlock]float32
	var p blockPair[float32, uint16]
	for p.open(dst, src, lo, hi); p.more(); {
		d, s := p.at()
		if x := room[:len(d)]; add {
			h.Widen(x, s)
			addRow(d, d, x)
		} else {
			h.Widen(d, s)
		}
		p.put(d)
	}
}

// Round fills elements [lo, hi), in row-major order, of dst with src rounded, or with the rounded sum of both.
func Round(h Half, dst Strided[uint16], add bool, src Strided[float32], lo, hi int) {
	var room [expBlock]float32
	var p blockPair[uint16, float32]
	for p.open(dst, src, lo, hi); p.more(); {
		d, s := p.at()
		if x := room[:len(d)]; add {
			h.Widen(x, d)
			addRow(x, x, s)
			s = x
		}
		h.Round(d, s)
		p.put(d)
	}
}

// AccumulateHalf adds elements [lo, hi), in row-major order, of src to dst.
func AccumulateHalf(h Half, dst, src Strided[uint16], lo, hi int) {
	var a, b [expBlock]float32
	var p blockPair[uint16, uint16]
	for p.open(dst, src, lo, hi); p.more(); {
		d, s := p.at()
		x, y := a[:len(d)], b[:len(d)]
		h.Widen(x, d)
		h.Widen(y, s)
		addRow(x, x, y)
		h.Round(d, x)
		p.put(d)
	}
}

// Quantize fills elements [lo, hi), in row-major order, of dst with src rounded to a half type, in float32.
func Quantize(h Half, dst, src Strided[float32], lo, hi int) {
	var p blockPair[float32, float32]
	for p.open(dst, src, lo, hi); p.more(); {
		d, s := p.at()
		h.quantize(d, s)
		p.put(d)
	}
}

// quantize fills dst, as long as src, with src rounded to the half type, in float32.
func (h Half) quantize(dst, src []float32) {
	var room [expBlock]uint16
	for len(src) > 0 {
		n := min(len(src), expBlock)
		h.Round(room[:n], src[:n])
		h.Widen(dst[:n], room[:n])
		dst, src = dst[n:], src[n:]
	}
}

// AccumulateTo64 adds elements [lo, hi), in row-major order, of src to dst.
func AccumulateTo64(h Half, dst Strided[float64], src Strided[uint16], lo, hi int) {
	var room [expBlock]float32
	var p blockPair[float64, uint16]
	for p.open(dst, src, lo, hi); p.more(); {
		d, s := p.at()
		x := room[:len(d)]
		h.Widen(x, s)
		for i, v := range x {
			d[i] += float64(v)
		}
		p.put(d)
	}
}

// AccumulateFrom64 adds elements [lo, hi), in row-major order, of src to dst: in float64, rounded once.
func AccumulateFrom64(h Half, dst Strided[uint16], src Strided[float64], lo, hi int) {
	var room [expBlock]float32
	var p blockPair[uint16, float64]
	for p.open(dst, src, lo, hi); p.more(); {
		d, s := p.at()
		x := room[:len(d)]
		h.Widen(x, d)
		for i, v := range s {
			x[i] = Odd32(float64(x[i]) + v)
		}
		h.Round(d, x)
		p.put(d)
	}
}

// Take fills dst with the elements of src from number at on, in row-major order.
func Take[T any](dst []T, src Strided[T], at int) {
	var b blocks[T]
	b.open(src)
	for i := 0; i < len(dst); {
		n := reach(len(dst)-i, b.flat)
		copy(dst[i:], b.at(at+i, n))
		i += n
	}
}

// Put fills the elements of dst from number at on, in row-major order, with src, or adds it.
func Put(dst Strided[float32], add bool, src []float32, at int) {
	var b blocks[float32]
	b.open(dst)
	for len(src) > 0 {
		n := reach(len(src), b.flat)
		d := b.at(at, n)
		if add {
			addRow(d, d, src[:n])
		} else {
			copy(d, src[:n])
		}
		b.put(at, d)
		src, at = src[n:], at+n
	}
}

// TakeHalf is Take of halves, widened.
func TakeHalf(h Half, dst []float32, src Strided[uint16], at int) {
	var b blocks[uint16]
	b.open(src)
	for len(dst) > 0 {
		n := reach(len(dst), b.flat)
		h.Widen(dst[:n], b.at(at, n))
		dst, at = dst[n:], at+n
	}
}

// PutHalf is Put into halves: each element is rounded once, and so is each sum.
func PutHalf(h Half, dst Strided[uint16], add bool, src []float32, at int) {
	var room [expBlock]float32
	var b blocks[uint16]
	b.open(dst)
	for len(src) > 0 {
		n := len(src)
		if add || !b.flat {
			n = min(n, expBlock)
		}
		d, x := b.at(at, n), src[:n]
		if add {
			h.Widen(room[:n], d)
			addRow(room[:n], room[:n], x)
			x = room[:n]
		}
		h.Round(d, x)
		b.put(at, d)
		src, at = src[n:], at+n
	}
}

// SumRows leaves the sum of rows of n elements, stride apart, in the first of them.
func SumRows(x []float32, rows, n, stride int) {
	var acc [sumBlock]float64
	for lo := 0; lo < n && rows > 1; lo += sumBlock {
		k := min(sumBlock, n-lo)
		clear(acc[:k])
		for r := range rows {
			addDown(acc[:k], x[r*stride+lo:], 1, 0)
		}
		for i, v := range acc[:k] {
			x[lo+i] = float32(v)
		}
	}
}
