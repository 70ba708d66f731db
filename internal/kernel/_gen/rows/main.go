// Command rows writes element-wise arithmetic of rows. From the folder above:
//
//	go run ./rows -out ../rows_amd64.s
//
// Every operation is that of the plain version, in its order and rounded on its own.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

const unroll = 4

func main() {
	Begin()
	zip("rowAdd", apply(VADDPS))
	streams()
	zip("rowSub", apply(VSUBPS))
	zip("rowMul", apply(VMULPS))
	zip("rowDiv", apply(VDIVPS))
	zip("rowMax", Max)
	zip("rowMin", Min)
	zipPut("rowTimes", VMULPS)
	zipPut("rowOver", VDIVPS)
	share()
	divisor()
	scalars()
	turn()
	choose()
	keep()
	compare("rowEqual", Equal)
	compare("rowNotEqual", NotEqual)
	compare("rowLess", Less)
	compare("rowLessEqual", LessEqual)
	Generate()
}

// apply makes x op y of an instruction. It overwrites x.
func apply(op func(...Op)) func(x, y reg.VecVirtual) reg.VecVirtual {
	return func(x, y reg.VecVirtual) reg.VecVirtual {
		op(y, x, x)
		return x
	}
}

// zip writes d = f(x, y).
func zip(name string, f func(x, y reg.VecVirtual) reg.VecVirtual) {
	Start(name, "(n int, d, x, y *float32)")
	n, d, x, y := Int("n"), Int("d"), Int("x"), Int("y")
	Sweep(n, unroll, func(at At) { at.Store(f(at.Load(x), at.Load(y)), d) })
	Done()
}

// streams writes d = x + y, and d = x, past the caches.
func streams() {
	Start("rowAddStream", "(n int, d, x, y *float32)")
	n, d, x, y := Int("n"), Int("d"), Int("x"), Int("y")
	Stream(n, d, func(at At) reg.VecVirtual {
		v := at.Load(x)
		VADDPS(at.Load(y), v, v)
		return v
	})
	Done()

	Start("rowCopyStream", "(n int, d, x *float32)")
	n, d, x = Int("n"), Int("d"), Int("x")
	Stream(n, d, func(at At) reg.VecVirtual { return at.Load(x) })
	Done()
}

// zipPut writes d = or += x op y.
func zipPut(name string, op func(...Op)) {
	Start(name, "(n int, d *float32, add bool, x, y *float32)")
	n, d, x, y := Int("n"), Int("d"), Int("x"), Int("y")
	If("add", func(add bool) {
		Sweep(n, unroll, func(at At) {
			v := at.Load(x)
			op(at.Load(y), v, v)
			at.Put(v, d, add)
		})
		Done()
	})
}

// share writes what d gets of x: all where p > q or they cannot be compared, half where they are equal.
func share() {
	Start("rowShare", "(n int, d *float32, add bool, x, p, q *float32)")
	n, d, x, p, q := Int("n"), Int("d"), Int("x"), Int("p"), Int("q")
	half := Word(math.Float32bits(0.5))
	If("add", func(add bool) {
		Sweep(n, 1, func(at At) {
			v, a, b, mask, part := at.Load(x), at.Load(p), at.Load(q), YMM(), YMM()
			VCMPPS(Imm(NotLess), b, a, mask)
			VANDPS(mask, v, v)
			VMULPS(half, v, part)
			VCMPPS(Imm(Equal), b, a, mask)
			VBLENDVPS(mask, part, v, v)
			at.Put(v, d, add)
		})
		Done()
	})
}

// divisor writes or adds the gradient of the divisor y of x/y: -g (x/y/y), in float64 but for the sum. g is called d.
func divisor() {
	Start("rowDivisor", "(n int, to *float32, add bool, d, x, y *float32)")
	n, to, d, x, y := Int("n"), Int("to"), Int("d"), Int("x"), Int("y")
	sign := Word(1 << 31)
	If("add", func(add bool) {
		Sweep(n, 1, func(at At) {
			g := at.Load(d)
			VXORPS(sign, g, g)
			w, a, b := Widen(g), at.LoadWide(x), at.LoadWide(y)
			for h := range w {
				VDIVPD(b[h], a[h], a[h])
				VDIVPD(b[h], a[h], a[h])
				VMULPD(a[h], w[h], w[h])
			}
			at.Put(Narrow(w), to, add)
		})
		Done()
	})
}

// turn writes or adds a cos - b sin and b cos + a sin.
func turn() {
	Start("rowTurn", "(n int, ya, yb *float32, add bool, xa, xb, cos, sin *float32)")
	n, ya, yb, xa, xb, cos, sin := Int("n"), Int("ya"), Int("yb"), Int("xa"), Int("xb"), Int("cos"), Int("sin")
	If("add", func(add bool) {
		Sweep(n, 1, func(at At) {
			a, b, c, s := at.Load(xa), at.Load(xb), at.Load(cos), at.Load(sin)
			p, q := YMM(), YMM()
			VMULPS(c, a, p)
			VMULPS(s, b, q)
			VSUBPS(q, p, p)
			VMULPS(c, b, b)
			VMULPS(s, a, a)
			VADDPS(a, b, b)
			at.Put(p, ya, add)
			at.Put(b, yb, add)
		})
		Done()
	})
}

// scalars writes d = x + k, d = or += k x, d = k, and x within limits of -k and k.
func scalars() {
	Start("rowAddScalar", "(n int, d, x *float32, k float32)")
	n, d, x, k := Int("n"), Int("d"), Int("x"), Scalar("k")
	Sweep(n, unroll, func(at At) {
		v := at.Load(x)
		VADDPS(k, v, v)
		at.Store(v, d)
	})
	Done()

	Start("rowScale", "(n int, d *float32, add bool, x *float32, k float32)")
	n, d, x, k = Int("n"), Int("d"), Int("x"), Scalar("k")
	If("add", func(add bool) {
		Sweep(n, unroll, func(at At) {
			v := at.Load(x)
			VMULPS(k, v, v)
			at.Put(v, d, add)
		})
		Done()
	})

	Start("rowFill", "(n int, d *float32, k float32)")
	n, d, k = Int("n"), Int("d"), Scalar("k")
	Sweep(n, unroll, func(at At) { at.Store(k, d) })
	Done()

	Start("rowClip", "(n int, d *float32, k float32)")
	n, d, k = Int("n"), Int("d"), Scalar("k")
	low := Word(1 << 31)
	VXORPS(k, low, low)
	Sweep(n, unroll, func(at At) {
		v := at.Load(d)
		VMINPS(v, k, v) // v, the second operand, where it is NaN
		VMAXPS(v, low, v)
		at.Store(v, d)
	})
	Done()
}

// choose writes x where the byte is not 0, y elsewhere.
func choose() {
	Start("rowChoose", "(eights int, d *float32, c *uint8, x, y *float32)")
	n, d, c, x, y := Int("eights"), Int("d"), Int("c"), Int("x"), Int("y")
	zero := Zeroed(1)[0]
	Eights(n, c, func(at At, bytes Mem) {
		no, v := YMM(), at.Load(x)
		VPMOVZXBD(bytes, no)
		VPCMPEQD(zero, no, no)
		VBLENDVPS(no, at.Load(y), v, v)
		at.Store(v, d)
	})
	Done()
}

// keep writes d = or += x where the byte is not flip, 0 elsewhere.
func keep() {
	Start("rowKeep", "(eights int, d *float32, add bool, x *float32, c *uint8, flip uint32)")
	n, d, x, c := Int("eights"), Int("d"), Int("x"), Int("c")
	flip := Same(Load(Param("flip"), GP32()))
	If("add", func(add bool) {
		Eights(n, c, func(at At, bytes Mem) {
			no, v := YMM(), at.Load(x)
			VPMOVZXBD(bytes, no)
			VPCMPEQD(flip, no, no)
			VANDNPS(v, no, v)
			at.Put(v, d, add)
		})
		Done()
	})
}

// compare writes a byte 1 where x and y are so related, 0 elsewhere.
func compare(name string, relation uint64) {
	Start(name, "(eights int, d *bool, x, y *float32)")
	n, d, x, y := Int("eights"), Int("d"), Int("x"), Int("y")
	one := Word(0x01010101)
	Eights(n, d, func(at At, bytes Mem) {
		v, high := at.Load(x), XMM()
		VCMPPS(Imm(relation), at.Load(y), v, v)
		VEXTRACTI128(Imm(1), v, high)
		VPACKSSDW(high, v.AsX(), high)
		VPACKSSWB(high, high, high)
		VPAND(one.AsX(), high, high)
		VMOVQ(high, bytes)
	})
	Done()
}
