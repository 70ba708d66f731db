// Command unary writes functions of one operand and their gradients. From the folder above:
//
//	go run ./unary -out ../unary_amd64.s
//
// The functions are those of unary.go, where their formulas and what the gradients read are told.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

const (
	signBit   = 1 << 31
	infinity  = 0x7f800000
	unroll    = 4 // of what waits for memory
	smallest  = 0x1p-126
	subnormal = 23 // by how many powers of 2 logarithms raise a subnormal x
)

func main() {
	Begin()
	forward("mapExp", 1, ExpOf)
	forward("mapLog", 1, log)
	forward("mapSqrt", 1, func(x reg.VecVirtual) reg.VecVirtual { VSQRTPS(x, x); return x })
	forward("mapRsqrt", 1, rsqrt)
	forward("mapReciprocal", 1, func(x reg.VecVirtual) reg.VecVirtual { return quotient(Full(1), x) })
	forward("mapSquare", unroll, func(x reg.VecVirtual) reg.VecVirtual { VMULPS(x, x, x); return x })
	forward("mapAbs", unroll, magnitude)
	forward("mapTanh", 1, tanh)
	forward("mapSigmoid", 1, sigmoid)
	forward("mapErf", 1, erf)
	elu()
	backward("mapExpBackward", unroll, func(d, y reg.VecVirtual) { VMULPS(y, d, d) })
	backward("mapLogBackward", 1, func(d, x reg.VecVirtual) { VDIVPS(x, d, d) })
	backward("mapSqrtBackward", 1, func(d, y reg.VecVirtual) {
		VADDPS(y, y, y)
		VDIVPS(y, d, d)
	})
	backward("mapRsqrtBackward", unroll, rsqrtBackward)
	backward("mapReciprocalBackward", unroll, reciprocalBackward)
	backward("mapSquareBackward", unroll, func(d, x reg.VecVirtual) {
		VMULPS(x, d, d)
		VADDPS(d, d, d)
	})
	backward("mapAbsBackward", unroll, absBackward)
	backward("mapTanhBackward", unroll, tanhBackward)
	backward("mapSigmoidBackward", unroll, sigmoidBackward)
	backward("mapErfBackward", 1, erfBackward)
	backward("mapSoftplusBackward", 1, func(d, x reg.VecVirtual) { VMULPS(sigmoid(x), d, d) })
	eluBackward()
	Generate()
}

func forward(name string, unroll int, f func(x reg.VecVirtual) reg.VecVirtual) {
	Start(name, "(n int, y, x *float32)")
	n, y, x := Int("n"), Int("y"), Int("x")
	Sweep(n, unroll, func(at At) { at.Store(f(at.Load(x)), y) })
	Done()
}

// backward makes d, a piece of the output's gradient, one of the input's. r is a piece of what the slope is read from.
func backward(name string, unroll int, f func(d, r reg.VecVirtual)) {
	Start(name, "(n int, dx, dy, r *float32, add bool)")
	If("add", func(add bool) {
		n, dx, dy, r := Int("n"), Int("dx"), Int("dy"), Int("r")
		Sweep(n, unroll, func(at At) {
			d := at.Load(dy)
			f(d, at.Load(r))
			at.Put(d, dx, add)
		})
		Done()
	})
}

// quotient is a/b, in a.
func quotient(a, b reg.VecVirtual) reg.VecVirtual {
	VDIVPS(b, a, a)
	return a
}

func magnitude(x reg.VecVirtual) reg.VecVirtual {
	VANDPS(Bits(^uint32(signBit)), x, x)
	return x
}

func rsqrt(x reg.VecVirtual) reg.VecVirtual {
	VSQRTPS(x, x)
	return quotient(Full(1), x)
}

// logPoly is the minimax polynomial P of degree 7 in ln(1+f) = f - f^2/2 + f^3 P(f), sqrt(1/2) <= 1+f < sqrt(2). Its error
// is below 2^-27 of the logarithm.
var logPoly = []float64{
	0x1.555554p-2, -0x1.00022cp-2, 0x1.99a040p-3, -0x1.5470f0p-3, 0x1.22d3bep-3, -0x1.0d8c70p-3, 0x1.058f30p-3, -0x1.3913eep-4,
}

// log splits x = 2^k (1+f): ln x = k ln 2 + ln(1+f), ln 2 in two parts, of which the first times k is exact.
func log(x reg.VecVirtual) reg.VecVirtual {
	const half = 0x3f3504f3 // sqrt(1/2)
	m, k, low := YMM(), YMM(), YMM()
	VCMPPS(Imm(Less), Const(smallest), x, low)
	VMULPS(Const(1<<subnormal), x, m)
	VBLENDVPS(low, m, x, m)
	VPSUBD(Bits(half), m, k)
	VPSRAD(Imm(23), k, k)
	shifted := YMM()
	VPSLLD(Imm(23), k, shifted)
	VPSUBD(shifted, m, m)
	VCVTDQ2PS(k, k)
	VANDPS(Const(subnormal), low, low)
	VSUBPS(low, k, k)
	VSUBPS(Const(1), m, m)
	return logEnds(x, logSum(m, k))
}

// logSum is k ln 2 + ln(1+f).
func logSum(f, k reg.VecVirtual) reg.VecVirtual {
	const high = 0.693359375 // nine bits
	p, square, rest := YMM(), YMM(), YMM()
	Poly(p, f, append([]float64{-0.5}, logPoly...))
	VMULPS(f, f, square)
	VMULPS(Const(math.Ln2-high), k, rest)
	VFMADD213PS(rest, square, p)
	VADDPS(f, p, p)
	VFMADD231PS(Const(high), k, p)
	return p
}

// logEnds puts in what the logarithm is of 0, of what is below, of infinity and NaN.
func logEnds(x, y reg.VecVirtual) reg.VecVirtual {
	zero, is, at := Zeroed(1)[0], YMM(), Const(math.Inf(-1))
	VCMPPS(Imm(Less), zero, x, is)
	VORPS(is, y, y) // all bits set is a NaN
	VCMPPS(Imm(Equal), zero, x, is)
	VBLENDVPS(is, at, y, y)
	VCMPPS(Imm(NotLess), Bits(infinity), x, is)
	VBLENDVPS(is, x, y, y)
	return y
}

// tanhPoly is the minimax polynomial P of degree 4 in tanh x = x + x^3 P(x^2) below tanhNear, with an error below 2^-27 of
// tanh x.
var tanhPoly = []float64{-0x1.555532p-2, 0x1.1106f6p-3, -0x1.b835a4p-5, 0x1.51f8cep-6, -0x1.750ce2p-8}

const tanhNear = 0.625

// tanh is 1 - 2/(e^2|x| + 1), with the sign of x, from tanhNear on: the quotient is small enough for its error not to count.
func tanh(x reg.VecVirtual) reg.VecVirtual {
	a, far := YMM(), YMM()
	VANDPS(Bits(^uint32(signBit)), x, a)
	VMOVAPS(a, far)
	ClampAbove(far, Full(10)) // tanh is 1
	VADDPS(far, far, far)
	e := Exp(far, Const(Magic+OneBias))
	s, d := e.Scale(), YMM()
	VADDPS(Const(1), s, d)
	VFMADD231PS(e.T, s, d) // e^2|x| + 1 = 2^n t + (2^n + 1)
	VMOVAPS(Const(2), s)
	VDIVPS(d, s, s)
	far = Full(1)
	VSUBPS(s, far, far)
	sign := YMM()
	VANDPS(Bits(signBit), x, sign)
	VORPS(sign, far, far)
	VCMPPS(Imm(Less), Const(tanhNear), a, a)
	VBLENDVPS(a, tanhSeries(x), far, far)
	return far
}

func tanhSeries(x reg.VecVirtual) reg.VecVirtual {
	p, square := YMM(), YMM()
	VMULPS(x, x, square)
	Poly(p, square, tanhPoly)
	VMULPS(x, square, square)
	VFMADD213PS(x, square, p)
	return p
}

// sigmoid of a = -|x| is 2^n q with e^a = 2^n p and q = p/d, d = 1 + e^a. What rounding d and the quotient lost is put back,
// divided by d, and 1/d is 1 - 2^n q, which is sigmoid |x|.
func sigmoid(x reg.VecVirtual) reg.VecVirtual {
	a, d, q, other := YMM(), YMM(), YMM(), Full(1)
	VORPS(Bits(signBit), x, a)
	ClampBelow(a, Full(-105))
	e := Exp(a, Const(Magic+TwoBias))
	scale, hi := e.Scales()
	p := e.T
	VMULPS(hi, scale, scale)
	VADDPS(Const(1), p, p)
	VMULPS(scale, p, a) // e^a
	VADDPS(Const(1), a, d)
	VDIVPS(d, p, q)
	VFNMADD231PS(scale, q, other)
	lost := Full(1)
	VSUBPS(d, lost, lost)
	VADDPS(a, lost, lost)
	VFNMADD231PS(q, d, p)
	VFNMADD231PS(q, lost, p)
	VFMADD231PS(p, other, q)
	VMULPS(scale, q, q)
	VBLENDVPS(x, q, other, q)
	return q
}

// rsqrtBackward multiplies by -y/2, y and y one after the other: what fits at the end fits in between.
func rsqrtBackward(d, y reg.VecVirtual) {
	k := YMM()
	VMULPS(Const(-0.5), y, k)
	VMULPS(k, d, d)
	VMULPS(y, d, d)
	VMULPS(y, d, d)
}

func reciprocalBackward(d, y reg.VecVirtual) {
	VXORPS(Bits(signBit), d, d)
	VMULPS(y, d, d)
	VMULPS(y, d, d)
}

// absBackward takes the sign of x, or x itself where that is 0 or NaN.
func absBackward(d, x reg.VecVirtual) {
	s, is, zero := YMM(), YMM(), Zeroed(1)[0]
	VANDPS(Bits(signBit), x, s)
	VORPS(Const(1), s, s)
	VCMPPS(Imm(Apart), zero, x, is)
	VBLENDVPS(is, s, x, s)
	VMULPS(s, d, d)
}

func tanhBackward(d, y reg.VecVirtual) {
	s := Full(1)
	VFNMADD231PS(y, y, s)
	VMULPS(s, d, d)
}

func sigmoidBackward(d, y reg.VecVirtual) {
	s := Full(1)
	VSUBPS(y, s, s)
	VMULPS(y, s, s)
	VMULPS(s, d, d)
}

// erfNear and erfTail are polynomials P of degree 6 in erf x = erfHigh x + x P(x^2), |x| < 1, with an error below 2^-29 of
// erf x, and Q of degree 14 in 1 - erf x = Q(x - 2.5), 1 <= x <= 4, with one below 2^-26.
var (
	erfNear = []float64{
		-0x1.01e068p-24, -0x1.81273ep-2, 0x1.ce2cfcp-4, -0x1.b7f95ap-6, 0x1.5407d8p-8, -0x1.a4052ap-11, 0x1.498d64p-14,
	}
	erfTail = []float64{
		0x1.aab872p-12, -0x1.1d7fcp-9, 0x1.64e37ep-8, -0x1.11abb8p-7, 0x1.1a8ba8p-7, -0x1.905ddcp-8, 0x1.6eae44p-9, -0x1.25ca46p-11,
		-0x1.0f4b66p-12, 0x1.1bc3ap-12, -0x1.542b6ap-14, -0x1.29f89cp-16, 0x1.07bceap-16, -0x1.0ba526p-21, -0x1.ddf05ap-21,
	}
)

const erfHigh = 0x1.20dd76p+0 // of 2/sqrt(pi)

func erf(x reg.VecVirtual) reg.VecVirtual {
	a, t, q, far, sign := YMM(), YMM(), YMM(), Full(1), YMM()
	VANDPS(Bits(^uint32(signBit)), x, a)
	VMOVAPS(a, t)
	ClampAbove(t, Full(4)) // erf is 1
	VSUBPS(Const(2.5), t, t)
	Poly(q, t, erfTail)
	VSUBPS(q, far, far)
	VANDPS(Bits(signBit), x, sign)
	VORPS(sign, far, far)
	VCMPPS(Imm(Less), Const(1), a, a)
	VBLENDVPS(a, erfSeries(x), far, far)
	return far
}

func erfSeries(x reg.VecVirtual) reg.VecVirtual {
	p, square := YMM(), YMM()
	VMULPS(x, x, square)
	Poly(p, square, erfNear)
	VMULPS(x, p, p)
	VFMADD231PS(Const(erfHigh), x, p)
	return p
}

func erfBackward(d, x reg.VecVirtual) {
	VMULPS(x, x, x)
	VXORPS(Bits(signBit), x, x)
	e := ExpOf(x)
	VMULPS(Const(2/math.SqrtPi), e, e)
	VMULPS(e, d, d)
}

// elu is a (e^x - 1) below 0, with e^x = 2^n (1 + t): a (2^n t + (2^n - 1)).
func elu() {
	Start("mapELU", "(n int, y, x *float32, a float32)")
	n, y, x, a := Int("n"), Int("y"), Int("x"), Scalar("a")
	Sweep(n, 1, func(at At) {
		v, below, less, sign := at.Load(x), YMM(), YMM(), YMM()
		VMOVAPS(v, below)
		ClampBelow(below, Full(-87)) // e^x - 1 is -1
		ClampAbove(below, Full(0))
		e := Exp(below, Const(Magic+OneBias))
		s := e.Scale()
		VSUBPS(Const(1), s, less)
		VFMADD231PS(e.T, s, less)
		VANDPS(Bits(signBit), v, sign)
		VORPS(sign, less, less)
		VMULPS(a, less, less)
		keepPositive(v, v, less)
		at.Store(less, y)
	})
	Done()
}

func eluBackward() {
	Start("mapELUBackward", "(n int, dx, dy, x *float32, a float32, add bool)")
	If("add", func(add bool) {
		n, dx, dy, x, a := Int("n"), Int("dx"), Int("dy"), Int("x"), Scalar("a")
		Sweep(n, 1, func(at At) {
			v, below := at.Load(x), YMM()
			VMOVAPS(v, below)
			ClampAbove(below, Full(0))
			e := ExpOf(below)
			VMULPS(a, e, e)
			keepPositive(v, Full(1), e)
			VMULPS(at.Load(dy), e, e)
			at.Put(e, dx, add)
		})
		Done()
	})
}

// keepPositive sets y to v where x is above 0.
func keepPositive(x, v, y reg.VecVirtual) {
	is := Zeroed(1)[0]
	VCMPPS(Imm(Less), x, is, is)
	VBLENDVPS(is, v, y, y)
}
