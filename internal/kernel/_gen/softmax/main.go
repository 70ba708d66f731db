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
	expTimes()
	dot()
	softmaxBackward()
	subtract()
	logSoftmaxBackward()
	topDown()
	expDown()
	dotDown()
	softmaxBackwardDown()
	subtractDown()
	logSoftmaxBackwardDown()
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
	shift := Int("by")
	by := Table(shift, 3)
	IfAny("dst", func(dst reg.Register) {
		n, x, sums := Int("n"), Int("x"), Zeroed(2)
		Sweep(n, 1, func(at At) {
			e := shifted(at.Load(x), by)
			if dst != nil {
				at.Store(e, dst)
			}
			at.Keep(e)
			Accumulate(sums, Widen(e))
		})
		result(Total64(sums))
	})
}

// shifted is e^(x - by), given what an expShift holds.
func shifted(x reg.VecVirtual, by []reg.VecVirtual) reg.VecVirtual {
	VSUBPS(by[0], x, x)
	ClampBelow(x, by[2])
	return Exp(x, by[1]).Value()
}

func expTimes() {
	Start("expTimesFloats", "(n int, d *float32, add bool, x, by *float32, k float32)")
	If("add", func(add bool) {
		n, d, x, shift, k := Int("n"), Int("d"), Int("x"), Int("by"), Scalar("k")
		by := Table(shift, 3)
		Sweep(n, 1, func(at At) {
			e := shifted(at.Load(x), by)
			VMULPS(k, e, e)
			at.Put(e, d, add)
		})
		Done()
	})
}

func dot() {
	const unroll = 2
	Start("dotFloats", "(n int, x, y *float32) float64")
	n, x, y, sums := Int("n"), Int("x"), Int("y"), Zeroed(2*unroll)
	Sweep(n, unroll, func(at At) {
		a, b := at.LoadWide(x), at.LoadWide(y)
		for h := range a {
			VFMADD231PD(a[h], b[h], sums[2*at.Step+h])
		}
	})
	result(Total64(sums))
}

func softmaxBackward() {
	Start("softmaxBackwardFloats", "(n int, d *float32, add bool, dy, y *float32, mean float32)")
	If("add", func(add bool) {
		n, d, dy, y, mean := Int("n"), Int("d"), Int("dy"), Int("y"), Scalar("mean")
		Sweep(n, 4, func(at At) {
			v := at.Load(dy)
			VSUBPS(mean, v, v)
			VMULPS(at.Load(y), v, v)
			at.Put(v, d, add)
		})
		Done()
	})
}

// subtract takes off a number in two parts, the larger one first: most x are near it, and that difference is exact.
func subtract() {
	Start("subtractFloats", "(n int, y, x *float32, high, low float32)")
	n, y, x, high, low := Int("n"), Int("y"), Int("x"), Scalar("high"), Scalar("low")
	Sweep(n, 4, func(at At) {
		v := at.Load(x)
		VSUBPS(high, v, v)
		VSUBPS(low, v, v)
		at.Store(v, y)
	})
	Done()
}

func logSoftmaxBackward() {
	Start("logSoftmaxBackwardFloats", "(n int, d *float32, add bool, dy, y *float32, sum float32)")
	If("add", func(add bool) {
		n, d, dy, y, sum := Int("n"), Int("d"), Int("dy"), Int("y"), Scalar("sum")
		Sweep(n, 1, func(at At) {
			e, v := at.Load(y), at.Load(dy)
			VFNMADD231PS(sum, ExpOf(e), v)
			at.Put(v, d, add)
		})
		Done()
	})
}

// What follows is one row of many lines side by side; each has its own top, shift, sum.

func topDown() {
	Start("topDownFloats", "(n int, top, x *float32)")
	n, top, x := Int("n"), Int("top"), Int("x")
	Sweep(n, 4, func(at At) {
		v := at.Load(x)
		VMAXPS(at.Load(top), v, v)
		at.Store(v, top)
	})
	Done()
}

func expDown() {
	Start("expDownFloats", "(n int, dst, x, base, magic, floor *float32, sums *float64)")
	IfAny("dst", func(dst reg.Register) {
		n, x, base, magic, floor, sums := Int("n"), Int("x"), Int("base"), Int("magic"), Int("floor"), Int("sums")
		Sweep(n, 1, func(at At) {
			e := shifted(at.Load(x), []reg.VecVirtual{at.Load(base), at.Load(magic), at.Load(floor)})
			if dst != nil {
				at.Store(e, dst)
			}
			w, old := Widen(e), at.Load64(sums)
			for h, v := range w {
				VADDPD(old[h], v, v)
			}
			at.Store64(w, sums)
		})
		Done()
	})
}

func dotDown() {
	Start("dotDownFloats", "(n int, sums *float64, x, y *float32)")
	n, sums, x, y := Int("n"), Int("sums"), Int("x"), Int("y")
	Sweep(n, 1, func(at At) {
		a, b, s := at.LoadWide(x), at.LoadWide(y), at.Load64(sums)
		for h := range s {
			VFMADD231PD(a[h], b[h], s[h])
		}
		at.Store64(s, sums)
	})
	Done()
}

func softmaxBackwardDown() {
	Start("softmaxBackwardDownFloats", "(n int, d *float32, add bool, dy, y, mean *float32)")
	If("add", func(add bool) {
		n, d, dy, y, mean := Int("n"), Int("d"), Int("dy"), Int("y"), Int("mean")
		Sweep(n, 2, func(at At) {
			v := at.Load(dy)
			VSUBPS(at.Load(mean), v, v)
			VMULPS(at.Load(y), v, v)
			at.Put(v, d, add)
		})
		Done()
	})
}

func subtractDown() {
	Start("subtractDownFloats", "(n int, y, x, high, low *float32)")
	n, y, x, high, low := Int("n"), Int("y"), Int("x"), Int("high"), Int("low")
	Sweep(n, 2, func(at At) {
		v := at.Load(x)
		VSUBPS(at.Load(high), v, v)
		VSUBPS(at.Load(low), v, v)
		at.Store(v, y)
	})
	Done()
}

func logSoftmaxBackwardDown() {
	Start("logSoftmaxBackwardDownFloats", "(n int, d *float32, add bool, dy, y, sum *float32)")
	If("add", func(add bool) {
		n, d, dy, y, sum := Int("n"), Int("d"), Int("dy"), Int("y"), Int("sum")
		Sweep(n, 1, func(at At) {
			e, v := ExpOf(at.Load(y)), at.Load(dy)
			VFNMADD231PS(at.Load(sum), e, v)
			at.Put(v, d, add)
		})
		Done()
	})
}
