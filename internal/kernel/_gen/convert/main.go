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

	firstNormal = (127 - 14) << 23 // of a float16
	less        = 0x11             // ordered, of VCMPPS
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
	stochastic("bf16Stochastic", bf16Stochastic)
	stochastic("f16Stochastic", f16Stochastic)
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

// stochastic goes through 8 n elements with a random word each.
func stochastic(name string, step func(dst Mem, x, word reg.VecVirtual)) {
	Start(name, "(eights int, dst *uint16, src *float32, words *uint32)")
	n, dst, src, words := Int("eights"), Int("dst"), Int("src"), Int("words")
	Label("one")
	x, word := YMM(), YMM()
	VMOVUPS(Mem{Base: src}, x)
	VMOVDQU(Mem{Base: words}, word)
	step(Mem{Base: dst}, x, word)
	ADDQ(Imm(half*Vector), dst)
	ADDQ(Imm(Float*Vector), src)
	ADDQ(Imm(Float*Vector), words)
	DECQ(n)
	JNZ(LabelRef("one"))
	Done()
}

const infinity = 0x7f800000

// bf16Stochastic adds as many random bits as are cut off, but to infinity and NaN, and cuts. NaN is made quiet.
func bf16Stochastic(dst Mem, x, word reg.VecVirtual) {
	special, nan := YMM(), YMM()
	VPAND(Bits(infinity), x, special)
	VPCMPEQD(Bits(infinity), special, special)
	VPAND(Bits(0xffff), word, word)
	VPANDN(word, special, word)
	VPADDD(x, word, word)
	VCMPPS(Imm(Unordered), x, x, nan)
	VPAND(Bits(quiet), nan, nan)
	VPOR(nan, word, word)
	VPSRLD(Imm(16), word, word)
	hi := XMM()
	VEXTRACTI128(Imm(1), word, hi)
	VPACKUSDW(hi, word.AsX(), hi)
	VMOVDQU(hi, dst)
}

// f16Stochastic makes of each number one that a half holds: by random bits added below those that stay, or, where the
// spacing is 2^-24, by comparing the fraction with a random number. NaN stays, for the conversion to make it quiet.
func f16Stochastic(dst Mem, x, word reg.VecVirtual) {
	a, small, low, frac, up, nan := YMM(), YMM(), YMM(), YMM(), YMM(), YMM()
	VPAND(Bits(0x7fffffff), x, a)
	VMULPS(Const(0x1p24), a, frac)
	VROUNDPS(Imm(1), frac, low) // down
	VSUBPS(low, frac, frac)
	VPSRLD(Imm(8), word, up)
	VCVTDQ2PS(up, up)
	VMULPS(Const(0x1p-24), up, up)
	VCMPPS(Imm(less), frac, up, up)
	VPAND(Const(1), up, up)
	VADDPS(up, low, low)
	VMULPS(Const(0x1p-24), low, low)

	VCMPPS(Imm(Unordered), x, x, nan)
	VPCMPGTD(a, Word(firstNormal), small)
	VPAND(Bits(0x1fff), word, word)
	VPADDD(a, word, word)
	VPAND(Bits(^uint32(0x1fff)), word, word)
	VBLENDVPS(small, low, word, word)
	VPAND(Bits(1<<31), x, a)
	VPOR(a, word, word)
	VBLENDVPS(nan, x, word, word)
	VCVTPS2PH(Imm(0), word, dst)
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
