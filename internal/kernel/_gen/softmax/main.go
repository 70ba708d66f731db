// Command softmax writes the rows that softmax, log-softmax, cross-entropy and attention are made of. From the folder above:
//
//	go run ./softmax -out ../softmax_amd64.s
//
// What each function does, and what it demands of its arguments, is said where it is declared: softmax_amd64.go.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

func main() {
	Begin()
	top()
	expRow()
	Generate()
}

// result ends a function that returns the lowest element of v.
func result(v reg.VecVirtual) {
	VZEROUPPER()
	Store(v.AsX(), ReturnIndex(0))
	RET()
}

// top leaves NaN out: of a pair with one, the instruction gives the other if that comes second.
func top() {
	const unroll = 4
	Start("topFloat", "(n int, x *float32) float32")
	n, x := Int("n"), Int("x")
	var top [unroll]reg.VecVirtual
	for i := range top {
		top[i] = Full(math.Inf(-1))
	}
	Sweep(n, unroll, func(at At) {
		v := at.Load(x)
		at.Else(v, top[at.Step])
		VMAXPS(top[at.Step], v, top[at.Step])
	})
	for i := unroll / 2; i > 0; i /= 2 {
		for k := range i {
			VMAXPS(top[k+i], top[k], top[k])
		}
	}
	h, v := XMM(), top[0].AsX()
	VEXTRACTF128(Imm(1), top[0], h)
	VMAXPS(h, v, v)
	VPERMILPS(Imm(0x4e), v, h)
	VMAXPS(h, v, v)
	VPERMILPS(Imm(0xb1), v, h)
	VMAXPS(h, v, v)
	result(top[0])
}

func expRow() {
	Start("expRowFloats", "(n int, dst, x, by *float32) float64")
	by := Int("by")
	shift := Table(by, 3)
	base, magic, floor := shift[0], shift[1], shift[2]
	IfAny("dst", func(dst reg.Register) {
		n, x, sums := Int("n"), Int("x"), Zeroed(2)
		Sweep(n, 1, func(at At) {
			v := at.Load(x)
			VSUBPS(base, v, v)
			ClampBelow(v, floor)
			e := Exp(v, magic).Value()
			if dst != nil {
				at.Store(e, dst)
			}
			at.Keep(e)
			Accumulate(sums, Widen(e))
		})
		result(Total64(sums))
	})
}
