// Command wide writes functions of one operand that are computed in float64 and rounded once: four elements at a time, but
// nothing is lost where float32 would need two numbers for one. From the folder above:
//
//	go run ./wide -out ../unary_wide_amd64.s
//
// The functions are those of unary.go.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

const (
	signBit  = 1 << 31
	infinity = 0x7f800000
)

func main() {
	Begin()
	sine()
	power()
	softplus()
	Generate()
}

// each rounds what f makes of each half of x.
func each(x reg.VecVirtual, f func(x reg.VecVirtual) reg.VecVirtual) reg.VecVirtual {
	w := Widen(x)
	for h := range w {
		w[h] = f(w[h])
	}
	return Narrow(w)
}

// returnAny ends a function whose result is whether a bit of a comparison is set.
func returnAny(is reg.VecVirtual) {
	bits, any := GP32(), GP8()
	VMOVMSKPS(is, bits)
	TESTL(bits, bits)
	SETNE(any)
	Store(any, ReturnIndex(0))
	Done()
}

// sineMost is where the reduction of sineOf ends: what pi/2 in two parts is short of, times 2^40, is still 2^-38 of the
// remainder nearest to 0 that a float32 below that has.
const sineMost = 1 << 40

func sine() {
	Start("mapSine", "(n int, y, x *float32, quarters int) bool")
	n, y, x := Int("n"), Int("y"), Int("x")
	quarters, odd := YMM(), Zeroed(1)[0]
	VMOVQ(Int("quarters"), quarters.AsX())
	VPBROADCASTQ(quarters.AsX(), quarters)
	Sweep(n, 1, func(at At) {
		v, far := at.Load(x), YMM()
		VANDPS(Bits(^uint32(signBit)), v, far)
		VCMPPS(Imm(NotLess), Const(sineMost), far, far)
		VORPS(far, odd, odd)
		at.Store(each(v, func(x reg.VecVirtual) reg.VecVirtual { return sineOf(x, quarters) }), y)
	})
	returnAny(odd)
}

// The minimax polynomials S and C of degree 3 in sin r = r + r^3 S(r^2) and cos r = 1 - r^2/2 + r^4 C(r^2), |r| <= pi/4, with
// errors below 2^-37 and 2^-43.
var (
	sinPoly = []float64{-0x1.5555554c6dc3ap-3, 0x1.1111086ac4811p-7, -0x1.a00f7fd8c5d3ap-13, 0x1.6cd2083ce4ceep-19}
	cosPoly = []float64{0x1.5555554f03d01p-5, -0x1.6c16b85479780p-10, 0x1.a010f870df653p-16, -0x1.24236ffce9571p-22}
)

// sineOf is the sine of x plus so many right angles: x = n pi/2 + r, and the two lowest bits of n tell which of sin r, cos r,
// -sin r and -cos r it is. pi/2 comes in two parts; n times the first, taken from x, is rounded once, where it is small.
func sineOf(x, quarters reg.VecVirtual) reg.VecVirtual {
	const low = 0x1.1a62633145c07p-54 // of pi/2
	n, z, square, s, c := YMM(), YMM(), YMM(), YMM(), YMM()
	VMOVAPD(Const64(Magic64), n)
	VFMADD231PD(Const64(2/math.Pi), x, n)
	VSUBPD(Const64(Magic64), n, z)
	VFNMADD231PD(Const64(math.Pi/2), z, x)
	VFNMADD231PD(Const64(low), z, x)
	VPADDQ(quarters, n, n)
	VMULPD(x, x, square)
	Poly64(s, square, append([]float64{1}, sinPoly...))
	VMULPD(x, s, s)
	Poly64(c, square, append([]float64{1, -0.5}, cosPoly...))
	VPSLLQ(Imm(63), n, z)
	VBLENDVPD(z, c, s, s)
	VPSRLQ(Imm(1), n, n)
	VPSLLQ(Imm(63), n, n)
	VXORPD(n, s, s)
	return s
}

// power is factor x^a, that is factor e^(a ln x). From e^-150 down a float32 is 0, and from e^130 up infinite.
func power() {
	Start("mapPower", "(n int, y, x *float32, a, factor float64) bool")
	n, y, x := Int("n"), Int("y"), Int("x")
	a, factor, odd := Scalar64("a"), Scalar64("factor"), Zeroed(1)[0]
	Sweep(n, 1, func(at At) {
		v, is := at.Load(x), Zeroed(1)[0]
		VCMPPS(Imm(NotLess), v, is, is)
		at.Keep(is)
		VORPS(is, odd, odd)
		VCMPPS(Imm(NotLess), Bits(infinity), v, is)
		VORPS(is, odd, odd)
		at.Store(each(v, func(x reg.VecVirtual) reg.VecVirtual {
			p := LogSum64(Split64(x))
			VMULPD(a, p, p)
			VMAXPD(p, Full64(-150), p)
			VMINPD(p, Full64(130), p)
			p = Exp64(p)
			VMULPD(factor, p, p)
			return p
		}), y)
	})
	returnAny(odd)
}

// softplus is ln(1 + e), e = e^x, and x itself from 20 on.
func softplus() {
	Start("mapSoftplus", "(n int, y, x *float32)")
	n, y, x := Int("n"), Int("y"), Int("x")
	Sweep(n, 1, func(at At) {
		v, far := at.Load(x), YMM()
		VCMPPS(Imm(NotLess), Const(20), v, far)
		s := each(v, softplusOf)
		VBLENDVPS(far, v, s, s)
		at.Store(s, y)
	})
	Done()
}

// softplusOf takes 1+e = 2^k (1+f) apart; where k is 0, f is e itself, whose digits 1+e has lost.
func softplusOf(x reg.VecVirtual) reg.VecVirtual {
	VMAXPD(x, Full64(-150), x) // of which a float32 is 0
	VMINPD(x, Full64(20), x)
	e := Exp64(x)
	u, none := Full64(1), Zeroed(1)[0]
	VADDPD(e, u, u)
	k, f := Split64(u)
	VCMPPD(Imm(Equal), k, none, none)
	VBLENDVPD(none, e, f, f)
	return LogSum64(k, f)
}
