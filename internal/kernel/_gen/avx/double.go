package avx

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var constants64 = map[uint64]Mem{}

// Bits64 is Bits of 64 bits, four times.
func Bits64(b uint64) Mem {
	m, ok := constants64[b]
	if !ok {
		m = GLOBL(fmt.Sprintf("c%016x", b), RODATA|NOPTR)
		for i := range Vector / 2 {
			DATA(2*Float*i, U64(b))
		}
		constants64[b] = m
	}
	return m
}

// Const64 is Bits64 of a float64.
func Const64(v float64) Mem { return Bits64(math.Float64bits(v)) }

// Full64 is a register full of a float64.
func Full64(v float64) reg.VecVirtual {
	y := YMM()
	VMOVAPD(Const64(v), y)
	return y
}

// Poly64 is Poly of float64.
func Poly64(y, x reg.VecVirtual, c []float64) {
	n := len(c) - 1
	VMOVAPD(Const64(c[n]), y)
	for n--; n >= 0; n-- {
		VFMADD213PD(Const64(c[n]), x, y)
	}
}

// Magic64, added to a float64 below 2^51, rounds it to an integer, which is then in the low bits of the sum.
const Magic64 = 0x1.8p52

// exp64Poly is a polynomial q of degree 5 in e^r = 1 + r + r^2 q(r), |r| <= ln 2 / 2, with an error below 2^-34.
var exp64Poly = []float64{
	0x1.0000004574517p-1, 0x1.5555557fc2e1ep-3, 0x1.55547c9a4b59fp-5,
	0x1.11109f94830c3p-7, 0x1.6d9918913246dp-10, 0x1.a1892c6aff251p-13,
}

// Exp64 is e^x for x between -700 and 700 in float64, with an error below 2^-34, which float32 does not see.
func Exp64(x reg.VecVirtual) reg.VecVirtual {
	n, z, y := YMM(), YMM(), YMM()
	VMOVAPD(Const64(Magic64), n)
	VFMADD231PD(Const64(math.Log2E), x, n)
	VSUBPD(Const64(Magic64), n, z)
	VFNMADD231PD(Const64(math.Ln2), z, x)
	Poly64(y, x, append([]float64{1, 1}, exp64Poly...))
	VPSLLQ(Imm(52), n, n)
	VPADDQ(n, y, y)
	return y
}

// log64Poly is a polynomial L of degree 3 in 2 artanh s = s (2 + s^2 L(s^2)), |s| <= 3 - 2 sqrt 2, with an error below 2^-37.
var log64Poly = []float64{0x1.555554fb4b97ap-1, 0x1.999a7dd604ebap-2, 0x1.243821ae142f7p-2, 0x1.e30ee352238fep-3}

// Split64 takes x, positive and not subnormal, apart: x = 2^k (1+f), sqrt(1/2) <= 1+f < sqrt 2. It overwrites x.
func Split64(x reg.VecVirtual) (k, f reg.VecVirtual) {
	const bias = 1023
	half := math.Float64bits(math.Sqrt2 / 2)
	k, f = YMM(), YMM()
	VPSUBQ(Bits64(half-bias<<52), x, k)
	VPSRLQ(Imm(52), k, k)
	VPSLLQ(Imm(52), k, f)
	VPSUBQ(f, x, f)
	VPADDQ(Bits64(bias<<52), f, f)
	VPOR(Const64(1<<52), k, k)
	VSUBPD(Const64(1<<52+bias), k, k)
	VSUBPD(Const64(1), f, f)
	return k, f
}

// LogSum64 is k ln 2 + ln(1+f), with f = 2s/(1-s), or s = f/(2+f). It overwrites f.
func LogSum64(k, f reg.VecVirtual) reg.VecVirtual {
	d, p := Full64(2), YMM()
	VADDPD(f, d, d)
	VDIVPD(d, f, f)
	VMULPD(f, f, d)
	Poly64(p, d, append([]float64{2}, log64Poly...))
	VMULPD(f, p, p)
	VFMADD231PD(Const64(math.Ln2), k, p)
	return p
}
