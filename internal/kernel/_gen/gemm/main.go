// Command gemm writes the AVX2 and FMA part of the matrix product. From this folder:
//
//	go run main.go -out ../../gemm_amd64.s
//
// What each function does, and what it demands of its arguments, is said where it is declared: gemm_amd64.go.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	tileRows = 6
	tileCols = 16
	unroll   = 4
	float    = 4 // bytes
	vector   = 8 // floats
)

// element is a type that tiles are computed in.
type element struct {
	size, vector int // bytes; elements of a register
	shift        uint64
	name         string // between gemmSweep and the size
	broadcast    func(...Op)
	multiply     func(...Op)
	add          func(...Op)
	move         func(from, mask, to Op) // what a mask says
	signature    string
}

var single = element{
	4, 8, 2, "", VBROADCASTSS, VFMADD231PS, VADDPS, VMASKMOVPS,
	"func(rows, k, panels int, a *float32, next, row, step int, b *float32, ldb int, c *float32, ldc int, bias *float32, mask *int32, add bool)",
}

var double = element{
	8, 4, 3, "Double", VBROADCASTSD, VFMADD231PD, VADDPD, VMASKMOVPD,
	"func(rows, k, panels int, a *float64, next, row, step int, b *float64, ldb int, c *float64, ldc int, bias *float64, mask *int64, add bool)",
}

func main() {
	ConstraintExpr("amd64,!purego")
	single.sweep(2)
	single.sweep(1)
	packRows("gemmPackRows6", tileRows)
	packRows("gemmPackRows16", tileCols)
	packCols("gemmPackCols6", 1, tileRows)
	packCols("gemmPackCols16", 2, tileCols)
	packPanels6()
	packPanels16()
	rowWide()
	rowMasked()
	dots()
	double.sweep(2)
	double.sweep(1)
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
	start(fmt.Sprintf("gemmSweep%s%d", e.name, vecs*e.vector), e.signature)
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
	a, b, c := load("a"), load("b"), load("c")
	step, ldb, ldc, panels := t.bytes("step"), t.bytes("ldb"), t.bytes("ldc"), load("panels")
	at, bp := newStrided(t.rows, t.bytes("row")), GP64()
	Label(t.label("panel"))
	t.prefetch(c, ldc)
	MOVQ(a, at.p)
	MOVQ(b, bp)
	sum := zeroed(t.rows * t.vecs)
	t.products(at, step, bp, ldb, sum)
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
func (t tile) products(a strided, step, b, ldb reg.Register, sum []reg.VecVirtual) {
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
	MOVBLZX(NewParamAddr("add", 104), add)
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

// rowPointers gives eight rows at offset off, which is 0 at first. Those past the given number are the last one again.
func rowPointers(src, ld, rows, off reg.Register) []Mem {
	p := []reg.Register{src}
	for i := 1; i < vector; i++ {
		next := GP64()
		LEAQ(Mem{Base: p[i-1], Index: ld, Scale: 1}, next)
		CMPQ(rows, Imm(uint64(i)))
		CMOVQLE(p[i-1], next)
		p = append(p, next)
	}
	XORQ(off, off)
	at := make([]Mem, len(p))
	for i := range p {
		at[i] = Mem{Base: p[i], Index: off, Scale: 1}
	}
	return at
}

// transposed turns eight rows of eight floats into eight columns. It holds at most twelve vectors at a time.
func transposed(rows []Mem, take func(Mem, reg.VecVirtual)) [vector]reg.VecVirtual {
	var quads, cols [vector]reg.VecVirtual
	for h := 0; h < vector; h += 4 {
		copy(quads[h:], quartered(rows[h:h+4], take))
	}
	for i := range 4 {
		cols[i], cols[i+4] = YMM(), YMM()
		VPERM2F128(Imm(0x20), quads[i+4], quads[i], cols[i])
		VPERM2F128(Imm(0x31), quads[i+4], quads[i], cols[i+4])
	}
	return cols
}

// quartered turns four rows of eight into columns i and i+4, for i from 0 to 3.
func quartered(rows []Mem, take func(Mem, reg.VecVirtual)) []reg.VecVirtual {
	var r, t, q [4]reg.VecVirtual
	for i := range r {
		r[i], t[i], q[i] = YMM(), YMM(), YMM()
		take(rows[i], r[i])
	}
	for i := 0; i < 4; i += 2 {
		VUNPCKLPS(r[i+1], r[i], t[i])
		VUNPCKHPS(r[i+1], r[i], t[i+1])
	}
	for i := range 2 {
		VSHUFPS(Imm(0x44), t[2+i], t[i], q[2*i])
		VSHUFPS(Imm(0xee), t[2+i], t[i], q[2*i+1])
	}
	return q[:]
}

func ymms() []reg.VecVirtual {
	v := make([]reg.VecVirtual, 8)
	for i := range v {
		v[i] = YMM()
	}
	return v
}

// packRows packs rows, which lie along k, into a panel whose columns are step apart: eight steps of k at a time. Columns of
// less than eight overlap the next one, so that only the last must be cut.
func packRows(name string, step int) {
	start(name, "func(dst, src *float32, ld, rows, eights int)")
	dst, n := load("dst"), load("eights")
	off := GP64()
	p := rowPointers(load("src"), bytes("ld"), load("rows"), off)
	Label("eight")
	for i, col := range transposed(p, whole) {
		at := Mem{Base: dst, Disp: i * step * float}
		if i == vector-1 && step == tileRows {
			storeSix(col, at)
			continue
		}
		VMOVUPS(col, at)
	}
	ADDQ(Imm(vector*float), off)
	ADDQ(U32(uint32(vector*step*float)), dst)
	DECQ(n)
	JNZ(LabelRef("eight"))
	done()
}

// storeSix stores the first six of eight elements. It spoils the vector.
func storeSix(x reg.VecVirtual, at Mem) {
	VMOVUPS(x.AsX(), at)
	VEXTRACTF128(Imm(1), x, x.AsX())
	VMOVSD(x.AsX(), at.Offset(4*float))
}

// packCols packs rows, which lie across k, into one panel.
func packCols(name string, vecs, step int) {
	start(name, "func(dst, src *float32, ld, rows int, mask *int32)")
	dst, src, ld, n, mask := load("dst"), load("src"), bytes("ld"), load("rows"), load("mask")
	masks, x := ymms()[:vecs], ymms()[:vecs]
	for v := range masks {
		VMOVUPS(Mem{Base: mask, Disp: v * vector * float}, masks[v])
	}
	Label("row")
	for v := range x {
		VMASKMOVPS(Mem{Base: src, Disp: v * vector * float}, masks[v], x[v])
	}
	if step == tileRows {
		storeSix(x[0], Mem{Base: dst})
	} else {
		for v := range x {
			VMOVUPS(x[v], Mem{Base: dst, Disp: v * vector * float})
		}
	}
	ADDQ(ld, src)
	ADDQ(Imm(uint64(step*float)), dst)
	DECQ(n)
	JNZ(LabelRef("row"))
	done()
}

// packPanels deals rows out to panels, row by row, because the rows may be far apart: each is another page.
func packPanels(name string, width int, move func(dst, src reg.Register)) {
	start(name, "func(dst, src *float32, ld, rows, panels int)")
	dst, src, ld, n := load("dst"), load("src"), bytes("ld"), load("rows")
	apart := GP64()
	IMUL3Q(Imm(uint64(width*float)), n, apart)
	ahead := GP64()
	MOVQ(ld, ahead)
	SHLQ(Imm(2), ahead)
	Label("row")
	d, s, p := GP64(), GP64(), load("panels")
	MOVQ(dst, d)
	MOVQ(src, s)
	Label("piece")
	PREFETCHT0(Mem{Base: s, Index: ahead, Scale: 1})
	move(d, s)
	ADDQ(Imm(uint64(width*float)), s)
	ADDQ(apart, d)
	DECQ(p)
	JNZ(LabelRef("piece"))
	ADDQ(ld, src)
	ADDQ(Imm(uint64(width*float)), dst)
	DECQ(n)
	JNZ(LabelRef("row"))
	done()
}

func packPanels6() {
	packPanels("gemmPackPanels6", tileRows, func(dst, src reg.Register) {
		lo, hi := XMM(), GP64()
		VMOVUPS(Mem{Base: src}, lo)
		MOVQ(Mem{Base: src, Disp: 16}, hi)
		VMOVUPS(lo, Mem{Base: dst})
		MOVQ(hi, Mem{Base: dst, Disp: 16})
	})
}

func packPanels16() {
	packPanels("gemmPackPanels16", tileCols, func(dst, src reg.Register) {
		lo, hi := YMM(), YMM()
		VMOVUPS(Mem{Base: src}, lo)
		VMOVUPS(Mem{Base: src, Disp: vector * float}, hi)
		VMOVUPS(lo, Mem{Base: dst})
		VMOVUPS(hi, Mem{Base: dst, Disp: vector * float})
	})
}

// rowWide adds rows up, 64 columns in 8 registers: as many sums as two multiplications a cycle need to wait for none.
func rowWide() {
	const vecs = 8
	start("gemmRow64", "func(sum, x *float32, k int, b *float32, ldb int)")
	row(vecs, func(b reg.Register, v int, x reg.VecVirtual, sum reg.VecVirtual) {
		VFMADD231PS(Mem{Base: b, Disp: v * vector * float}, x, sum)
	})
}

// rowMasked is rowWide for up to 16 columns.
func rowMasked() {
	const vecs = 2
	start("gemmRow16", "func(sum, x *float32, k int, b *float32, ldb int, mask *int32)")
	mask, masks, t := load("mask"), ymms()[:vecs], ymms()[:vecs]
	for v := range masks {
		VMOVUPS(Mem{Base: mask, Disp: v * vector * float}, masks[v])
	}
	row(vecs, func(b reg.Register, v int, x reg.VecVirtual, sum reg.VecVirtual) {
		VMASKMOVPS(Mem{Base: b, Disp: v * vector * float}, masks[v], t[v])
		VFMADD231PS(t[v], x, sum)
	})
}

func row(vecs int, multiply func(b reg.Register, v int, x, sum reg.VecVirtual)) {
	dst, xs, k, b, ldb := load("sum"), load("x"), load("k"), load("b"), bytes("ldb")
	sum, x := zeroed(vecs), YMM()
	Label("step")
	VBROADCASTSS(Mem{Base: xs}, x)
	for v := range sum {
		multiply(b, v, x, sum[v])
	}
	ADDQ(Imm(float), xs)
	ADDQ(ldb, b)
	DECQ(k)
	JNZ(LabelRef("step"))
	for v := range sum {
		VMOVUPS(sum[v], Mem{Base: dst, Disp: v * vector * float})
	}
	done()
}

// dots multiplies eight rows by x, in the order of k: eight steps are transposed and then added one after the other. Of
// the last ones, which a mask cuts off, only as many are added as there are.
func dots() {
	start("gemmDots8", "func(sum, x *float32, k int, m *float32, ld, rows int, mask *int32)")
	xs, off, k := load("x"), GP64(), load("k")
	p := rowPointers(load("m"), bytes("ld"), load("rows"), off)
	sum := zeroed(1)[0]
	step := func(i int, col reg.VecVirtual) {
		x := YMM()
		VBROADCASTSS(Mem{Base: xs, Index: off, Scale: 1, Disp: i * float}, x)
		VFMADD231PS(col, x, sum)
	}
	SUBQ(Imm(vector), k)
	JLT(LabelRef("rest"))
	Label("eight")
	for i, col := range transposed(p, whole) {
		step(i, col)
	}
	ADDQ(Imm(vector*float), off)
	SUBQ(Imm(vector), k)
	JGE(LabelRef("eight"))
	Label("rest")
	ADDQ(Imm(vector), k)
	JZ(LabelRef("summed"))
	mask, addr := YMM(), load("mask")
	VMOVUPS(Mem{Base: addr}, mask)
	cols := transposed(p, func(at Mem, v reg.VecVirtual) { VMASKMOVPS(at, mask, v) })
	for i, col := range cols[:vector-1] {
		step(i, col)
		DECQ(k)
		JZ(LabelRef("summed"))
	}
	Label("summed")
	dst := load("sum")
	VMOVUPS(sum, Mem{Base: dst})
	done()
}

func whole(at Mem, v reg.VecVirtual) { VMOVUPS(at, v) }
