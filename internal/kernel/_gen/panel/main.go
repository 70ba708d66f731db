// Command panel writes the AVX2 and FMA routines on panels. From this folder:
//
//	go run main.go -out ../../panel_amd64.s
//
// What each function does, and what it demands of its arguments, is said where it is declared: panel_amd64.go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	unroll = 4
	float  = 4 // bytes
	vector = 8 // floats
	width  = 2 // vectors of a panel's row
)

func main() {
	ConstraintExpr("amd64,!purego")
	product()
	transpose()
	pack()
	Generate()
}

// start opens a function whose pointers the caller keeps.
func start(name, signature string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
}

func load(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// bytes is load for a length in floats.
func bytes(name string) reg.GPVirtual {
	r := load(name)
	SHLQ(Imm(2), r)
	return r
}

func ymms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
	}
	return v
}

func zeroed(n int) []reg.VecVirtual {
	v := ymms(n)
	for i := range v {
		VXORPS(v[i], v[i], v[i])
	}
	return v
}

func done() {
	VZEROUPPER()
	RET()
}

func copyOf(r reg.Register) reg.GPVirtual {
	c := GP64()
	MOVQ(r, c)
	return c
}

// product multiplies: six rows at a time, whose twelve sums, two vectors of B and two elements of A are all 16
// registers, and then four.
func product() {
	start("panelProduct", "func(k int, a *float32, lda int, b, c *float32, ldc, six, four int, add bool)")
	a, b, c, lda, ldc := load("a"), load("b"), load("c"), bytes("lda"), bytes("ldc")
	lda3 := GP64()
	LEAQ(Mem{Base: lda, Index: lda, Scale: 2}, lda3)
	for _, g := range []struct {
		rows int
		name string
	}{{6, "six"}, {4, "four"}} {
		n := load(g.name)
		Label(g.name)
		DECQ(n)
		JLT(LabelRef(g.name + "_done"))
		sum := zeroed(g.rows * width)
		multiply(g.name, copyOf(a), lda, lda3, copyOf(b), sum, g.rows)
		store(g.name, c, ldc, sum)
		ADDQ(Imm(uint64(g.rows*float)), a)
		JMP(LabelRef(g.name))
		Label(g.name + "_done")
	}
	done()
}

// multiply adds up rows x 16 sums over k.
func multiply(name string, a, lda, lda3, b reg.Register, sum []reg.VecVirtual, rows int) {
	bs, as := ymms(width), ymms(2)
	step := func(u int) {
		for v := range bs {
			VMOVUPS(Mem{Base: b, Disp: (u*width + v) * vector * float}, bs[v])
		}
		for i := 0; i < rows; i += len(as) {
			for r := range as {
				VBROADCASTSS(times(a, lda, lda3, u, (i+r)*float), as[r])
			}
			for r := range as {
				for v := range bs {
					VFMADD231PS(as[r], bs[v], sum[(i+r)*width+v])
				}
			}
		}
	}
	k := load("k")
	n := copyOf(k)
	SHRQ(Imm(2), n)
	JZ(LabelRef(name + "_rest"))
	Label(name + "_steps")
	for u := range unroll {
		step(u)
	}
	LEAQ(Mem{Base: a, Index: lda, Scale: unroll}, a)
	ADDQ(U32(unroll*width*vector*float), b)
	DECQ(n)
	JNZ(LabelRef(name + "_steps"))
	Label(name + "_rest")
	ANDQ(Imm(unroll-1), k)
	JZ(LabelRef(name + "_summed"))
	Label(name + "_step")
	step(0)
	ADDQ(lda, a)
	ADDQ(Imm(width*vector*float), b)
	DECQ(k)
	JNZ(LabelRef(name + "_step"))
	Label(name + "_summed")
}

// times is p + i*step + disp for i from 0 to 3, given step and 3*step.
func times(p, step, step3 reg.Register, i, disp int) Mem {
	switch i {
	case 0:
		return Mem{Base: p, Disp: disp}
	case 3:
		return Mem{Base: p, Disp: disp, Index: step3, Scale: 1}
	}
	return Mem{Base: p, Disp: disp, Index: step, Scale: uint8(i)}
}

// store puts sums into rows of c and moves c behind them.
func store(name string, c, ldc reg.Register, sum []reg.VecVirtual) {
	add := GP32()
	MOVBLZX(NewParamAddr("add", 64), add)
	TESTL(add, add)
	JZ(LabelRef(name + "_fill"))
	rows := func(add bool) {
		for i, s := range sum {
			at := Mem{Base: c, Disp: i % width * vector * float}
			if add {
				VADDPS(at, s, s)
			}
			VMOVUPS(s, at)
			if i%width == width-1 {
				ADDQ(ldc, c)
			}
		}
	}
	rows(true)
	JMP(LabelRef(name + "_stored"))
	Label(name + "_fill")
	rows(false)
	Label(name + "_stored")
}

// transpose turns eight rows of src into eight columns of dst, eight steps at a time.
func transpose() {
	start("panelTranspose", "func(dst *float32, ldd int, src *float32, lds, rows, eights int, factor float32)")
	dst, ldd, src, lds, rows := load("dst"), bytes("ldd"), load("src"), bytes("lds"), load("rows")
	p := []reg.Register{src}
	for i := 1; i < vector; i++ { // rows past the last one are that one again
		next := GP64()
		LEAQ(Mem{Base: p[i-1], Index: lds, Scale: 1}, next)
		CMPQ(rows, Imm(uint64(i)))
		CMOVQLE(p[i-1], next)
		p = append(p, next)
	}
	off, n := GP64(), load("eights")
	XORQ(off, off)
	Label("eight")
	var quads, cols [vector]reg.VecVirtual
	for h := 0; h < vector; h += 4 {
		copy(quads[h:], quartered(p[h:h+4], off))
	}
	for i := range 4 {
		cols[i], cols[i+4] = YMM(), YMM()
		VPERM2F128(Imm(0x20), quads[i+4], quads[i], cols[i])
		VPERM2F128(Imm(0x31), quads[i+4], quads[i], cols[i+4])
	}
	factor := YMM()
	VBROADCASTSS(NewParamAddr("factor", 48), factor)
	for i := range cols {
		VMULPS(factor, cols[i], cols[i])
		VMOVUPS(cols[i], Mem{Base: dst})
		ADDQ(ldd, dst)
	}
	ADDQ(Imm(vector*float), off)
	DECQ(n)
	JNZ(LabelRef("eight"))
	done()
}

// quartered turns four rows of eight into columns i and i+4, for i from 0 to 3.
func quartered(rows []reg.Register, off reg.Register) []reg.VecVirtual {
	r, t, q := ymms(4), ymms(4), ymms(4)
	for i := range r {
		VMOVUPS(Mem{Base: rows[i], Index: off, Scale: 1}, r[i])
	}
	for i := 0; i < 4; i += 2 {
		VUNPCKLPS(r[i+1], r[i], t[i])
		VUNPCKHPS(r[i+1], r[i], t[i+1])
	}
	for i := range 2 {
		VSHUFPS(Imm(0x44), t[2+i], t[i], q[2*i])
		VSHUFPS(Imm(0xee), t[2+i], t[i], q[2*i+1])
	}
	return q
}

// pack copies rows, multiplied, and sees whether x*0 is 0 for all of them.
func pack() {
	start("panelPack", "func(dst, src *float32, lds, rows int, mask *int32, factor float32, flags *float32)")
	dst, src, lds, n, mask, flags := load("dst"), load("src"), bytes("lds"), load("rows"), load("mask"), load("flags")
	masks, x, zero, factor, flag := ymms(width), ymms(width), zeroed(1)[0], YMM(), YMM()
	for v := range masks {
		VMOVUPS(Mem{Base: mask, Disp: v * vector * float}, masks[v])
	}
	VBROADCASTSS(NewParamAddr("factor", 40), factor)
	VMOVUPS(Mem{Base: flags}, flag)
	Label("row")
	for v := range x {
		VMASKMOVPS(Mem{Base: src, Disp: v * vector * float}, masks[v], x[v])
		VFMADD231PS(x[v], zero, flag)
		VMULPS(factor, x[v], x[v])
		VMOVUPS(x[v], Mem{Base: dst, Disp: v * vector * float})
	}
	ADDQ(lds, src)
	ADDQ(Imm(width*vector*float), dst)
	DECQ(n)
	JNZ(LabelRef("row"))
	VMOVUPS(flag, Mem{Base: flags})
	done()
}
