// Command pool2d writes pooling over windows of 2 x 2 with stride 2. From the folder above:
//
//	go run ./pool2d -out ../pool2d_amd64.s
//
// What each function does, and what it demands of its arguments, is said where it is declared: pool2d_amd64.go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

// Predicates of VCMPPS.
const (
	unordered = 3
	greater   = 0x1e // false for NaN
)

func main() {
	ConstraintExpr("amd64,!purego")
	maximum()
	maximumBack()
	mean()
	meanBack()
	Generate()
}

// apart loads sixteen elements as those at even places and those at odd ones.
func apart(p reg.Register) (even, odd reg.VecVirtual) {
	lo, hi := YMM(), YMM()
	even, odd = YMM(), YMM()
	VMOVUPS(Mem{Base: p}, lo)
	VMOVUPS(Mem{Base: p, Disp: Vector * Float}, hi)
	VSHUFPS(Imm(0x88), hi, lo, even) // 0 2 8 10, 4 6 12 14
	VSHUFPS(Imm(0xdd), hi, lo, odd)
	VPERMPD(Imm(0xd8), even, even)
	VPERMPD(Imm(0xd8), odd, odd)
	return even, odd
}

// together stores two vectors as neighbours, or adds them.
func together(even, odd reg.VecVirtual, p reg.Register, add bool) {
	a, b, lo, hi := YMM(), YMM(), YMM(), YMM()
	VUNPCKLPS(odd, even, a) // 0 1 of each half
	VUNPCKHPS(odd, even, b)
	VPERM2F128(Imm(0x20), b, a, lo)
	VPERM2F128(Imm(0x31), b, a, hi)
	for i, v := range []reg.VecVirtual{lo, hi} {
		at := Mem{Base: p, Disp: i * Vector * Float}
		if add {
			VADDPS(at, v, v)
		}
		VMOVUPS(v, at)
	}
}

// better chooses b where it is larger than a, or NaN.
func better(a, b reg.VecVirtual) (mask, best reg.VecVirtual) {
	nan := YMM()
	mask, best = YMM(), YMM()
	VCMPPS(Imm(greater), a, b, mask)
	VCMPPS(Imm(unordered), b, b, nan)
	VORPS(nan, mask, mask)
	VBLENDVPS(mask, b, a, best)
	return mask, best
}

func maximum() {
	Start("maxPool2x2", "(y, upper, lower *float32, eights int, codes, spread *uint16)")
	y, upper, lower, n, codes, spread := Int("y"), Int("upper"), Int("lower"), Int("eights"), Int("codes"), Int("spread")
	Label("eight")
	ue, uo := apart(upper)
	a, top := better(ue, uo)
	le, lo := apart(lower)
	b, bottom := better(le, lo)
	m, best := better(top, bottom)
	VMOVUPS(best, Mem{Base: y})
	VBLENDVPS(m, b, a, a)
	low, high := GP64(), GP64()
	VMOVMSKPS(a, low.As32())
	VMOVMSKPS(m, high.As32())
	MOVWLZX(Mem{Base: spread, Index: low, Scale: 2}, low.As32())
	MOVWLZX(Mem{Base: spread, Index: high, Scale: 2}, high.As32())
	LEAL(Mem{Base: low, Index: high, Scale: 2}, low.As32())
	MOVW(low.As16(), Mem{Base: codes})
	next(y, upper, lower)
	ADDQ(Imm(2), codes)
	DECQ(n)
	JNZ(LabelRef("eight"))
	Done()
}

// next goes on by eight windows.
func next(small, upper, lower reg.Register) {
	ADDQ(Imm(Vector*Float), small)
	ADDQ(Imm(2*Vector*Float), upper)
	ADDQ(Imm(2*Vector*Float), lower)
}

func maximumBack() {
	Start("maxPool2x2Back", "(upper, lower, grad *float32, eights int, codes *uint16, add bool)")
	upper, lower, g, codes := Int("upper"), Int("lower"), Int("grad"), Int("codes")
	shifts := GLOBL("shifts", RODATA|NOPTR)
	for i := range Vector {
		DATA(i*Float, U32(uint32(2*i)))
	}
	If("add", func(add bool) {
		n, name := Int("eights"), "fill"
		if add {
			name = "add"
		}
		Label(name)
		x, bits, code, three := YMM(), GP32(), YMM(), YMM()
		VMOVUPS(Mem{Base: g}, x)
		MOVWLZX(Mem{Base: codes}, bits)
		VMOVD(bits, code.AsX())
		VPBROADCASTD(code.AsX(), code)
		VPSRLVD(shifts, code, code)
		VMOVAPS(Bits(3), three)
		VPAND(three, code, code)
		var part [4]reg.VecVirtual
		for i := range part {
			part[i] = YMM()
			if i == 0 {
				VPXOR(part[i], part[i], part[i])
				VPCMPEQD(part[i], code, part[i])
			} else {
				VPCMPEQD(Bits(uint32(i)), code, part[i])
			}
			VANDPS(x, part[i], part[i])
		}
		together(part[0], part[1], upper, add)
		together(part[2], part[3], lower, add)
		next(g, upper, lower)
		ADDQ(Imm(2), codes)
		DECQ(n)
		JNZ(LabelRef(name))
		Done()
	})
}

func mean() {
	Start("avgPool2x2", "(y, upper, lower *float32, eights int)")
	y, upper, lower, n := Int("y"), Int("upper"), Int("lower"), Int("eights")
	Label("eight")
	ue, uo := apart(upper)
	le, lo := apart(lower)
	VADDPS(uo, ue, ue)
	VADDPS(lo, le, le)
	VADDPS(le, ue, ue)
	VMULPS(Const(0.25), ue, ue)
	VMOVUPS(ue, Mem{Base: y})
	next(y, upper, lower)
	DECQ(n)
	JNZ(LabelRef("eight"))
	Done()
}

func meanBack() {
	Start("avgPool2x2Back", "(upper, lower, grad *float32, eights int, add bool)")
	upper, lower, g := Int("upper"), Int("lower"), Int("grad")
	If("add", func(add bool) {
		n, name := Int("eights"), "fill"
		if add {
			name = "add"
		}
		Label(name)
		x := YMM()
		VMOVUPS(Mem{Base: g}, x)
		VMULPS(Const(0.25), x, x)
		together(x, x, upper, add)
		together(x, x, lower, add)
		next(g, upper, lower)
		DECQ(n)
		JNZ(LabelRef(name))
		Done()
	})
}
