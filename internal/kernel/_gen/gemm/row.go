package main

import (
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products of a vector and a matrix, read where it lies.

// rowWide adds rows up in 8 registers: as many sums as two multiplications a cycle need to wait for none.
func (e *element) rowWide() {
	const vecs = 8
	e.start("Row", strconv.Itoa(vecs*e.vector), "func(sum, x *T, k int, b *T, ldb int)")
	e.row(vecs, func(b reg.Register, v int, x reg.VecVirtual, sum reg.VecVirtual) {
		e.multiply(Mem{Base: b, Disp: v * 32}, x, sum)
	})
}

// rowMasked is rowWide for up to two registers.
func (e *element) rowMasked() {
	const vecs = 2
	e.start("Row", strconv.Itoa(vecs*e.vector), "func(sum, x *T, k int, b *T, ldb int, mask *M)")
	mask, masks, t := load("mask"), ymms()[:vecs], ymms()[:vecs]
	for v := range masks {
		VMOVUPS(Mem{Base: mask, Disp: v * 32}, masks[v])
	}
	e.row(vecs, func(b reg.Register, v int, x reg.VecVirtual, sum reg.VecVirtual) {
		e.move(Mem{Base: b, Disp: v * 32}, masks[v], t[v])
		e.multiply(t[v], x, sum)
	})
}

func (e *element) row(vecs int, multiply func(b reg.Register, v int, x, sum reg.VecVirtual)) {
	dst, xs, k, b, ldb := load("sum"), load("x"), load("k"), load("b"), e.bytes("ldb")
	sum, x := zeroed(vecs), YMM()
	Label("step")
	e.broadcast(Mem{Base: xs}, x)
	for v := range sum {
		multiply(b, v, x, sum[v])
	}
	ADDQ(Imm(uint64(e.size)), xs)
	ADDQ(ldb, b)
	DECQ(k)
	JNZ(LabelRef("step"))
	for v := range sum {
		VMOVUPS(sum[v], Mem{Base: dst, Disp: v * 32})
	}
	done()
}

// dots multiplies eight rows by x, in the order of k: as many steps as a vector has elements are transposed and then added one
// after the other. Of the last ones, which a mask cuts off, only as many are added as there are.
func (e *element) dots() {
	e.start("Dots", strconv.Itoa(vector), "func(sum, x *T, k int, m *T, ld, rows int, mask *M)")
	xs, off, k := load("x"), GP64(), load("k")
	p := rowPointers(vector, load("m"), e.bytes("ld"), load("rows"), off)
	sum := zeroed(vector / e.vector)
	step := func(i int, cols [][]reg.VecVirtual) {
		x := YMM()
		e.broadcast(Mem{Base: xs, Index: off, Scale: 1, Disp: i * e.size}, x)
		for g, s := range sum {
			e.multiply(cols[g][i], x, s)
		}
	}
	SUBQ(Imm(uint64(e.vector)), k)
	JLT(LabelRef("rest"))
	Label("whole")
	cols := e.columns(p, whole)
	for i := range e.vector {
		step(i, cols)
	}
	ADDQ(Imm(32), off)
	SUBQ(Imm(uint64(e.vector)), k)
	JGE(LabelRef("whole"))
	Label("rest")
	ADDQ(Imm(uint64(e.vector)), k)
	JZ(LabelRef("summed"))
	mask, addr := YMM(), load("mask")
	VMOVUPS(Mem{Base: addr}, mask)
	cols = e.columns(p, func(at Mem, v reg.VecVirtual) { e.move(at, mask, v) })
	for i := range e.vector - 1 {
		step(i, cols)
		DECQ(k)
		JZ(LabelRef("summed"))
	}
	Label("summed")
	dst := load("sum")
	for g, s := range sum {
		VMOVUPS(s, Mem{Base: dst, Disp: g * 32})
	}
	done()
}

// columns turns eight rows into the columns of each group of as many rows as a vector has elements.
func (e *element) columns(rows []Mem, take func(Mem, reg.VecVirtual)) [][]reg.VecVirtual {
	if e.vector == vector {
		cols := transposed(rows, take)
		return [][]reg.VecVirtual{cols[:]}
	}
	return [][]reg.VecVirtual{turned(rows[:4], take), turned(rows[4:], take)}
}
