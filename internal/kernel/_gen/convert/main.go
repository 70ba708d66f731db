// Command convert writes conversions between float types. From the folder above:
//
//	go run ./convert -out ../convert_amd64.s
//
// Those of half types go by eights; the plain versions, whose bits are the same, do what is left.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

const (
	half  = 2 // bytes
	wide  = 4 // vectors of a round
	quiet = 1 << 22
)

func main() {
	Begin()
	halves("f16Widen", "dst *float32, src *uint16", half, Float, func(dst, src Mem) {
		v := YMM()
		VCVTPH2PS(src, v)
		VMOVUPS(v, dst)
	})
	halves("f16Round", "dst *uint16, src *float32", Float, half, func(dst, src Mem) {
		v := YMM()
		VMOVUPS(src, v)
		VCVTPS2PH(Imm(0), v, dst) // to nearest even
	})
	halves("bf16Widen", "dst *float32, src *uint16", half, Float, func(dst, src Mem) {
		v := YMM()
		VPMOVZXWD(src, v)
		VPSLLD(Imm(16), v, v)
		VMOVUPS(v, dst)
	})
	halves("bf16Round", "dst *uint16, src *float32", Float, half, bf16Round)
	toDouble()
	toFloat()
	Generate()
}

// halves goes through 8 n elements, whose sizes are given in bytes.
func halves(name, pointers string, from, to int, step func(dst, src Mem)) {
	Start(name, "(eights int, "+pointers+")")
	n, dst, src := Int("eights"), Int("dst"), Int("src")
	steps := func(k int) {
		for i := range k {
			step(Mem{Base: dst, Disp: i * to * Vector}, Mem{Base: src, Disp: i * from * Vector})
		}
		ADDQ(U32(uint32(k*to*Vector)), dst)
		ADDQ(U32(uint32(k*from*Vector)), src)
	}
	SUBQ(Imm(wide), n)
	JLT(LabelRef("rest"))
	Label("round")
	steps(wide)
	SUBQ(Imm(wide), n)
	JGE(LabelRef("round"))
	Label("rest")
	ADDQ(Imm(wide), n)
	JZ(LabelRef("end"))
	Label("one")
	steps(1)
	DECQ(n)
	JNZ(LabelRef("one"))
	Label("end")
	Done()
}

// bf16Round adds half of what is cut off, less one where the last bit that stays is even, and cuts. NaN is made quiet.
func bf16Round(dst, src Mem) {
	x, up, odd := YMM(), YMM(), YMM()
	VMOVUPS(src, x)
	VPSRLD(Imm(16), x, up)
	VPAND(Bits(1), up, up)
	VPADDD(Bits(0x7fff), up, up)
	VPADDD(x, up, up)
	VCMPPS(Imm(Unordered), x, x, odd)
	VPOR(Bits(quiet), x, x)
	VBLENDVPS(odd, x, up, up)
	VPSRLD(Imm(16), up, up)
	hi := XMM()
	VEXTRACTI128(Imm(1), up, hi)
	VPACKUSDW(hi, up.AsX(), hi)
	VMOVDQU(hi, dst)
}

func toDouble() {
	Start("doubleOfFloat", "(n int, dst *float64, src *float32, add bool)")
	If("add", func(add bool) {
		n, dst, src := Int("n"), Int("dst"), Int("src")
		Sweep(n, 2, func(at At) {
			w := Widen(at.Load(src))
			if add {
				for h, old := range at.Load64(dst) {
					VADDPD(old, w[h], w[h])
				}
			}
			at.Store64(w, dst)
		})
		Done()
	})
}

func toFloat() {
	Start("floatOfDouble", "(n int, dst *float32, src *float64, add bool)")
	If("add", func(add bool) {
		n, dst, src := Int("n"), Int("dst"), Int("src")
		Sweep(n, 2, func(at At) {
			at.Put(narrow(at.Load64(src)), dst, add)
		})
		Done()
	})
}

func narrow(w [2]reg.VecVirtual) reg.VecVirtual {
	v, hi := YMM(), XMM()
	VCVTPD2PSY(w[0], v.AsX())
	VCVTPD2PSY(w[1], hi)
	VINSERTF128(Imm(1), hi, v, v)
	return v
}
