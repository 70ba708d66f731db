// Command norm writes what layer norm, RMS norm, batch norm and group norm do along rows. From the folder above:
//
//	go run ./norm -out ../norm_amd64.s
//
// Every float32 operation is that of the plain version, in its order and rounded on its own; sums are carried in float64.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

func main() {
	Begin()
	affine()
	affineAll()
	products()
	backward()
	combine()
	affineEach()
	combineEach()
	downEach()
	down("downAffine", 1, true)
	down("downAffine2", 2, true)
	down("downScaled", 1, false)
	down("downScaled2", 2, false)
	Generate()
}

// normal reads x and makes it (x-mean) rstd.
func normal(at At, x reg.Register, mean, rstd reg.VecVirtual) reg.VecVirtual {
	v := at.Load(x)
	if mean != nil {
		VSUBPS(mean, v, v)
	}
	VMULPS(rstd, v, v)
	return v
}

// affine writes (x-mean) rstd w + b.
func affine() {
	Start("rowAffine", "(n int, y, x, w, b *float32, mean, rstd float32)")
	n, y, x := Int("n"), Int("y"), Int("x")
	mean, rstd := Scalar("mean"), Scalar("rstd")
	IfAny("w", func(w reg.Register) {
		IfAny("b", func(b reg.Register) {
			Sweep(n, 2, func(at At) {
				v := normal(at, x, mean, rstd)
				if w != nil {
					VMULPS(at.Load(w), v, v)
				}
				if b != nil {
					VADDPS(at.Load(b), v, v)
				}
				at.Store(v, y)
			})
			Done()
		})
	})
}

// affineAll is affine for a whole row of one channel.
func affineAll() {
	Start("rowAffineAll", "(n int, y, x *float32, mean, rstd, w, b float32)")
	n, y, x := Int("n"), Int("y"), Int("x")
	mean, rstd, w, b := Scalar("mean"), Scalar("rstd"), Scalar("w"), Scalar("b")
	Sweep(n, 4, func(at At) {
		v := normal(at, x, mean, rstd)
		VMULPS(w, v, v)
		VADDPS(b, v, v)
		at.Store(v, y)
	})
	Done()
}

// weighted reads the gradient and multiplies it by w, unless that is nil.
func weighted(at At, d, w reg.Register) reg.VecVirtual {
	v := at.Load(d)
	if w != nil {
		VMULPS(at.Load(w), v, v)
	}
	return v
}

// products sums d w and d w xhat.
func products() {
	Start("rowNormProducts", "(n int, d, x, w *float32, mean, rstd float32) (dw, dwx float64)")
	n, d, x := Int("n"), Int("d"), Int("x")
	mean, rstd := Scalar("mean"), Scalar("rstd")
	IfAny("w", func(w reg.Register) {
		sums, crossed := Zeroed(4), Zeroed(4)
		Sweep(n, 2, func(at At) {
			p, q := weighted(at, d, w), normal(at, x, mean, rstd)
			VMULPS(p, q, q)
			at.Keep(q) // 0 times what a mean of Inf leaves
			Accumulate(sums[2*at.Step:], Widen(p))
			Accumulate(crossed[2*at.Step:], Widen(q))
		})
		a, b := Total64(sums), Total64(crossed)
		VZEROUPPER()
		Store(a.AsX(), ReturnIndex(0))
		Store(b.AsX(), ReturnIndex(1))
		RET()
	})
}

// backward writes or adds rstd (d w - m1 - xhat m2).
func backward() {
	Start("rowNormBackward", "(n int, dx *float32, add bool, d, x, w *float32, mean, rstd, m1, m2 float32)")
	n, dx, d, x := Int("n"), Int("dx"), Int("d"), Int("x")
	mean, rstd, m1, m2 := Scalar("mean"), Scalar("rstd"), Scalar("m1"), Scalar("m2")
	IfAny("w", func(w reg.Register) {
		If("add", func(add bool) {
			Sweep(n, 2, func(at At) {
				p, q := weighted(at, d, w), normal(at, x, mean, rstd)
				VSUBPS(m1, p, p)
				VMULPS(m2, q, q)
				VSUBPS(q, p, p)
				VMULPS(rstd, p, p)
				at.Put(p, dx, add)
			})
			Done()
		})
	})
}

// combine writes or adds a d - b - c (x-mean).
func combine() {
	Start("rowCombine", "(n int, dx *float32, add bool, d, x *float32, mean, a, b, c float32)")
	n, dx, d, x := Int("n"), Int("dx"), Int("d"), Int("x")
	mean, a, b, c := Scalar("mean"), Scalar("a"), Scalar("b"), Scalar("c")
	If("add", func(add bool) {
		Sweep(n, 2, func(at At) {
			p, q := at.Load(d), at.Load(x)
			VMULPS(a, p, p)
			VSUBPS(b, p, p)
			VSUBPS(mean, q, q)
			VMULPS(c, q, q)
			VSUBPS(q, p, p)
			at.Put(p, dx, add)
		})
		Done()
	})
}

// pairs reads mean and rstd of each element.
func pairs(at At, stats reg.Register) (mean, rstd reg.VecVirtual) {
	p := at.Load64(stats)
	mean, rstd = YMM(), YMM()
	VSHUFPS(Imm(0x88), p[1], p[0], mean)
	VSHUFPS(Imm(0xdd), p[1], p[0], rstd)
	VPERMPD(Imm(0xd8), mean, mean)
	VPERMPD(Imm(0xd8), rstd, rstd)
	return mean, rstd
}

// affineEach is affine where each element has a mean and rstd of its own.
func affineEach() {
	Start("rowAffineEach", "(n int, y, x, stats, w, b *float32)")
	n, y, x, stats := Int("n"), Int("y"), Int("x"), Int("stats")
	IfAny("w", func(w reg.Register) {
		IfAny("b", func(b reg.Register) {
			Sweep(n, 1, func(at At) {
				mean, rstd := pairs(at, stats)
				v := normal(at, x, mean, rstd)
				if w != nil {
					VMULPS(at.Load(w), v, v)
				}
				if b != nil {
					VADDPS(at.Load(b), v, v)
				}
				at.Store(v, y)
			})
			Done()
		})
	})
}

// combineEach is combine where each element has its own mean, a, b and c.
func combineEach() {
	Start("rowCombineEach", "(n int, dx *float32, add bool, d, x, stats, a, b, c *float32)")
	n, dx, d, stats := Int("n"), Int("dx"), Int("d"), Int("stats")
	a, b, c := Int("a"), Int("b"), Int("c")
	IfAny("x", func(x reg.Register) {
		If("add", func(add bool) {
			Sweep(n, 1, func(at At) {
				p := at.Load(d)
				VMULPS(at.Load(a), p, p)
				if x != nil {
					mean, _ := pairs(at, stats)
					q := at.Load(x)
					VSUBPS(mean, q, q)
					VMULPS(at.Load(c), q, q)
					VADDPS(at.Load(b), q, q)
					VSUBPS(q, p, p)
				}
				at.Put(p, dx, add)
			})
			Done()
		})
	})
}

// downEach adds a row of d xhat to sums, each element with a mean and rstd of its own.
func downEach() {
	Start("downEach", "(n int, sums *float64, d, x, stats *float32)")
	n, sums, d, x, stats := Int("n"), Int("sums"), Int("d"), Int("x"), Int("stats")
	Sweep(n, 1, func(at At) {
		s := at.Load64(sums)
		mean, rstd := pairs(at, stats)
		q := normal(at, x, mean, rstd)
		VMULPS(at.Load(d), q, q)
		Accumulate(s[:], Widen(q))
		at.Store64(s, sums)
	})
	Done()
}

// down adds rows, stride apart, to sums by column: d xhat to dw and, if centered, d to db. stats has mean and rstd of each
// row, or rstd alone.
func down(name string, rows int, centered bool) {
	signature := "(n int, dw *float64, d, x *float32, stride int, rstd *float32)"
	if centered {
		signature = "(n int, dw, db *float64, d, x *float32, stride int, stats *float32)"
	}
	Start(name, signature)
	n, dw, stride := Int("n"), Int("dw"), Bytes("stride")
	ds, xs := Lines("d", stride, rows), Lines("x", stride, rows)
	if !centered {
		rstds := Table(Int("rstd"), rows)
		Sweep(n, 1, func(at At) {
			w := at.Load64(dw)
			for i := range rows {
				q := normal(at, xs[i], nil, rstds[i])
				VMULPS(at.Load(ds[i]), q, q)
				Accumulate(w[:], Widen(q))
			}
			at.Store64(w, dw)
		})
		Done()
		return
	}
	db, stats := Int("db"), Table(Int("stats"), 2*rows)
	Sweep(n, 1, func(at At) {
		w, b := at.Load64(dw), at.Load64(db)
		for i := range rows {
			p, q := at.Load(ds[i]), normal(at, xs[i], stats[2*i], stats[2*i+1])
			VMULPS(p, q, q)
			Accumulate(w[:], Widen(q))
			Accumulate(b[:], Widen(p))
		}
		at.Store64(w, dw)
		at.Store64(b, db)
	})
	Done()
}
