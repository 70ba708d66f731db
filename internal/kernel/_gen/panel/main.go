// Command panel writes the AVX2 and FMA routines on panels. From the folder above:
//
//	go run ./panel -out ../panel_amd64.s
//
// What each function does, and what it demands of its arguments, is said where it is declared: panel_amd64.go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

const (
	unroll = 4
	width  = 2 // vectors of a panel's row
)

func main() {
	ConstraintExpr("amd64,!purego")
	product()
	rowProduct()
	tapProduct()
	taps()
	transpose()
	pack()
	move("panelGather", gather)
	move("panelScatter", scatter)
	Generate()
}

func ymms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
	}
	return v
}

func copyOf(r reg.Register) reg.GPVirtual {
	c := GP64()
	MOVQ(r, c)
	return c
}

// groups is the loop over six rows at a time, whose twelve sums, two vectors of B and two elements of A are all 16
// registers, and then over four.
func groups(body func(name string, rows int)) {
	for _, g := range []struct {
		rows int
		name string
	}{{6, "six"}, {4, "four"}} {
		n := Int(g.name)
		Label(g.name)
		DECQ(n)
		JLT(LabelRef(g.name + "_done"))
		body(g.name, g.rows)
		JMP(LabelRef(g.name))
		Label(g.name + "_done")
	}
}

func product() {
	Start("panelProduct", "(k int, a *float32, lda int, b, c *float32, ldc, six, four int, add bool)")
	a, b, c, lda, ldc := Int("a"), Int("b"), Int("c"), Bytes("lda"), Bytes("ldc")
	lda3 := triple(lda)
	groups(func(name string, rows int) {
		sum, at := Zeroed(rows*width), copyOf(a)
		multiply(name, copyOf(b), sum, func(u, i int) Mem { return times(at, lda, lda3, u, i*Float) },
			func(n int) {
				if n == 1 {
					ADDQ(lda, at)
				} else {
					LEAQ(Mem{Base: at, Index: lda, Scale: unroll}, at)
				}
			})
		store(name, c, ldc, sum, 64)
		ADDQ(Imm(uint64(rows*Float)), a)
	})
	Done()
}

func triple(step reg.Register) reg.Register {
	r := GP64()
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, r)
	return r
}

// rowProduct is product for rows of A that lie along k.
func rowProduct() {
	Start("panelRowProduct", "(k int, a *float32, lda int, b, c *float32, ldc, six, four int, bias *float32, add bool)")
	a, b, c, lda, ldc, bias := Int("a"), Int("b"), Int("c"), Bytes("lda"), Bytes("ldc"), Int("bias")
	lda3, lda5 := triple(lda), GP64()
	LEAQ(Mem{Base: lda, Index: lda, Scale: 4}, lda5)
	groups(func(name string, rows int) {
		sum, at := ymms(rows*width), copyOf(a)
		begin(name, bias, sum)
		multiply(name, copyOf(b), sum, func(u, i int) Mem { return sixth(at, lda, lda3, lda5, i, u*Float) },
			func(n int) { ADDQ(Imm(uint64(n*Float)), at) })
		store(name, c, ldc, sum, 72)
		skipRows(a, lda, rows)
	})
	Done()
}

// tapProduct is rowProduct for rows of B that begin where offsets say.
func tapProduct() {
	Start("panelTapProduct", "(k int, a *float32, lda int, b *float32, offsets *int, c *float32, ldc, six, four int, bias *float32)")
	a, b, c, lda, ldc, bias := Int("a"), Int("b"), Int("c"), Bytes("lda"), Bytes("ldc"), Int("bias")
	lda3, lda5 := triple(lda), GP64()
	LEAQ(Mem{Base: lda, Index: lda, Scale: 4}, lda5)
	groups(func(name string, rows int) {
		sum, at := ymms(rows*width), copyOf(a)
		begin(name, bias, sum)
		n, offsets, from := Int("k"), Int("offsets"), GP64()
		Label(name + "_tap")
		MOVQ(Mem{Base: offsets}, from)
		step(Mem{Base: b, Index: from, Scale: Float}, sum, func(i int) Mem { return sixth(at, lda, lda3, lda5, i, 0) })
		ADDQ(Imm(Float), at)
		ADDQ(Imm(8), offsets)
		DECQ(n)
		JNZ(LabelRef(name + "_tap"))
		rowsOf(c, ldc, sum, false)
		skipRows(a, lda, rows)
	})
	Done()
}

// sixth is times for i up to 5, given five times the step too.
func sixth(p, step, step3, step5 reg.Register, i, disp int) Mem {
	switch i {
	case 4:
		return Mem{Base: p, Disp: disp, Index: step, Scale: 4}
	case 5:
		return Mem{Base: p, Disp: disp, Index: step5, Scale: 1}
	}
	return times(p, step, step3, i, disp)
}

// skipRows moves a behind a group of rows.
func skipRows(a, lda reg.Register, rows int) {
	LEAQ(Mem{Base: a, Index: lda, Scale: 4}, a)
	if rows == 6 {
		LEAQ(Mem{Base: a, Index: lda, Scale: 2}, a)
	}
}

// begin starts sums from the bias of their rows, or from 0.
func begin(name string, bias reg.Register, sum []reg.VecVirtual) {
	TESTQ(bias, bias)
	JZ(LabelRef(name + "_plain"))
	for i := range sum {
		VBROADCASTSS(Mem{Base: bias, Disp: i / width * Float}, sum[i])
	}
	ADDQ(Imm(uint64(len(sum)/width*Float)), bias)
	JMP(LabelRef(name + "_begun"))
	Label(name + "_plain")
	for _, s := range sum {
		VXORPS(s, s, s)
	}
	Label(name + "_begun")
}

// multiply adds up rows x 16 sums over k. Element i of step u is at(u, i); advance goes on by so many steps.
func multiply(name string, b reg.Register, sum []reg.VecVirtual, at func(u, i int) Mem, advance func(n int)) {
	k := Int("k")
	n := copyOf(k)
	SHRQ(Imm(2), n)
	JZ(LabelRef(name + "_rest"))
	Label(name + "_steps")
	for u := range unroll {
		step(row(b, u), sum, func(i int) Mem { return at(u, i) })
	}
	advance(unroll)
	ADDQ(U32(unroll*width*Vector*Float), b)
	DECQ(n)
	JNZ(LabelRef(name + "_steps"))
	Label(name + "_rest")
	ANDQ(Imm(unroll-1), k)
	JZ(LabelRef(name + "_summed"))
	Label(name + "_step")
	step(row(b, 0), sum, func(i int) Mem { return at(0, i) })
	advance(1)
	ADDQ(Imm(width*Vector*Float), b)
	DECQ(k)
	JNZ(LabelRef(name + "_step"))
	Label(name + "_summed")
}

// row is row u of a panel.
func row(b reg.Register, u int) Mem { return Mem{Base: b, Disp: u * width * Vector * Float} }

// step adds the products of a row of B to sums.
func step(row Mem, sum []reg.VecVirtual, at func(i int) Mem) {
	bs, as := ymms(width), ymms(2)
	for v := range bs {
		VMOVUPS(row.Offset(v*Vector*Float), bs[v])
	}
	for i := 0; i < len(sum)/width; i += len(as) {
		for r := range as {
			VBROADCASTSS(at(i+r), as[r])
		}
		for r := range as {
			for v := range bs {
				VFMADD231PS(as[r], bs[v], sum[(i+r)*width+v])
			}
		}
	}
}

// taps is a product of six rows of A that are one and the same, read from six places.
func taps() {
	const rows = 6
	Start("panelTaps", "(rows, cols int, x *float32, offsets *int, step, jump int, b, c *float32, ldc int)")
	x, b, c, ldc, offsets, step4, n := Int("x"), Int("b"), Int("c"), Bytes("ldc"), Int("offsets"), Bytes("step"), Int("rows")
	var off [rows]reg.Register
	for i := range off {
		off[i] = GP64()
		MOVQ(Mem{Base: offsets, Disp: 8 * i}, off[i])
	}
	sum := Zeroed(rows * width)
	Label("row")
	left := Int("cols")
	Label("col")
	step(row(b, 0), sum, func(i int) Mem { return Mem{Base: x, Index: off[i], Scale: Float} })
	ADDQ(step4, x)
	ADDQ(Imm(width*Vector*Float), b)
	DECQ(left)
	JNZ(LabelRef("col"))
	jump := Bytes("jump")
	ADDQ(jump, x)
	DECQ(n)
	JNZ(LabelRef("row"))
	rowsOf(c, ldc, sum, true)
	Done()
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
func store(name string, c, ldc reg.Register, sum []reg.VecVirtual, addAt int) {
	add := GP32()
	MOVBLZX(NewParamAddr("add", addAt), add)
	TESTL(add, add)
	JZ(LabelRef(name + "_fill"))
	rowsOf(c, ldc, sum, true)
	JMP(LabelRef(name + "_stored"))
	Label(name + "_fill")
	rowsOf(c, ldc, sum, false)
	Label(name + "_stored")
}

func rowsOf(c, ldc reg.Register, sum []reg.VecVirtual, add bool) {
	for i, s := range sum {
		at := Mem{Base: c, Disp: i % width * Vector * Float}
		if add {
			VADDPS(at, s, s)
		}
		VMOVUPS(s, at)
		if i%width == width-1 {
			ADDQ(ldc, c)
		}
	}
}

// transpose turns eight rows of src into eight columns of dst, eight steps at a time.
func transpose() {
	Start("panelTranspose", "(dst *float32, ldd int, src *float32, lds, rows, eights int, factor float32)")
	dst, ldd, src, lds, rows := Int("dst"), Bytes("ldd"), Int("src"), Bytes("lds"), Int("rows")
	p := []reg.Register{src}
	for i := 1; i < Vector; i++ { // rows past the last one are that one again
		next := GP64()
		LEAQ(Mem{Base: p[i-1], Index: lds, Scale: 1}, next)
		CMPQ(rows, Imm(uint64(i)))
		CMOVQLE(p[i-1], next)
		p = append(p, next)
	}
	off, n := GP64(), Int("eights")
	XORQ(off, off)
	Label("eight")
	var quads, cols [Vector]reg.VecVirtual
	for h := 0; h < Vector; h += 4 {
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
	ADDQ(Imm(Vector*Float), off)
	DECQ(n)
	JNZ(LabelRef("eight"))
	Done()
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
	Start("panelPack", "(dst, src *float32, lds, rows int, mask *int32, factor float32, flags *float32)")
	dst, src, lds, n, mask, flags := Int("dst"), Int("src"), Bytes("lds"), Int("rows"), Int("mask"), Int("flags")
	masks, x, zero, factor, flag := ymms(width), ymms(width), Zeroed(1)[0], YMM(), YMM()
	for v := range masks {
		VMOVUPS(Mem{Base: mask, Disp: v * Vector * Float}, masks[v])
	}
	VBROADCASTSS(NewParamAddr("factor", 40), factor)
	VMOVUPS(Mem{Base: flags}, flag)
	Label("row")
	for v := range x {
		VMASKMOVPS(Mem{Base: src, Disp: v * Vector * Float}, masks[v], x[v])
		VFMADD231PS(x[v], zero, flag)
		VMULPS(factor, x[v], x[v])
		VMOVUPS(x[v], Mem{Base: dst, Disp: v * Vector * Float})
	}
	ADDQ(lds, src)
	ADDQ(Imm(width*Vector*Float), dst)
	DECQ(n)
	JNZ(LabelRef("row"))
	VMOVUPS(flag, Mem{Base: flags})
	Done()
}

// move goes, for each patch, over channels, between planes and the rows of a panel.
func move(name string, body func(plane, row reg.Register, masks []reg.VecVirtual, first bool)) {
	Start(name, "(panel *float32, rows int, planes *float32, plane, channels, count int, patches *byte)")
	panel, rows, planes, plane := Int("panel"), Int("rows"), Int("planes"), Bytes("plane")
	count, patches := Int("count"), Int("patches")
	SHLQ(Imm(6), rows) // bytes between the rows of one tap
	lane := GLOBL(name+"_lanes", RODATA|NOPTR)
	for i := range width * Vector {
		DATA(i*Float, U32(uint32(i)))
	}
	one := func(label string, first bool) {
		from, row, n := GP64(), copyOf(panel), Int("channels")
		MOVQ(Mem{Base: patches}, from)
		LEAQ(Mem{Base: planes, Index: from, Scale: Float}, from)
		masks := ymms(width)
		for v := range masks { // lo <= lane and hi > lane
			lo, hi, l := YMM(), YMM(), YMM()
			VPBROADCASTD(Mem{Base: patches, Disp: 8}, lo)
			VPBROADCASTD(Mem{Base: patches, Disp: 12}, hi)
			VMOVUPS(lane.Offset(v*Vector*Float), l)
			VPCMPGTD(l, lo, lo)
			VPCMPGTD(l, hi, hi)
			VPANDN(hi, lo, masks[v])
		}
		Label(label)
		body(from, row, masks, first)
		ADDQ(plane, from)
		ADDQ(rows, row)
		DECQ(n)
		JNZ(LabelRef(label))
		ADDQ(Imm(16), patches)
		DECQ(count)
	}
	one("first", true)
	JZ(LabelRef("end"))
	Label("more")
	one("next", false)
	JNZ(LabelRef("more"))
	Label("end")
	Done()
}

func gather(plane, row reg.Register, masks []reg.VecVirtual, first bool) {
	for v, mask := range masks {
		x := YMM()
		VMASKMOVPS(Mem{Base: plane, Disp: v * Vector * Float}, mask, x)
		if !first {
			VORPS(Mem{Base: row, Disp: v * Vector * Float}, x, x)
		}
		VMOVUPS(x, Mem{Base: row, Disp: v * Vector * Float})
	}
}

func scatter(plane, row reg.Register, masks []reg.VecVirtual, _ bool) {
	for v, mask := range masks {
		x := YMM()
		VANDPS(Mem{Base: row, Disp: v * Vector * Float}, mask, x)
		VADDPS(Mem{Base: plane, Disp: v * Vector * Float}, x, x)
		VMOVUPS(x, Mem{Base: plane, Disp: v * Vector * Float})
	}
}
