// Package avx is what the generators of element-wise and row routines share: parameters, branches that are taken before
// a loop, loops whose end is masked, sums. Registers hold 8 float32, or 4 float64.
package avx

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	Float  = 4 // bytes
	Vector = 8 // floats of a register
)

var (
	labels int // made in the current function
	masks  Mem // eight words of ones, then eight of zeros
)

// Begin starts the file.
func Begin() {
	ConstraintExpr("amd64,!purego")
	masks = GLOBL("masks", RODATA|NOPTR)
	for i := range 2 * Vector {
		DATA(Float*i, U32(uint32(i/Vector)-1))
	}
}

// Start opens a function whose pointers the caller keeps. What it computes is said where it is declared, in Go.
func Start(name, signature string) {
	labels = 0
	TEXT(name, NOSPLIT, "func"+signature)
	Pragma("noescape")
}

// Done ends a function.
func Done() {
	VZEROUPPER()
	RET()
}

// label is a name that the function does not have yet.
func label(name string) string {
	labels++
	return fmt.Sprint(name, labels)
}

// Int loads a parameter that is an int or a pointer.
func Int(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// Bytes loads a length in floats and makes it one in bytes.
func Bytes(name string) reg.GPVirtual {
	r := Int(name)
	SHLQ(Imm(2), r)
	return r
}

// Lines loads a pointer to the first of some rows, stride bytes apart, and makes the others.
func Lines(name string, stride reg.Register, rows int) []reg.Register {
	p := []reg.Register{Int(name)}
	for i := 1; i < rows; i++ {
		next := GP64()
		LEAQ(Mem{Base: p[i-1], Index: stride, Scale: 1}, next)
		p = append(p, next)
	}
	return p
}

// Scalar is a float32 parameter in all elements of a register.
func Scalar(name string) reg.VecVirtual {
	v := YMM()
	VBROADCASTSS(address(name), v)
	return v
}

// Scalar64 is Scalar for float64.
func Scalar64(name string) reg.VecVirtual {
	v := YMM()
	VBROADCASTSD(address(name), v)
	return v
}

// address is where a parameter lies.
func address(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// Table loads n numbers that lie at p, each into all elements of a register.
func Table(p reg.Register, n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
		VBROADCASTSS(Mem{Base: p, Disp: i * Float}, v[i])
	}
	return v
}

// Zeroed gives n registers of zeros.
func Zeroed(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
		VXORPS(v[i], v[i], v[i])
	}
	return v
}

// Word is a constant in all elements of a register, given as bits: avo prints F32(1) as the integer 1.
func Word(bits uint32) reg.VecVirtual {
	w := GP32()
	MOVL(U32(bits), w)
	return Same(w)
}

// Same is a word in all elements of a register.
func Same(word reg.Register) reg.VecVirtual {
	v := YMM()
	VMOVD(word, v.AsX())
	VPBROADCASTD(v.AsX(), v)
	return v
}

// If writes body twice, for a bool parameter that is true and for one that is false. Each must end the function.
func If(name string, body func(bool)) {
	no := label("no")
	CMPB(address(name), Imm(0))
	JEQ(LabelRef(no))
	body(true)
	Label(no)
	body(false)
}

// IfAny is If for a pointer that may be nil. The body gets it, or nil.
func IfAny(name string, body func(p reg.Register)) {
	none := label("none")
	p := Int(name)
	TESTQ(p, p)
	JZ(LabelRef(none))
	body(p)
	Label(none)
	body(nil)
}
