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

// Magic, added to a float32 below 2^21, rounds it to an integer n and leaves n + ExpBias in the low bits of the sum. Twice
// 127 is added so that n may go from -254 to 254: it is scaled by in two steps.
const (
	Magic   = 0x1.8p23
	ExpBias = 254
)

var (
	ln2High = 0.693359375 // 355/512
	ln2Low  = math.Ln2 - ln2High
	expPoly = []float64{0x1.fffffcp-2, 0x1.55548cp-3, 0x1.555858p-5, 0x1.123da8p-7, 0x1.6ac174p-10}
)

// Exponential is e^x = 2^n (1 + T).
type Exponential struct {
	T reg.VecVirtual
	n reg.VecVirtual // plus Magic, in the low bits
}

// Exp takes x apart, which it overwrites. magic is Magic + ExpBias, less by any integer that n is to be less by.
func Exp(x, magic reg.VecVirtual) Exponential {
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

// Value is e^x, rounded once where it is subnormal too, infinite where it is too large. n lies between -254 and 254.
func (e Exponential) Value() reg.VecVirtual {
	lo := YMM()
	VPSRLD(Imm(1), e.n, lo)
	VPSUBD(lo, e.n, e.n)
	VPSLLD(Imm(23), lo, lo)
	VPSLLD(Imm(23), e.n, e.n)
	VFMADD213PS(lo, lo, e.T)
	VMULPS(e.n, e.T, e.T)
	return e.T
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
