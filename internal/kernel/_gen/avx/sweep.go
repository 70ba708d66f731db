package avx

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// At is a place in a sweep: eight elements, or fewer under a mask.
type At struct {
	Step    int // number of the register in an unrolled round
	off     reg.Register
	mask    reg.VecVirtual    // nil: all eight
	doubles *[]reg.VecVirtual // the mask for float64, once it is wanted
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
	body(At{off: off, mask: maskOf(n), doubles: new([]reg.VecVirtual)})
	Label(end)
}

// Stream goes through n elements, n a multiple of 32 above 0, and writes what body makes of them to d, past the caches. d
// lies on a boundary of 32 bytes.
func Stream(n, d reg.GPVirtual, body func(At) reg.VecVirtual) {
	off, next := GP64(), label("next")
	XORQ(off, off)
	Label(next)
	for i := range 4 {
		at := At{Step: i, off: off}
		VMOVNTPS(body(at), at.mem(d))
	}
	ADDQ(Imm(4*Vector*Float), off)
	SUBQ(Imm(4*Vector), n)
	JNZ(LabelRef(next))
	SFENCE()
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

// Widen makes eight floats two registers of float64.
func Widen(v reg.VecVirtual) [2]reg.VecVirtual {
	lo, hi := YMM(), YMM()
	VEXTRACTF128(Imm(1), v, hi.AsX())
	VCVTPS2PD(v.AsX(), lo)
	VCVTPS2PD(hi.AsX(), hi)
	return [2]reg.VecVirtual{lo, hi}
}

// Narrow rounds two registers of float64 to eight floats. It overwrites them.
func Narrow(w [2]reg.VecVirtual) reg.VecVirtual {
	VCVTPD2PSY(w[0], w[0].AsX())
	VCVTPD2PSY(w[1], w[1].AsX())
	VINSERTF128(Imm(1), w[1].AsX(), w[0], w[0])
	return w[0]
}

// LoadWide is Load and Widen.
func (a At) LoadWide(p reg.Register) [2]reg.VecVirtual {
	if a.mask != nil {
		return Widen(a.Load(p))
	}
	w, m := [2]reg.VecVirtual{YMM(), YMM()}, a.mem(p)
	VCVTPS2PD(m, w[0])
	VCVTPS2PD(m.Offset(4*Float), w[1])
	return w
}

// KeepWide is Keep for float64.
func (a At) KeepWide(w [2]reg.VecVirtual) {
	if a.mask != nil {
		for h, mask := range a.halves() {
			VANDPD(mask, w[h], w[h])
		}
	}
}

// halves is the mask for float64.
func (a At) halves() []reg.VecVirtual {
	if *a.doubles == nil {
		lo, hi := YMM(), YMM()
		VEXTRACTI128(Imm(1), a.mask, hi.AsX())
		VPMOVSXDQ(a.mask.AsX(), lo)
		VPMOVSXDQ(hi.AsX(), hi)
		*a.doubles = []reg.VecVirtual{lo, hi}
	}
	return *a.doubles
}

func (a At) mem64(p reg.Register, half int) Mem {
	return Mem{Base: p, Index: a.off, Scale: 2, Disp: (2*a.Step + half) * Vector * Float}
}

// Load64 reads the elements here of the float64 at p.
func (a At) Load64(p reg.Register) [2]reg.VecVirtual {
	w := [2]reg.VecVirtual{YMM(), YMM()}
	for h, v := range w {
		if a.mask == nil {
			VMOVUPD(a.mem64(p, h), v)
		} else {
			VMASKMOVPD(a.mem64(p, h), a.halves()[h], v)
		}
	}
	return w
}

// Store64 writes them.
func (a At) Store64(w [2]reg.VecVirtual, p reg.Register) {
	for h, v := range w {
		if a.mask == nil {
			VMOVUPD(v, a.mem64(p, h))
		} else {
			VMASKMOVPD(v, a.halves()[h], a.mem64(p, h))
		}
	}
}

// Accumulate adds w to the first two of the sums.
func Accumulate(sums []reg.VecVirtual, w [2]reg.VecVirtual) {
	for h, v := range w {
		VADDPD(v, sums[h], sums[h])
	}
}

// Total64 adds up registers of float64, in pairs, and leaves the sum in the lowest element. It overwrites them. Their
// number is a power of two.
func Total64(sums []reg.VecVirtual) reg.VecVirtual {
	for n := len(sums) / 2; n > 0; n /= 2 {
		for i := range n {
			VADDPD(sums[i+n], sums[i], sums[i])
		}
	}
	s, t := sums[0], XMM()
	VEXTRACTF128(Imm(1), s, t)
	VADDPD(t, s.AsX(), s.AsX())
	VUNPCKHPD(s.AsX(), s.AsX(), t)
	VADDSD(t, s.AsX(), s.AsX())
	return s
}

// Max is the larger of a and b: NaN if one of them is, and 0 above -0.
func Max(a, b reg.VecVirtual) reg.VecVirtual { return extreme(VMAXPS, VANDPS, VCMPPS, a, b) }

// Max64 is Max of float64.
func Max64(a, b reg.VecVirtual) reg.VecVirtual { return extreme(VMAXPD, VANDPD, VCMPPD, a, b) }

// Min is the smaller.
func Min(a, b reg.VecVirtual) reg.VecVirtual { return extreme(VMINPS, VORPS, VCMPPS, a, b) }

// extreme: the instruction gives its second operand where they are zeros or one is NaN, so both orders are joined.
func extreme(pick, join, compare func(...Op), a, b reg.VecVirtual) reg.VecVirtual {
	x, y := YMM(), YMM()
	pick(a, b, x)
	pick(b, a, y)
	join(y, x, x)
	compare(Imm(Unordered), b, a, y)
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

// Else makes elements that are masked out those of other.
func (a At) Else(v, other reg.VecVirtual) {
	if a.mask != nil {
		VBLENDVPS(a.mask, v, other, v)
	}
}
