package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Packing: rows of matrices into panels.

// rowPointers gives n rows at offset off, which is 0 at first. Those past the given number are the last one again.
func rowPointers(n int, src, ld, rows, off reg.Register) []Mem {
	p := []reg.Register{src}
	for i := 1; i < n; i++ {
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
	p := rowPointers(vector, load("src"), bytes("ld"), load("rows"), off)
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

// move is how a step of a panel, so many floats, goes from src to dst: through vectors, and the rest of 24 or 48 bytes.
func move(width int, dst, src Mem) {
	var lo, hi reg.VecVirtual = YMM(), YMM()
	switch width {
	case tileRows:
		rest := GP64()
		VMOVUPS(src, lo.AsX())
		MOVQ(src.Offset(16), rest)
		VMOVUPS(lo.AsX(), dst)
		MOVQ(rest, dst.Offset(16))
	case 2 * tileRows:
		VMOVUPS(src, lo)
		VMOVUPS(src.Offset(32), hi.AsX())
		VMOVUPS(lo, dst)
		VMOVUPS(hi.AsX(), dst.Offset(32))
	default:
		VMOVUPS(src, lo)
		VMOVUPS(src.Offset(32), hi)
		VMOVUPS(lo, dst)
		VMOVUPS(hi, dst.Offset(32))
	}
}

// packCols packs rows, which lie across k, into one panel, whose steps are so many floats, or half as many float64.
func packCols(name string, width int) {
	start(name, "func(dst, src *float32, ld, rows int, mask *int32)")
	dst, src, ld, n, mask := load("dst"), load("src"), bytes("ld"), load("rows"), load("mask")
	vecs := (width + vector - 1) / vector
	masks, x := ymms()[:vecs], ymms()[:vecs]
	for v := range masks {
		VMOVUPS(Mem{Base: mask, Disp: v * vector * float}, masks[v])
	}
	Label("row")
	for v := range x {
		VMASKMOVPS(Mem{Base: src, Disp: v * vector * float}, masks[v], x[v])
	}
	if width == tileRows {
		storeSix(x[0], Mem{Base: dst})
	} else {
		VMOVUPS(x[0], Mem{Base: dst})
		if at := (Mem{Base: dst, Disp: vector * float}); width == tileCols {
			VMOVUPS(x[1], at)
		} else {
			VMOVUPS(x[1].AsX(), at)
		}
	}
	ADDQ(ld, src)
	ADDQ(Imm(uint64(width*float)), dst)
	DECQ(n)
	JNZ(LabelRef("row"))
	done()
}

// packPanels deals rows out to panels, row by row, because the rows may be far apart: each is another page.
func packPanels(name string, width int) {
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
	move(width, Mem{Base: d}, Mem{Base: s})
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

// packRowsDouble is packRows for float64 and all columns of a panel: four steps of k at a time.
func packRowsDouble(name string, cols int) {
	start(name, "func(dst, src *float64, ld, rows, fours int)")
	dst, n, off := load("dst"), load("fours"), GP64()
	p := rowPointers(cols, load("src"), double.bytes("ld"), load("rows"), off)
	Label("four")
	for c := 0; c < cols; c += double.vector {
		at := func(i int) Mem { return Mem{Base: dst, Disp: (i*cols + c) * double.size} }
		if cols-c >= double.vector {
			for i, col := range turned(p[c:c+double.vector], whole) {
				VMOVUPD(col, at(i))
			}
			continue
		}
		for i, pair := range paired(p[c:c+2], whole) { // steps i and i+2
			VMOVUPD(pair.AsX(), at(i))
			VEXTRACTF128(Imm(1), pair, at(i+2))
		}
	}
	ADDQ(Imm(uint64(double.vector*double.size)), off)
	ADDQ(U32(uint32(double.vector*cols*double.size)), dst)
	DECQ(n)
	JNZ(LabelRef("four"))
	done()
}

// paired turns two rows of four float64 into columns 0 and 2, and columns 1 and 3.
func paired(rows []Mem, take func(Mem, reg.VecVirtual)) []reg.VecVirtual {
	a, b, even, odd := YMM(), YMM(), YMM(), YMM()
	take(rows[0], a)
	take(rows[1], b)
	VUNPCKLPD(b, a, even)
	VUNPCKHPD(b, a, odd)
	return []reg.VecVirtual{even, odd}
}

// turned turns four rows of four float64 into four columns.
func turned(rows []Mem, take func(Mem, reg.VecVirtual)) []reg.VecVirtual {
	lo, hi := paired(rows[:2], take), paired(rows[2:], take)
	cols := ymms()[:4]
	for i := range lo {
		VPERM2F128(Imm(0x20), hi[i], lo[i], cols[i])
		VPERM2F128(Imm(0x31), hi[i], lo[i], cols[i+2])
	}
	return cols
}

func whole(at Mem, v reg.VecVirtual) { VMOVUPS(at, v) }
