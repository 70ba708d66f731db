// Command attention writes the AVX2 part of attention's softmax and its gradient. From the folder above:
//
//	go run ./attention -out ../attention_amd64.s
//
// What each function does, and what it demands of its arguments, is said where it is declared: attention_amd64.go.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

const (
	width = 2 // vectors of a panel's row
)

func main() {
	ConstraintExpr("amd64,!purego")
	e := newExp2()
	softmax(e)
	weights(e)
	grads()
	scaleRows()
	put()
	dot()
	Generate()
}

func at(p reg.Register, v int) Mem { return Mem{Base: p, Disp: v * Vector * Float} }

func loaded(p reg.Register) (x [width]reg.VecVirtual) {
	for v := range x {
		x[v] = YMM()
		VMOVUPS(at(p, v), x[v])
	}
	return x
}

// exp2 is 2^x by eight: x = n + f with n integral and |f| <= 1/2; 2^f by a polynomial of degree 6, whose coefficients make
// the largest relative error of all such with 1 at 0 smallest (2e-9), and 2^n by its exponent's bits.
type exp2 struct {
	low, high, shift, bias Mem
	c                      []Mem
}

func newExp2() (e exp2) {
	e.low, e.high, e.bias = Const(-127), Const(127.5), Const(1)
	e.shift = Const(Magic)
	for _, c := range []float64{1, 0.6931471824645996, 0.24022647738456726, 0.055503323674201965, 0.00961843691766262, 0.0013398875016719103, 0.00015353361959569156} {
		e.c = append(e.c, Const(c))
	}
	return e
}

// of replaces x. Below 2^-126.5 it gives 0. NaN stays. What is above 127.5
// becomes Inf if limited; else it must not occur.
func (e *exp2) of(x reg.VecVirtual, limited bool) {
	n, f, y := YMM(), YMM(), YMM()
	VMOVUPS(e.low, n)
	VMAXPS(x, n, x) // NaN wins as the second one
	if limited {
		VMOVUPS(e.high, n)
		VMINPS(x, n, x)
	}
	VADDPS(e.shift, x, n)
	VSUBPS(e.shift, n, f)
	VSUBPS(f, x, f)
	VMOVUPS(e.c[6], y)
	for i := 5; i >= 0; i-- {
		VFMADD213PS(e.c[i], f, y)
	}
	VPSLLD(Imm(23), n, n)
	VPADDD(e.bias, n, n)
	VMULPS(n, y, x)
}

// rows loops over n rows of panel p.
func rows(name string, p reg.Register, body func(p reg.Register)) {
	n, q := Int("n"), GP64()
	MOVQ(p, q)
	Label(name)
	body(q)
	ADDQ(Imm(width*Vector*Float), q)
	DECQ(n)
	JNZ(LabelRef(name))
}

func softmax(e exp2) {
	lowest := Const(math.Inf(-1))
	Start("attentionSoftmax", "(n int, p, top, sum, factor *float32) (changed int)")
	p, top, sums, factors := Int("p"), Int("top"), Int("sum"), Int("factor")
	old, max := loaded(top), loaded(top)
	rows("highest", p, func(p reg.Register) {
		for v := range max {
			x := YMM()
			VMOVUPS(at(p, v), x)
			VMAXPS(max[v], x, max[v]) // NaN does not win: it will be seen in the sum
		}
	})
	changed := []reg.GPVirtual{GP64(), GP64()}
	for v := range max {
		VMOVUPS(max[v], at(top, v))
		none := YMM()
		VCMPPS(Imm(4), max[v], old[v], none) // not equal
		VMOVMSKPS(none, changed[v].As32())
		VCMPPS(Imm(0), lowest, max[v], none) // nothing yet: less 0, not -Inf
		VANDNPS(max[v], none, max[v])
		VSUBPS(max[v], old[v], old[v])
		e.of(old[v], false)
		VMOVUPS(old[v], at(factors, v))
	}
	SHLQ(Imm(Vector), changed[1])
	ORQ(changed[1], changed[0])
	Store(changed[0], ReturnIndex(0))
	sum := [width]reg.VecVirtual{YMM(), YMM()}
	for v := range sum {
		VMULPS(at(sums, v), old[v], sum[v])
	}
	rows("weigh", p, func(p reg.Register) {
		for v := range sum {
			x := YMM()
			VMOVUPS(at(p, v), x)
			VSUBPS(max[v], x, x)
			e.of(x, false)
			VMOVUPS(x, at(p, v))
			VADDPS(x, sum[v], sum[v])
		}
	})
	for v := range sum {
		VMOVUPS(sum[v], at(sums, v))
	}
	Done()
}

func weights(e exp2) {
	Start("attentionWeights", "(n int, p, lse *float32) (spoiled int)")
	p, lse := Int("p"), loaded(Int("lse"))
	f := newFlag()
	rows("row", p, func(p reg.Register) {
		for v := range lse {
			x := YMM()
			VMOVUPS(at(p, v), x)
			VSUBPS(lse[v], x, x)
			e.of(x, true)
			VMOVUPS(x, at(p, v))
			f.see(x)
		}
	})
	f.result()
	Done()
}

// flag becomes NaN in a lane that sees something not finite.
type flag struct{ zero, sum reg.VecVirtual }

func newFlag() flag {
	f := flag{YMM(), YMM()}
	VXORPS(f.zero, f.zero, f.zero)
	VXORPS(f.sum, f.sum, f.sum)
	return f
}

func (f flag) see(x reg.VecVirtual) { VFMADD231PS(x, f.zero, f.sum) }

// result returns a bit for each lane.
func (f flag) result() {
	bits := GP64()
	VCMPPS(Imm(3), f.sum, f.sum, f.sum) // unordered
	VMOVMSKPS(f.sum, bits.As32())
	Store(bits, ReturnIndex(0))
}

func grads() {
	Start("attentionGrads", "(n int, ds, p, delta *float32) (spoiled int)")
	ds, p, delta := Int("ds"), Int("p"), loaded(Int("delta"))
	f := newFlag()
	rows("row", ds, func(ds reg.Register) {
		for v := range delta {
			x := YMM()
			VMOVUPS(at(ds, v), x)
			VSUBPS(delta[v], x, x)
			VMULPS(at(p, v), x, x)
			VMOVUPS(x, at(ds, v))
			f.see(x)
		}
		ADDQ(Imm(width*Vector*Float), p)
	})
	f.result()
	Done()
}

func scaleRows() {
	Start("attentionScaleRows", "(rows int, x *float32, n int, factor *float32)")
	r, x, n, factor := Int("rows"), Int("x"), Int("n"), Int("factor")
	SHRQ(Imm(3), n)
	Label("row")
	f, left := YMM(), GP64()
	VBROADCASTSS(Mem{Base: factor}, f)
	MOVQ(n, left)
	Label("eight")
	y := YMM()
	VMULPS(at(x, 0), f, y)
	VMOVUPS(y, at(x, 0))
	ADDQ(Imm(Vector*Float), x)
	DECQ(left)
	JNZ(LabelRef("eight"))
	ADDQ(Imm(Float), factor)
	DECQ(r)
	JNZ(LabelRef("row"))
	Done()
}

// put adds or copies rows, whole vectors and then one through a mask.
func put() {
	Start("attentionPut", "(rows int, dst *float32, ldd int, src *float32, lds, n int, factor float32, mask *int32, add bool)")
	dst, ldd, src, lds, n, rows, maskAt := Int("dst"), Bytes("ldd"), Int("src"), Bytes("lds"), Int("n"), Int("rows"), Int("mask")
	f, mask, add, end := YMM(), YMM(), GP32(), GP64()
	VBROADCASTSS(NewParamAddr("factor", 48), f)
	VMOVUPS(at(maskAt, 0), mask)
	MOVBLZX(NewParamAddr("add", 64), add)
	MOVQ(n, end)
	SHRQ(Imm(3), end)
	SHLQ(Imm(5), end) // bytes of whole vectors
	ANDQ(Imm(Vector-1), n)
	i := GP64()
	Label("row")
	XORQ(i, i)
	TESTL(add, add)
	JZ(LabelRef("fill"))
	putRow("add", dst, src, i, end, n, f, mask, true)
	JMP(LabelRef("next"))
	Label("fill")
	putRow("fill", dst, src, i, end, n, f, mask, false)
	Label("next")
	ADDQ(ldd, dst)
	ADDQ(lds, src)
	DECQ(rows)
	JNZ(LabelRef("row"))
	Done()
}

func putRow(name string, dst, src, i, end, rest reg.Register, f, mask reg.VecVirtual, add bool) {
	d, s := Mem{Base: dst, Index: i, Scale: 1}, Mem{Base: src, Index: i, Scale: 1}
	x, y := YMM(), YMM()
	JMP(LabelRef(name + "_test"))
	Label(name + "_eight")
	VMULPS(s, f, x)
	if add {
		VADDPS(d, x, x)
	}
	VMOVUPS(x, d)
	ADDQ(Imm(Vector*Float), i)
	Label(name + "_test")
	CMPQ(i, end)
	JLT(LabelRef(name + "_eight"))
	TESTQ(rest, rest)
	JZ(LabelRef(name + "_end"))
	VMASKMOVPS(s, mask, x)
	VMULPS(f, x, x)
	if add {
		VMASKMOVPS(d, mask, y)
		VADDPS(y, x, x)
	}
	VMASKMOVPS(x, mask, d)
	Label(name + "_end")
}

// dot sums in float64, in two chains of four.
func dot() {
	Start("attentionDot", "(x, y *float32, n int, mask *int32) float64")
	x, y, n, maskAt := Int("x"), Int("y"), Int("n"), Int("mask")
	sum := []reg.VecVirtual{YMM(), YMM()}
	for _, s := range sum {
		VXORPD(s, s, s)
	}
	mask := YMM()
	VMOVUPS(at(maskAt, 0), mask)
	left := GP64()
	MOVQ(n, left)
	SHRQ(Imm(3), left)
	JZ(LabelRef("rest"))
	Label("eight")
	for i := range sum {
		a, b := YMM(), YMM()
		VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, a)
		VCVTPS2PD(Mem{Base: y, Disp: 16 * i}, b)
		VFMADD231PD(a, b, sum[i])
	}
	ADDQ(Imm(Vector*Float), x)
	ADDQ(Imm(Vector*Float), y)
	DECQ(left)
	JNZ(LabelRef("eight"))
	Label("rest")
	ANDQ(Imm(Vector-1), n)
	JZ(LabelRef("summed"))
	a, b := YMM(), YMM()
	VMASKMOVPS(at(x, 0), mask, a)
	VMASKMOVPS(at(y, 0), mask, b)
	for i := range sum {
		u, v, h, k := YMM(), YMM(), XMM(), XMM()
		VEXTRACTF128(Imm(uint64(i)), a, h)
		VEXTRACTF128(Imm(uint64(i)), b, k)
		VCVTPS2PD(h, u)
		VCVTPS2PD(k, v)
		VFMADD231PD(u, v, sum[i])
	}
	Label("summed")
	VADDPD(sum[1], sum[0], sum[0])
	h, l := XMM(), XMM()
	VEXTRACTF128(Imm(1), sum[0], h)
	VADDPD(h, sum[0].AsX(), l)
	VHADDPD(l, l, l)
	Store(l, ReturnIndex(0))
	Done()
}
