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
	var d blocks[float32]
	var s blocks[uint16]
	var room [expBlock]float32
	d.open(dst)
	s.open(src)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row := d.at(lo, n)
		if add {
			h.Widen(room[:n], s.at(lo, n))
			addRow(row, row, room[:n])
		} else {
			h.Widen(row, s.at(lo, n))
		}
		d.put(lo, row)
	}
}

// Round fills elements [lo, hi), in row-major order, of dst with src rounded, or with the rounded sum of both.
func Round(h Half, dst Strided[uint16], add bool, src Strided[float32], lo, hi int) {
	var d blocks[uint16]
	var s blocks[float32]
	var room [expBlock]float32
	d.open(dst)
	s.open(src)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row, x := d.at(lo, n), s.at(lo, n)
		if add {
			h.Widen(room[:n], row)
			addRow(room[:n], room[:n], x)
			x = room[:n]
		}
		h.Round(row, x)
		d.put(lo, row)
	}
}

// AccumulateHalf adds elements [lo, hi), in row-major order, of src to dst.
func AccumulateHalf(h Half, dst, src Strided[uint16], lo, hi int) {
	var d, s blocks[uint16]
	var a, b [expBlock]float32
	d.open(dst)
	s.open(src)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row := d.at(lo, n)
		h.Widen(a[:n], row)
		h.Widen(b[:n], s.at(lo, n))
		addRow(a[:n], a[:n], b[:n])
		h.Round(row, a[:n])
		d.put(lo, row)
	}
}

// Quantize fills elements [lo, hi), in row-major order, of dst with src rounded to a half type, in float32.
func Quantize(h Half, dst, src Strided[float32], lo, hi int) {
	var d, s blocks[float32]
	var room [expBlock]uint16
	d.open(dst)
	s.open(src)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row := d.at(lo, n)
		h.Round(room[:n], s.at(lo, n))
		h.Widen(row, room[:n])
		d.put(lo, row)
	}
}

// AccumulateTo64 adds elements [lo, hi), in row-major order, of src to dst.
func AccumulateTo64(h Half, dst Strided[float64], src Strided[uint16], lo, hi int) {
	var d blocks[float64]
	var s blocks[uint16]
	var room [expBlock]float32
	d.open(dst)
	s.open(src)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row := d.at(lo, n)
		h.Widen(room[:n], s.at(lo, n))
		for i, v := range room[:n] {
			row[i] += float64(v)
		}
		d.put(lo, row)
	}
}

// AccumulateFrom64 adds elements [lo, hi), in row-major order, of src to dst: in float64, rounded once.
func AccumulateFrom64(h Half, dst Strided[uint16], src Strided[float64], lo, hi int) {
	var d blocks[uint16]
	var s blocks[float64]
	var room [expBlock]float32
	d.open(dst)
	s.open(src)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row := d.at(lo, n)
		h.Widen(room[:n], row)
		for i, v := range s.at(lo, n) {
			room[i] = Odd32(float64(room[i]) + v)
		}
		h.Round(row, room[:n])
		d.put(lo, row)
	}
}
