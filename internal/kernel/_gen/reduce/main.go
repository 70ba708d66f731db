// Command reduce writes sums and extremes of rows, and sums down columns. From the folder above:
//
//	go run ./reduce -out ../reduce_amd64.s
//
// Sums are carried in float64, along a row in several interleaved chains.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

const unroll = 4

func main() {
	Begin()
	sum()
	sumAbs()
	squares()
	largest()
	finite()
	down("downAdd", 1)
	down("downAdd4", 4)
	downMore()
	partial()
	Generate()
}

// result ends a function that returns float64.
func result(v reg.VecVirtual) {
	VZEROUPPER()
	Store(v.AsX(), ReturnIndex(0))
	RET()
}

func sum() {
	Start("rowTotal", "(n int, x *float32) float64")
	n, x := Int("n"), Int("x")
	sums := Zeroed(2 * unroll)
	Sweep(n, unroll, func(at At) { Accumulate(sums[2*at.Step:], at.LoadWide(x)) })
	result(Total64(sums))
}

func sumAbs() {
	Start("rowSumAbs", "(n int, x *float32) float64")
	n, x := Int("n"), Int("x")
	sums, magnitude := Zeroed(2*unroll), Word(1<<31-1)
	Sweep(n, unroll, func(at At) {
		v := at.Load(x)
		VANDPS(magnitude, v, v)
		Accumulate(sums[2*at.Step:], Widen(v))
	})
	result(Total64(sums))
}

// squares sums (x-m)^2.
func squares() {
	Start("rowSquares", "(n int, x *float32, m float64) float64")
	n, x, m := Int("n"), Int("x"), Scalar64("m")
	sums := Zeroed(2 * unroll)
	Sweep(n, unroll, func(at At) {
		w := at.LoadWide(x)
		for _, v := range w {
			VSUBPD(m, v, v)
		}
		at.KeepWide(w)
		for h, v := range w {
			VFMADD231PD(v, v, sums[2*at.Step+h])
		}
	})
	result(Total64(sums))
}

// largest is the largest k x, or with abs |x|; NaN if there is one. Of 0 and -0 it may be either.
func largest() {
	const infinity = 0x7f800000
	Start("rowLargest", "(n int, x *float32, k float32) float32")
	n, x, k := Int("n"), Int("x"), Scalar("k")
	least, nan := Word(infinity|1<<31), Zeroed(1)[0]
	top := make([]reg.VecVirtual, unroll)
	for i := range top {
		top[i] = YMM()
		VMOVAPS(least, top[i])
	}
	Sweep(n, unroll, func(at At) {
		v, bad := at.Load(x), YMM()
		VMULPS(k, v, v)
		at.Else(v, least)
		VMAXPS(v, top[at.Step], top[at.Step])
		VCMPPS(Imm(Unordered), v, v, bad)
		VORPS(bad, nan, nan)
	})
	extreme(top, nan)

	Start("rowLargestAbs", "(n int, x *float32) float32")
	n, x = Int("n"), Int("x")
	magnitude, nan := Word(1<<31-1), Zeroed(1)[0]
	top = Zeroed(unroll)
	Sweep(n, unroll, func(at At) {
		v, bad := at.Load(x), YMM()
		VANDPS(magnitude, v, v)
		VMAXPS(v, top[at.Step], top[at.Step])
		VCMPPS(Imm(Unordered), v, v, bad)
		VORPS(bad, nan, nan)
	})
	extreme(top, nan)
}

// extreme ends a function that returns the largest element of top, or NaN if nan has a bit set.
func extreme(top []reg.VecVirtual, nan reg.VecVirtual) {
	for n := len(top) / 2; n > 0; n /= 2 {
		for i := range n {
			VMAXPS(top[i+n], top[i], top[i])
		}
	}
	t, u := top[0].AsX(), XMM()
	VEXTRACTF128(Imm(1), top[0], u)
	VMAXPS(u, t, t)
	VPERMILPS(Imm(0x4e), t, u)
	VMAXPS(u, t, t)
	VPERMILPS(Imm(0xb1), t, u)
	VMAXPS(u, t, t)
	VPTEST(nan, nan)
	JZ(LabelRef("ordered"))
	VMOVAPS(Word(math.Float32bits(float32(math.NaN()))).AsX(), t)
	Label("ordered")
	VZEROUPPER()
	Store(t, ReturnIndex(0))
	RET()
}

// finite tells whether no element is NaN or infinite: x-x is 0 then, else NaN.
func finite() {
	Start("rowFinite", "(n int, x *float32) bool")
	n, x := Int("n"), Int("x")
	bad := Zeroed(unroll)
	Sweep(n, unroll, func(at At) {
		v := at.Load(x)
		VSUBPS(v, v, v)
		VORPS(v, bad[at.Step], bad[at.Step])
	})
	for n := len(bad) / 2; n > 0; n /= 2 {
		for i := range n {
			VORPS(bad[i+n], bad[i], bad[i])
		}
	}
	ok := GP8()
	VPTEST(bad[0], bad[0])
	SETEQ(ok)
	VZEROUPPER()
	Store(ok, ReturnIndex(0))
	RET()
}

// down adds rows of n floats, stride apart, to n sums. Of four rows the first two and the last two are added first.
func down(name string, rows int) {
	Start(name, "(n int, sums *float64, x *float32, stride int)")
	n, sums, x := Int("n"), Int("sums"), Lines("x", Bytes("stride"), rows)
	Sweep(n, 1, func(at At) {
		s := at.Load64(sums)
		if rows == 1 {
			Accumulate(s[:], at.LoadWide(x[0]))
		} else {
			a, c := at.LoadWide(x[0]), at.LoadWide(x[2])
			Accumulate(a[:], at.LoadWide(x[1]))
			Accumulate(c[:], at.LoadWide(x[3]))
			Accumulate(a[:], c)
			Accumulate(s[:], a)
		}
		at.Store64(s, sums)
	})
	Done()
}

// downMore takes one row of floats to sums of squares, to sums of squared distances from m, and to the largest k x.
func downMore() {
	Start("downSquares", "(n int, sums *float64, x *float32)")
	n, sums, x := Int("n"), Int("sums"), Int("x")
	Sweep(n, 1, func(at At) {
		s, w := at.Load64(sums), at.LoadWide(x)
		square(w)
		Accumulate(s[:], w)
		at.Store64(s, sums)
	})
	Done()

	Start("downDistances", "(n int, sums *float64, x *float32, m *float64)")
	n, sums, x = Int("n"), Int("sums"), Int("x")
	m := Int("m")
	Sweep(n, 1, func(at At) {
		s, w := at.Load64(sums), at.LoadWide(x)
		for h, v := range at.Load64(m) {
			VSUBPD(v, w[h], w[h])
		}
		square(w)
		Accumulate(s[:], w)
		at.Store64(s, sums)
	})
	Done()

	Start("downLargest", "(n int, tops *float64, x *float32, k float64)")
	n, tops, x, k := Int("n"), Int("tops"), Int("x"), Scalar64("k")
	Sweep(n, 1, func(at At) {
		s, w := at.Load64(tops), at.LoadWide(x)
		for h := range s {
			VMULPD(k, w[h], w[h])
			s[h] = Max64(s[h], w[h])
		}
		at.Store64(s, tops)
	})
	Done()
}

func square(w [2]reg.VecVirtual) {
	for _, v := range w {
		VMULPD(v, v, v)
	}
}

// partial adds partial sums up, and rounds sums to floats.
func partial() {
	Start("rowAdd64", "(n int, sums, x *float64)")
	n, sums, x := Int("n"), Int("sums"), Int("x")
	Sweep(n, 1, func(at At) {
		s := at.Load64(sums)
		Accumulate(s[:], at.Load64(x))
		at.Store64(s, sums)
	})
	Done()

	Start("rowNarrow", "(n int, d *float32, add bool, x *float64)")
	n, d, x := Int("n"), Int("d"), Int("x")
	If("add", func(add bool) {
		Sweep(n, 1, func(at At) { at.Put(Narrow(at.Load64(x)), d, add) })
		Done()
	})
}
