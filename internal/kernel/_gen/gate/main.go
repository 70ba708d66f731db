// Command gate writes the functions whose gradient needs one bit an element. From the folder above:
//
//	go run ./gate -out ../gate_amd64.s
//
// Eight elements share a byte of the mask. Formulas are told in relu.go and gate.go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

const unroll = 4

func main() {
	Begin()
	relu()
	leakyReLU()
	clamp()
	bits := lanes()
	reluBackward(bits)
	leakyReLUBackward(bits)
	Generate()
}

// put writes a byte of the mask, unless there is none: the bits of eight elements.
func put(mask reg.Register, elements reg.VecVirtual, not bool) {
	if mask == nil {
		return
	}
	b := GP32()
	VMOVMSKPS(elements, b)
	if not {
		NOTL(b)
	}
	MOVB(b.As8(), Mem{Base: mask})
	INCQ(mask)
}

// relu: elements that are masked out are 0, and do not pass.
func relu() {
	Start("reluFloats", "(n int, y, x *float32, mask *uint8)")
	IfAny("mask", func(mask reg.Register) {
		n, y, x, zero := Int("n"), Int("y"), Int("x"), Zeroed(1)[0]
		Sweep(n, unroll, func(at At) {
			v, stopped := at.Load(x), YMM()
			VCMPPS(Imm(LessEqual), zero, v, stopped)
			VANDNPS(v, stopped, v)
			at.Store(v, y)
			put(mask, stopped, true)
		})
		Done()
	})
}

func leakyReLU() {
	Start("leakyReLUFloats", "(n int, y, x *float32, slope float32, mask *uint8)")
	IfAny("mask", func(mask reg.Register) {
		n, y, x, slope, zero := Int("n"), Int("y"), Int("x"), Scalar("slope"), Zeroed(1)[0]
		Sweep(n, unroll, func(at At) {
			v, above, small := at.Load(x), YMM(), YMM()
			VCMPPS(Imm(Less), v, zero, above)
			VMULPS(slope, v, small)
			VBLENDVPS(above, v, small, v)
			at.Store(v, y)
			put(mask, above, false)
		})
		Done()
	})
}

func clamp() {
	Start("clampFloats", "(n int, y, x *float32, lo, hi float32, mask *uint8)")
	IfAny("mask", func(mask reg.Register) {
		n, y, x, lo, hi := Int("n"), Int("y"), Int("x"), Scalar("lo"), Scalar("hi")
		Sweep(n, unroll, func(at At) {
			v, inside, below := at.Load(x), YMM(), YMM()
			VCMPPS(Imm(LessEqual), v, lo, inside)
			VCMPPS(Imm(LessEqual), hi, v, below)
			VANDPS(below, inside, inside)
			at.Keep(inside)
			ClampBelow(v, lo)
			ClampAbove(v, hi)
			at.Store(v, y)
			put(mask, inside, false)
		})
		Done()
	})
}

// lanes is 1, 2, 4 ... 128: the bit of each of eight elements.
func lanes() Mem {
	m := GLOBL("lanes", RODATA|NOPTR)
	for i := range Vector {
		DATA(Float*i, U32(1<<i))
	}
	return m
}

// take reads a byte of the mask: all bits of the elements whose bit is set.
func take(mask reg.Register, bits reg.VecVirtual) reg.VecVirtual {
	v := YMM()
	VPBROADCASTB(Mem{Base: mask}, v)
	INCQ(mask)
	VPAND(bits, v, v)
	VPCMPEQD(bits, v, v)
	return v
}

func reluBackward(lanes Mem) {
	Start("reluBackwardFloats", "(n int, dx, dy *float32, mask *uint8, add bool)")
	If("add", func(add bool) {
		n, dx, dy, mask, bits := Int("n"), Int("dx"), Int("dy"), Int("mask"), YMM()
		VMOVDQU(lanes, bits)
		Sweep(n, unroll, func(at At) {
			passed, d := take(mask, bits), at.Load(dy)
			VANDPS(passed, d, d)
			at.Put(d, dx, add)
		})
		Done()
	})
}

func leakyReLUBackward(lanes Mem) {
	Start("leakyReLUBackwardFloats", "(n int, dx, dy *float32, slope float32, mask *uint8, add bool)")
	If("add", func(add bool) {
		n, dx, dy, slope, mask, bits := Int("n"), Int("dx"), Int("dy"), Scalar("slope"), Int("mask"), YMM()
		VMOVDQU(lanes, bits)
		Sweep(n, unroll, func(at At) {
			above, d, small := take(mask, bits), at.Load(dy), YMM()
			VMULPS(slope, d, small)
			VBLENDVPS(above, d, small, d)
			at.Put(d, dx, add)
		})
		Done()
	})
}
