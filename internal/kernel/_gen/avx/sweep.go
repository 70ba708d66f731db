package avx

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// At is a place in a sweep: eight elements, or fewer under a mask.
type At struct {
	Step   int // number of the register in an unrolled round
	off    reg.Register
	mask   reg.VecVirtual // nil: all eight
	halves [2]reg.VecVirtual
}

// Sweep goes through n elements, so many registers a round, then one by one, then under a mask. Elements that are masked
// out are read as 0 and not written; no byte of them is touched.
func Sweep(n reg.GPVirtual, unroll int, body func(At)) {
	off, round, rest, one, tail, end := GP64(), label("round"), label("rest"), label("one"), label("tail"), label("end")
	XORQ(off, off)
	if unroll > 1 {
		SUBQ(Imm(uint64(unroll*Vector)), n)
		JLT(LabelRef(rest))
		Label(round)
		for i := range unroll {
			body(At{Step: i, off: off})
		}
		ADDQ(Imm(uint64(unroll*Vector*Float)), off)
		SUBQ(Imm(uint64(unroll*Vector)), n)
		JGE(LabelRef(round))
		Label(rest)
		ADDQ(Imm(uint64(unroll*Vector)), n)
	}
	SUBQ(Imm(Vector), n)
	JLT(LabelRef(tail))
	Label(one)
	body(At{off: off})
	ADDQ(Imm(Vector*Float), off)
	SUBQ(Imm(Vector), n)
	JGE(LabelRef(one))
	Label(tail)
	ADDQ(Imm(Vector), n)
	JZ(LabelRef(end))
	body(At{off: off, mask: maskOf(n)})
	Label(end)
}

// maskOf is a mask of n elements, 1 to 7.
func maskOf(n reg.GPVirtual) reg.VecVirtual {
	mask, at := YMM(), GP64()
	LEAQ(masks.Offset(Vector*Float), at)
	NEGQ(n)
	VMOVUPS(Mem{Base: at, Index: n, Scale: Float}, mask)
	return mask
}

func (a At) mem(p reg.Register) Mem {
	return Mem{Base: p, Index: a.off, Scale: 1, Disp: a.Step * Vector * Float}
}

// Load reads the elements here of the floats at p.
func (a At) Load(p reg.Register) reg.VecVirtual {
	v := YMM()
	if a.mask == nil {
		VMOVUPS(a.mem(p), v)
	} else {
		VMASKMOVPS(a.mem(p), a.mask, v)
	}
	return v
}

// Store writes them.
func (a At) Store(v reg.VecVirtual, p reg.Register) {
	if a.mask == nil {
		VMOVUPS(v, a.mem(p))
	} else {
		VMASKMOVPS(v, a.mask, a.mem(p))
	}
}

// Put writes v, or adds it to what is there.
func (a At) Put(v reg.VecVirtual, p reg.Register, add bool) {
	if add {
		VADDPS(a.Load(p), v, v)
	}
	a.Store(v, p)
}

// Keep makes elements that are masked out 0, after arithmetic may have changed them.
func (a At) Keep(v reg.VecVirtual) {
	if a.mask != nil {
		VANDPS(a.mask, v, v)
	}
}

// Max is the larger of a and b: NaN if one of them is, and 0 above -0.
func Max(a, b reg.VecVirtual) reg.VecVirtual { return extreme(VMAXPS, VANDPS, a, b) }

// Min is the smaller.
func Min(a, b reg.VecVirtual) reg.VecVirtual { return extreme(VMINPS, VORPS, a, b) }

// extreme: the instruction gives its second operand where they are zeros or one is NaN, so both orders are joined.
func extreme(pick, join func(...Op), a, b reg.VecVirtual) reg.VecVirtual {
	x, y := YMM(), YMM()
	pick(a, b, x)
	pick(b, a, y)
	join(y, x, x)
	VCMPPS(Imm(Unordered), b, a, y)
	VORPS(y, x, x)
	return x
}

// Comparisons, the immediate of VCMPPS. None of them signals.
const (
	Equal     = 0x00
	Less      = 0x11
	LessEqual = 0x12
	Unordered = 0x03
	NotEqual  = 0x04 // or unordered
	Apart     = 0x0c // not equal, and ordered
	NotLess   = 0x15 // or unordered
)

// Eights goes through 8 n elements, n at least 1, whose bytes, if they have any at b, go along.
func Eights(n, b reg.GPVirtual, body func(at At, bytes Mem)) {
	off, next := GP64(), label("next")
	XORQ(off, off)
	Label(next)
	body(At{off: off}, Mem{Base: b})
	ADDQ(Imm(Vector), b)
	ADDQ(Imm(Vector*Float), off)
	DECQ(n)
	JNZ(LabelRef(next))
}
