// Command gemm writes the AVX2 and FMA part of the matrix product. From the folder above:
//
//	go run ./gemm -out ../gemm_amd64.s
//
// What each function does, and what it demands of its arguments, is said where it is declared: gemm_amd64.go.
package main

import (
	"fmt"
	"strconv"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	tileRows = 6
	tileCols = 16
	unroll   = 4

	// aheadStep is how many bytes ahead moves on in unroll steps of k: sixteen panels of A fetch one of B.
	aheadStep = 16
	float     = 4 // bytes
	vector    = 8 // floats
)

// element is a type that tiles are computed in.
type element struct {
	size, vector int // bytes; elements of a register
	shift        uint64
	name         string // in those of functions
	goType, mask string
	broadcast    func(...Op)
	multiply     func(...Op)
	add          func(...Op)
	move         func(from, mask, to Op) // what a mask says
}

var single = element{
	4, 8, 2, "", "float32", "int32", VBROADCASTSS, VFMADD231PS, VADDPS, VMASKMOVPS,
}

var double = element{
	8, 4, 3, "Double", "float64", "int64", VBROADCASTSD, VFMADD231PD, VADDPD, VMASKMOVPD,
}

func main() {
	ConstraintExpr("amd64,!purego")
	single.sweep(2)
	single.sweep(1)
	packRows("gemmPackRows6", tileRows)
	packRows("gemmPackRows16", tileCols)
	packCols("gemmPackCols6", tileRows)
	packCols("gemmPackCols12", 2*tileRows)
	packCols("gemmPackCols16", tileCols)
	packPanels("gemmPackPanels6", tileRows)
	packPanels("gemmPackPanels12", 2*tileRows)
	packPanels("gemmPackPanels16", tileCols)
	single.rowWide()
	single.rowMasked()
	single.dots()
	double.sweep(2)
	double.sweep(1)
	packRowsDouble("gemmPackRowsDouble6", tileRows)
	packRowsDouble("gemmPackRowsDouble8", tileCols/2)
	double.rowWide()
	double.rowMasked()
	double.dots()
	Generate()
}

// start opens a function of e. In the signature T is the type of elements, and M that of masks.
func (e *element) start(name, size, signature string) {
	start("gemm"+name+e.name+size, strings.NewReplacer("*T", "*"+e.goType, "*M", "*"+e.mask).Replace(signature))
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

// bytes is load for a length in elements.
func (e *element) bytes(name string) reg.GPVirtual {
	r := load(name)
	SHLQ(Imm(e.shift), r)
	return r
}

func zeroed(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
		VXORPS(v[i], v[i], v[i])
	}
	return v
}

func done() {
	VZEROUPPER()
	RET()
}

// strided are rows of A, a stride apart, at a pointer that moves along k.
type strided struct {
	p                reg.GPVirtual
	one, three, five reg.GPVirtual // so many strides, in bytes
}

func newStrided(rows int, stride reg.GPVirtual) strided {
	s := strided{p: GP64(), one: stride}
	multiple := func(scale uint8) reg.GPVirtual {
		r := GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: scale}, r)
		return r
	}
	if rows > 3 {
		s.three = multiple(2)
	}
	if rows > 5 {
		s.five = multiple(4)
	}
	return s
}

// row is where row i is.
func (s strided) row(i int) Mem {
	switch i {
	case 0:
		return Mem{Base: s.p}
	case 3:
		return Mem{Base: s.p, Index: s.three, Scale: 1}
	case 5:
		return Mem{Base: s.p, Index: s.five, Scale: 1}
	}
	return Mem{Base: s.p, Index: s.one, Scale: uint8(i)}
}

// sweep multiplies panels of up to six rows by vecs vectors of columns: a loop for each number of rows. With six rows and two
// vectors, sums, two vectors of B and two elements of A are all 16 registers.
func (e *element) sweep(vecs int) {
	e.start("Sweep", strconv.Itoa(vecs*e.vector),
		"func(rows, k, panels int, a *T, next, row, step int, b *T, ldb int, c *T, ldc int, bias *T, mask *M, ahead *T, add bool)")
	height := load("rows")
	for rows := tileRows; rows > 1; rows-- {
		CMPQ(height, Imm(uint64(rows)))
		JE(LabelRef(fmt.Sprint("rows", rows)))
	}
	for rows := 1; rows <= tileRows; rows++ {
		t := tile{e, rows, vecs}
		Label(t.label("rows"))
		t.sweep()
	}
}

// tile is one loop of a sweep.
type tile struct {
	*element
	rows, vecs int
}

// label is a name for a place in the loop.
func (t tile) label(name string) string { return fmt.Sprint(name, t.rows) }

func (t tile) sweep() {
	a, b, c, ahead := load("a"), load("b"), load("c"), load("ahead")
	step, ldb, ldc, panels := t.bytes("step"), t.bytes("ldb"), t.bytes("ldc"), load("panels")
	at, bp := newStrided(t.rows, t.bytes("row")), GP64()
	Label(t.label("panel"))
	t.prefetch(c, ldc)
	MOVQ(a, at.p)
	MOVQ(b, bp)
	sum := zeroed(t.rows * t.vecs)
	t.products(at, step, bp, ldb, ahead, sum)
	t.addBias(sum)
	t.store(c, ldc, sum)
	next := load("next")
	LEAQ(Mem{Base: a, Index: next, Scale: uint8(t.size)}, a)
	DECQ(panels)
	JNZ(LabelRef(t.label("panel")))
	done()
}

// prefetch fetches what store will touch.
func (t tile) prefetch(c, ldc reg.Register) {
	p := GP64()
	MOVQ(c, p)
	for i := range t.rows {
		PREFETCHT0(Mem{Base: p})
		PREFETCHT0(Mem{Base: p, Disp: t.vecs*32 - t.size})
		if i+1 < t.rows {
			ADDQ(ldc, p)
		}
	}
}

// products adds up all products of a tile.
func (t tile) products(a strided, step, b, ldb, ahead reg.Register, sum []reg.VecVirtual) {
	bs := []reg.VecVirtual{YMM(), YMM()}[:t.vecs]
	as := []reg.VecVirtual{YMM(), YMM()}
	one := func() {
		for v := range bs {
			VMOVUPS(Mem{Base: b, Disp: v * 32}, bs[v])
		}
		ADDQ(ldb, b)
		for i := 0; i < t.rows; i += len(as) {
			pair := as[:min(len(as), t.rows-i)]
			for r := range pair {
				t.broadcast(a.row(i+r), pair[r])
			}
			for r := range pair {
				for v := range bs {
					t.multiply(pair[r], bs[v], sum[(i+r)*t.vecs+v])
				}
			}
		}
		ADDQ(step, a.p)
	}
	n := load("k")
	SHRQ(Imm(2), n)
	JZ(LabelRef(t.label("rest")))
	Label(t.label("four"))
	PREFETCHT1(Mem{Base: ahead})
	ADDQ(Imm(aheadStep), ahead)
	for range unroll {
		one()
	}
	DECQ(n)
	JNZ(LabelRef(t.label("four")))
	Label(t.label("rest"))
	rest := load("k")
	ANDQ(Imm(unroll-1), rest)
	JZ(LabelRef(t.label("summed")))
	Label(t.label("one"))
	one()
	DECQ(rest)
	JNZ(LabelRef(t.label("one")))
	Label(t.label("summed"))
}

func (t tile) addBias(sum []reg.VecVirtual) {
	bias := load("bias")
	TESTQ(bias, bias)
	JZ(LabelRef(t.label("biased")))
	for v := range t.vecs {
		x := YMM()
		VMOVUPS(Mem{Base: bias, Disp: v * 32}, x)
		for i := 0; i < len(sum); i += t.vecs {
			t.add(x, sum[i+v], sum[i+v])
		}
	}
	Label(t.label("biased"))
}

// store puts the sums into C and moves c past them.
func (t tile) store(c, ldc reg.Register, sum []reg.VecVirtual) {
	rows := func(put func(at Mem, v int, s reg.VecVirtual)) {
		for i, s := range sum {
			put(Mem{Base: c, Disp: i % t.vecs * 32}, i%t.vecs, s)
			if i%t.vecs == t.vecs-1 {
				ADDQ(ldc, c)
			}
		}
	}
	mask, add := load("mask"), GP32()
	MOVBLZX(NewParamAddr("add", 112), add)
	TESTQ(mask, mask)
	JNZ(LabelRef(t.label("masked")))
	TESTL(add, add)
	JZ(LabelRef(t.label("fill")))
	rows(func(at Mem, _ int, s reg.VecVirtual) {
		t.add(at, s, s)
		VMOVUPS(s, at)
	})
	JMP(LabelRef(t.label("stored")))
	Label(t.label("fill"))
	rows(func(at Mem, _ int, s reg.VecVirtual) { VMOVUPS(s, at) })
	JMP(LabelRef(t.label("stored")))

	Label(t.label("masked"))
	masks, x := ymms()[:t.vecs], YMM()
	for v := range masks {
		VMOVUPS(Mem{Base: mask, Disp: v * 32}, masks[v])
	}
	TESTL(add, add)
	JZ(LabelRef(t.label("maskedFill")))
	rows(func(at Mem, v int, s reg.VecVirtual) {
		t.move(at, masks[v], x)
		t.add(x, s, s)
		t.move(s, masks[v], at)
	})
	JMP(LabelRef(t.label("stored")))
	Label(t.label("maskedFill"))
	rows(func(at Mem, v int, s reg.VecVirtual) { t.move(s, masks[v], at) })
	Label(t.label("stored"))
}
