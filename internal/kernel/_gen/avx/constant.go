package avx

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var constants = map[uint32]Mem{}

// Bits is a constant in memory, eight times, as an operand of instructions that take one from there.
func Bits(b uint32) Mem {
	m, ok := constants[b]
	if !ok {
		m = GLOBL(fmt.Sprintf("c%08x", b), RODATA|NOPTR)
		for i := range Vector {
			DATA(Float*i, U32(b))
		}
		constants[b] = m
	}
	return m
}

// Const is Bits of a float32.
func Const(v float64) Mem { return Bits(math.Float32bits(float32(v))) }

// Full is a register full of a float32.
func Full(v float64) reg.VecVirtual {
	y := YMM()
	VMOVAPS(Const(v), y)
	return y
}
