// Command optim writes the optimizers' updates. From the folder above:
//
//	go run ./optim -out ../optim_amd64.s
//
// Every operation is that of the plain version, in its order and rounded on its own.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

func main() {
	Begin()
	adam()
	sgd()
	adagrad()
	lion()
	rmsprop()
	Generate()
}

// gradient reads the gradient, multiplied by scale. With decay it adds decay times the parameter.
func gradient(at At, d, p reg.Register, scale, decay reg.VecVirtual) reg.VecVirtual {
	v := at.Load(d)
	VMULPS(scale, v, v)
	if decay != nil {
		w := at.Load(p)
		VMULPS(decay, w, w)
		VADDPS(w, v, v)
	}
	return v
}

// mix is a x + b y. It may overwrite x.
func mix(a, x, b, y reg.VecVirtual) reg.VecVirtual {
	t := YMM()
	VMULPS(a, x, x)
	VMULPS(b, y, t)
	VADDPS(t, x, x)
	return x
}

// square is n d^2, multiplied from the left. It overwrites d.
func square(n, d reg.VecVirtual) reg.VecVirtual {
	t := YMM()
	VMULPS(n, d, t)
	VMULPS(d, t, d)
	return d
}

// step writes p - rate u.
func step(at At, p reg.Register, rate, u reg.VecVirtual) {
	w := at.Load(p)
	VMULPS(rate, u, u)
	VSUBPS(u, w, w)
	at.Store(w, p)
}

// adam has the scalars scale, beta1, 1-beta1, beta2, 1-beta2, step, root, eps, and shrink, or the decay for L2.
func adam() {
	Start("adamFloats", "(n int, p, d, m, v, top *float32, scalars *[9]float32, l2 bool)")
	n, p, d, m, v := Int("n"), Int("p"), Int("d"), Int("m"), Int("v")
	c := Table(Int("scalars"), 9)
	IfAny("top", func(top reg.Register) {
		If("l2", func(l2 bool) {
			Sweep(n, 1, func(at At) { adamStep(at, l2, p, d, m, v, top, c) })
			Done()
		})
	})
}

func adamStep(at At, l2 bool, p, d, m, v, top reg.Register, c []reg.VecVirtual) {
	scale, beta1, new1, beta2, new2, rate, root, eps, shrink := c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]
	var decay reg.VecVirtual
	if l2 {
		decay = shrink
	}
	x := gradient(at, d, p, scale, decay)
	mean := mix(beta1, at.Load(m), new1, x)
	at.Store(mean, m)
	spread := at.Load(v)
	VMULPS(beta2, spread, spread)
	VADDPS(square(new2, x), spread, spread)
	at.Store(spread, v)
	if top != nil {
		spread = Max(at.Load(top), spread)
		at.Store(spread, top)
	}
	VSQRTPS(spread, spread)
	VMULPS(root, spread, spread)
	VADDPS(eps, spread, spread)
	VDIVPS(spread, mean, mean)
	VMULPS(rate, mean, mean)
	w := at.Load(p)
	if !l2 {
		VMULPS(shrink, w, w)
	}
	VSUBPS(mean, w, w)
	at.Store(w, p)
}

// sgd has the scalars scale, rate, decay, momentum and 1-dampening.
func sgd() {
	Start("sgdFloats", "(n int, p, d *float32, scalars *[3]float32, decays bool)")
	n, p, d := Int("n"), Int("p"), Int("d")
	c := Table(Int("scalars"), 3)
	ifDecays(c[2], func(decay reg.VecVirtual) {
		Sweep(n, 2, func(at At) { step(at, p, c[1], gradient(at, d, p, c[0], decay)) })
		Done()
	})
	Start("sgdMomentumFloats", "(n int, p, d, buf *float32, scalars *[5]float32, decays, nesterov bool)")
	n, p, d = Int("n"), Int("p"), Int("d")
	buf := Int("buf")
	c = Table(Int("scalars"), 5)
	momentum, keep := c[3], c[4]
	ifDecays(c[2], func(decay reg.VecVirtual) {
		If("nesterov", func(nesterov bool) {
			Sweep(n, 1, func(at At) {
				x := gradient(at, d, p, c[0], decay)
				u := mix(momentum, at.Load(buf), keep, x)
				at.Store(u, buf)
				if nesterov {
					VMULPS(momentum, u, u)
					VADDPS(x, u, u)
				}
				step(at, p, c[1], u)
			})
			Done()
		})
	})
}

// ifDecays is If for whether the decay is to be used.
func ifDecays(decay reg.VecVirtual, body func(decay reg.VecVirtual)) {
	If("decays", func(decays bool) {
		if decays {
			body(decay)
		} else {
			body(nil)
		}
	})
}

// adagrad has the scalars scale, rate, decay and eps.
func adagrad() {
	Start("adagradFloats", "(n int, p, d, sum *float32, scalars *[4]float32, decays bool)")
	n, p, d, sum := Int("n"), Int("p"), Int("d"), Int("sum")
	c := Table(Int("scalars"), 4)
	ifDecays(c[2], func(decay reg.VecVirtual) {
		Sweep(n, 1, func(at At) {
			x, s, squared := gradient(at, d, p, c[0], decay), at.Load(sum), YMM()
			VMULPS(x, x, squared)
			VADDPS(squared, s, s)
			at.Store(s, sum)
			step(at, p, c[1], over(x, s, c[3]))
		})
		Done()
	})
}

// over is x / (sqrt(s) + eps). It overwrites both.
func over(x, s, eps reg.VecVirtual) reg.VecVirtual {
	VSQRTPS(s, s)
	VADDPS(eps, s, s)
	VDIVPS(s, x, x)
	return x
}

// lion has the scalars scale, rate, shrink, beta1, 1-beta1, beta2, 1-beta2.
func lion() {
	Start("lionFloats", "(n int, p, d, m *float32, scalars *[7]float32)")
	n, p, d, m := Int("n"), Int("p"), Int("d"), Int("m")
	c := Table(Int("scalars"), 7)
	sign, zero := Word(1<<31), Zeroed(1)[0]
	Sweep(n, 1, func(at At) {
		x := gradient(at, d, p, c[0], nil)
		u := mix(c[3], at.Load(m), c[4], x)
		at.Store(mix(c[5], at.Load(m), c[6], x), m)
		w, move, some := at.Load(p), YMM(), YMM()
		VMULPS(c[2], w, w)
		VANDPS(sign, u, move)
		VXORPS(c[1], move, move) // the rate, turned around where u is negative
		VCMPPS(Imm(Apart), zero, u, some)
		VANDPS(some, move, move)
		VSUBPS(move, w, w)
		VCMPPS(Imm(Unordered), u, u, some)
		VBLENDVPS(some, u, w, w)
		at.Store(w, p)
	})
	Done()
}

// rmsprop has the scalars scale, rate, decay, alpha, 1-alpha, eps and momentum.
func rmsprop() {
	Start("rmspropFloats", "(n int, p, d, v, avg, buf *float32, scalars *[7]float32, decays bool)")
	n, p, d, v := Int("n"), Int("p"), Int("d"), Int("v")
	c := Table(Int("scalars"), 7)
	IfAny("avg", func(avg reg.Register) {
		IfAny("buf", func(buf reg.Register) {
			ifDecays(c[2], func(decay reg.VecVirtual) {
				Sweep(n, 1, func(at At) { rmspropStep(at, p, d, v, avg, buf, c, decay) })
				Done()
			})
		})
	})
}

func rmspropStep(at At, p, d, v, avg, buf reg.Register, c []reg.VecVirtual, decay reg.VecVirtual) {
	scale, rate, alpha, fresh, eps, momentum := c[0], c[1], c[3], c[4], c[5], c[6]
	x := gradient(at, d, p, scale, decay)
	spread, squared := at.Load(v), YMM()
	VMULPS(alpha, spread, spread)
	VMULPS(fresh, x, squared)
	VMULPS(x, squared, squared)
	VADDPS(squared, spread, spread)
	at.Store(spread, v)
	if avg != nil {
		mean, way := at.Load(avg), YMM()
		VSUBPS(mean, x, way)
		VMULPS(fresh, way, way)
		VADDPS(way, mean, mean)
		at.Store(mean, avg)
		VMULPS(mean, mean, mean)
		VSUBPS(mean, spread, spread)
	}
	x = over(x, spread, eps)
	if buf != nil {
		b := at.Load(buf)
		VMULPS(momentum, b, b)
		VADDPS(b, x, x)
		at.Store(x, buf)
	}
	step(at, p, rate, x)
}
