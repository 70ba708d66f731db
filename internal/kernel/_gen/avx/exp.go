package avx

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// e^x = 2^n (1 + t), n the integer next to x/ln 2, 1+t the exponential of what is left: |r| <= ln 2 / 2. ln 2 comes in two
// parts of which the first has nine bits, so that n times it, taken from x, leaves no error; t = r + r^2 q(r), q the minimax
// polynomial of degree 4, whose coefficients were rounded to float32 one by one and the others fitted again. The relative
// error of 1+t before the last rounding is below 2^-28 from q and about 2^-25 from r and t.

// Magic, added to a float32 below 2^21, rounds it to an integer n, which is then in the low bits of the sum. What is added
// beside is the bias of a float32's exponent: once where n is small, twice where 2^n is scaled by in two steps.
const (
	Magic   = 0x1.8p23
	OneBias = 127
	TwoBias = 254
)

var (
	ln2High = 0.693359375 // 355/512
	ln2Low  = math.Ln2 - ln2High
	expPoly = []float64{0x1.fffffcp-2, 0x1.55548cp-3, 0x1.555858p-5, 0x1.123da8p-7, 0x1.6ac174p-10}
)

// Exponential is e^x = 2^n (1 + T).
type Exponential struct {
	T reg.VecVirtual
	n reg.VecVirtual // plus magic
}

// Exp takes x apart, which it overwrites. magic is Magic with a bias, less by any integer that n is to be less by.
func Exp(x reg.VecVirtual, magic Op) Exponential {
	n, y, z := YMM(), YMM(), YMM()
	VMOVAPS(magic, n)
	VFMADD231PS(Const(math.Log2E), x, n)
	VSUBPS(magic, n, z)
	VFNMADD231PS(Const(ln2High), z, x)
	VFNMADD231PS(Const(ln2Low), z, x)
	Poly(y, x, expPoly)
	VMULPS(x, x, z)
	VFMADD213PS(x, z, y)
	return Exponential{y, n}
}

// Value is e^x, rounded once where it is subnormal too, infinite where it is too large. It uses e up. magic had TwoBias.
func (e Exponential) Value() reg.VecVirtual {
	lo, hi := e.Scales()
	VFMADD213PS(lo, lo, e.T)
	VMULPS(hi, e.T, e.T)
	return e.T
}

// ExpOf is e^x for any x, which it overwrites: 0 from -105 down, infinite from 89 up.
func ExpOf(x reg.VecVirtual) reg.VecVirtual {
	ClampBelow(x, Full(-105))
	ClampAbove(x, Full(89))
	return Exp(x, Const(Magic+TwoBias)).Value()
}

// Scales are two powers of 2 whose product is 2^n, n from -254, which gives 0, to 254. They use e up, but for T.
func (e Exponential) Scales() (lo, hi reg.VecVirtual) {
	lo = YMM()
	VPSRLD(Imm(1), e.n, lo)
	VPSUBD(lo, e.n, e.n)
	VPSLLD(Imm(23), lo, lo)
	VPSLLD(Imm(23), e.n, e.n)
	return lo, e.n
}

// Scale is 2^n where magic had a bias of OneBias and n lies between -126 and 127. It uses e up, but for T.
func (e Exponential) Scale() reg.VecVirtual {
	VPSLLD(Imm(23), e.n, e.n)
	return e.n
}

// Poly sets y to the polynomial in x with these coefficients, the constant one first.
func Poly(y, x reg.VecVirtual, c []float64) {
	n := len(c) - 1
	VMOVAPS(Const(c[n]), y)
	for n--; n >= 0; n-- {
		VFMADD213PS(Const(c[n]), x, y)
	}
}

// ClampBelow makes x at least least, and leaves NaN.
func ClampBelow(x, least reg.VecVirtual) { VMAXPS(x, least, x) }

// ClampAbove makes x at most most, and leaves NaN.
func ClampAbove(x, most reg.VecVirtual) { VMINPS(x, most, x) }
