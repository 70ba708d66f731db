// Command activation writes GELU, its tanh form, SiLU and SwiGLU with their gradients. From the folder above:
//
//	go run ./activation -out ../activation_amd64.s
//
// Formulas are told in gelu.go, unary.go and swiglu.go.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

const signBit = 1 << 31

func main() {
	Begin()
	forward("geluFloats", gelu)
	forward("geluTanhFloats", geluTanh)
	forward("siluFloats", silu)
	backward("geluBackwardFloats", geluSlope)
	backward("geluTanhBackwardFloats", geluTanhSlope)
	backward("siluBackwardFloats", siluSlope)
	swiglu()
	swigluBackward()
	Generate()
}

func forward(name string, f func(x reg.VecVirtual) reg.VecVirtual) {
	Start(name, "(n int, y, x *float32)")
	n, y, x := Int("n"), Int("y"), Int("x")
	Sweep(n, 1, func(at At) { at.Store(f(at.Load(x)), y) })
	Done()
}

// backward multiplies the output's gradient by a slope at x.
func backward(name string, slope func(x reg.VecVirtual) reg.VecVirtual) {
	Start(name, "(n int, dx, dy, x *float32, add bool)")
	If("add", func(add bool) {
		n, dx, dy, x := Int("n"), Int("dx"), Int("dy"), Int("x")
		Sweep(n, 1, func(at At) {
			k := slope(at.Load(x))
			VMULPS(at.Load(dy), k, k)
			at.Put(k, dx, add)
		})
		Done()
	})
}

// cut makes |x| at most most and leaves NaN; infinity becomes NaN. Slopes end there, and what is x times 0 in infinity is
// NaN in torch too.
func cut(x reg.VecVirtual, most float64) {
	odd := YMM()
	VSUBPS(x, x, odd)
	ClampAbove(x, Full(most))
	ClampBelow(x, Full(-most))
	VADDPS(odd, x, x)
}

// normalPoly is the minimax polynomial P of degree 9 in 1 - cdf(x) = e^(-x^2/2) t P(t - 1/2), t = 3/(3 + x/sqrt 2), x >= 0,
// with an error below 2^-26 of that up to x = 14.
var normalPoly = []float64{
	0x1.6e9828p-3, 0x1.2d8832p-2, 0x1.92edc6p-2, 0x1.a7e300p-2, 0x1.466a14p-2,
	0x1.254958p-3, -0x1.b92feep-7, -0x1.0de7060p-4, -0x1.28dddcp-6, 0x1.9c4f50p-6,
}

// normal is e^(-x^2/2) and cdf(x), of which what is small keeps its digits: what rounding x^2 lost goes into e as well.
func normal(x reg.VecVirtual) (e, cdf reg.VecVirtual) {
	a, square, half := YMM(), YMM(), YMM()
	VANDPS(Bits(^uint32(signBit)), x, a)
	ClampAbove(a, Full(14.5)) // e is 0 there
	VMULPS(a, a, square)
	VMOVAPS(square, half)
	VFMSUB231PS(a, a, half)
	VMULPS(Const(-0.5), square, square)
	VMULPS(Const(0.5), half, half)
	e = Exp(square, Const(Magic+TwoBias)).Value()
	VFNMADD213PS(e, half, e)
	return e, tailOf(x, a, e)
}

// tailOf is e t P, and 1 less that where x is positive.
func tailOf(x, a, e reg.VecVirtual) reg.VecVirtual {
	t, p, one := Full(3), YMM(), Full(1)
	VMULPS(Const(1/math.Sqrt2), a, a)
	VADDPS(t, a, a)
	VDIVPS(a, t, t)
	VSUBPS(Const(0.5), t, a)
	Poly(p, a, normalPoly)
	VMULPS(e, t, t)
	VMULPS(p, t, t)
	VSUBPS(t, one, one)
	VBLENDVPS(x, t, one, one)
	return one
}

func gelu(x reg.VecVirtual) reg.VecVirtual {
	_, cdf := normal(x)
	VMULPS(x, cdf, cdf)
	return cdf
}

func geluSlope(x reg.VecVirtual) reg.VecVirtual {
	cut(x, 14.5)
	e, cdf := normal(x)
	VMULPS(Const(1/math.Sqrt(2*math.Pi)), e, e)
	VFMADD231PS(x, e, cdf)
	return cdf
}

const (
	cube = 0.044715
	root = 2 * math.Sqrt2 / math.SqrtPi // 2 sqrt(2/pi)
)

// scaledSquare is a + b x^2.
func scaledSquare(x reg.VecVirtual, a, b float64) reg.VecVirtual {
	y, square := Full(b), YMM()
	VMULPS(x, x, square)
	VFMADD213PS(Const(a), square, y)
	return y
}

// geluTanh is x / (1 + e^-2u). What is added to 1 is infinite from 2^128 on, which takes x to 0 however large it is.
func geluTanh(x reg.VecVirtual) reg.VecVirtual {
	v := scaledSquare(x, -root, -root*cube)
	VMULPS(x, v, v)
	ClampBelow(v, Full(-87))
	ClampAbove(v, Full(89))
	e := Exp(v, Const(Magic+OneBias))
	d := Full(1)
	VADDPS(d, e.T, e.T)
	VMULPS(e.Scale(), e.T, e.T)
	VADDPS(e.T, d, d)
	y := YMM()
	VDIVPS(d, x, y)
	return y
}

// logistic is s = 1/(1+e^v) and 1-s = s e^v. 2^n is a float32.
func logistic(v reg.VecVirtual) (s, rest reg.VecVirtual) {
	e := Exp(v, Const(Magic+OneBias))
	scale, d := e.Scale(), YMM()
	s = Full(1)
	VFMADD213PS(scale, scale, e.T)
	VADDPS(s, e.T, d)
	VDIVPS(d, s, s)
	VMULPS(s, e.T, e.T)
	return s, e.T
}

// geluTanhSlope is s (1 + x (1-s) 2u').
func geluTanhSlope(x reg.VecVirtual) reg.VecVirtual {
	cut(x, 10) // 2u is 87
	v := scaledSquare(x, -root, -root*cube)
	VMULPS(x, v, v)
	s, rest := logistic(v)
	k := scaledSquare(x, root, 3*root*cube)
	VMULPS(x, k, k)
	VFMADD213PS(Const(1), rest, k)
	VMULPS(s, k, k)
	return k
}

// siluParts is e^-|x| = 2^n p taken apart for silu. Where x is positive, p and both powers of 2 are 1.
type siluParts struct {
	p, lo, hi reg.VecVirtual // silu(x) = x p / d lo hi
	e, d      reg.VecVirtual // e^-|x|, and 1 more
}

// partsOf ends where 2^n is 0, so that -Inf becomes NaN.
func partsOf(x reg.VecVirtual) (s siluParts) {
	a, d, one := YMM(), YMM(), Full(1)
	VORPS(Bits(signBit), x, a)
	ClampBelow(a, Full(-176)) // 2^-254
	power := Exp(a, Const(Magic+TwoBias))
	s.lo, s.hi = power.Scales()
	s.p, s.e, s.d = power.T, a, d
	VADDPS(one, s.p, s.p)
	VMULPS(s.lo, s.p, s.e)
	VMULPS(s.hi, s.e, s.e)
	VADDPS(one, s.e, d)
	VBLENDVPS(x, s.p, one, s.p)
	VBLENDVPS(x, s.lo, one, s.lo)
	VBLENDVPS(x, s.hi, one, s.hi)
	return s
}

// times is silu(x) k. k, if there is one, comes in between, where nothing overflows or loses digits that does not at the
// end.
func (s siluParts) times(x, k reg.VecVirtual) reg.VecVirtual {
	VMULPS(x, s.lo, s.lo)
	VMULPS(s.lo, s.p, s.p)
	VDIVPS(s.d, s.p, s.p)
	if k != nil {
		VMULPS(k, s.p, s.p)
	}
	VMULPS(s.hi, s.p, s.p)
	return s.p
}

// slope is s (1 + x (1-s)).
func (s siluParts) slope(x reg.VecVirtual) reg.VecVirtual {
	whole, part, sigmoid, rest := Full(1), s.e, YMM(), YMM()
	VDIVPS(s.d, whole, whole)
	VMULPS(whole, part, part)
	VBLENDVPS(x, part, whole, sigmoid)
	VBLENDVPS(x, whole, part, rest)
	cut(x, 80) // s is 0 or 1
	VFMADD213PS(Const(1), x, rest)
	VMULPS(sigmoid, rest, rest)
	return rest
}

func silu(x reg.VecVirtual) reg.VecVirtual { return partsOf(x).times(x, nil) }

func siluSlope(x reg.VecVirtual) reg.VecVirtual { return partsOf(x).slope(x) }

func swiglu() {
	Start("swigluFloats", "(n int, y, gate, up *float32)")
	n, y, gate, up := Int("n"), Int("y"), Int("gate"), Int("up")
	Sweep(n, 1, func(at At) {
		x := at.Load(gate)
		at.Store(partsOf(x).times(x, at.Load(up)), y)
	})
	Done()
}

// swigluBackward makes dgate = dy up silu'(gate) and dup = dy silu(gate), or one of them, with the same operations for each.
func swigluBackward() {
	Start("swigluBackwardFloats", "(n int, dgate, dup, dy, gate, up *float32, addGate, addUp bool)")
	wanted("dgate", "addGate", func(dgate reg.Register, addGate bool) {
		wanted("dup", "addUp", func(dup reg.Register, addUp bool) {
			if dgate == nil && dup == nil {
				Done()
				return
			}
			n, dy, gate, up := Int("n"), Int("dy"), Int("gate"), reg.Register(nil)
			if dgate != nil {
				up = Int("up")
			}
			Sweep(n, 1, func(at At) {
				x := at.Load(gate)
				s := partsOf(x)
				if dup != nil {
					v := s.times(x, nil)
					VMULPS(at.Load(dy), v, v)
					at.Put(v, dup, addUp)
				}
				if dgate != nil {
					k := s.slope(x)
					VMULPS(at.Load(up), k, k)
					VMULPS(at.Load(dy), k, k)
					at.Put(k, dgate, addGate)
				}
			})
			Done()
		})
	})
}

// wanted writes body for a destination that is there, to add to or to fill, and for none.
func wanted(name, add string, body func(dst reg.Register, add bool)) {
	IfAny(name, func(p reg.Register) {
		if p == nil {
			body(nil, false)
			return
		}
		If(add, func(adds bool) { body(p, adds) })
	})
}
