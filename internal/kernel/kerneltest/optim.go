package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

const optimSteps = 5

// SGD tests five steps of every setting against torch's rule in float64.
func SGD[T kernel.Float](t *testing.T, step func(h *kernel.SGD, p, g, buf []T)) {
	for _, h := range []kernel.SGD{
		{LR: 0.1, GradScale: 1},
		{LR: 0.1, GradScale: 0.25, WeightDecay: 0.01, Maximize: true},
		{LR: 0.1, GradScale: 1, Momentum: 0.9},
		{LR: 0.1, GradScale: 0.5, Momentum: 0.9, Dampening: 0.3, WeightDecay: 0.1},
		{LR: 0.1, GradScale: 2, Momentum: 0.8, Nesterov: true, WeightDecay: 0.1, Maximize: true},
	} {
		optimizer(t, fmt.Sprintf("%+v", h), 1, func(k int, p, g []T, state [][]T) {
			h := h // chunks run at the same time
			h.First = k == 0
			step(&h, p, g, state[0])
		}, func(k int, p, g float64, state []float64) (float64, []float64) {
			if g *= h.GradScale; h.Maximize {
				g = -g
			}
			g += h.WeightDecay * p
			if h.Momentum != 0 {
				if k == 0 {
					state[0] = g
				} else {
					state[0] = h.Momentum*state[0] + (1-h.Dampening)*g
				}
				if h.Nesterov {
					g += h.Momentum * state[0]
				} else {
					g = state[0]
				}
			}
			return p - h.LR*g, state
		})
	}
}

// Adam tests five steps of AdamW and of Adam against torch's rule in float64.
func Adam[T kernel.Float](t *testing.T, step func(h *kernel.Adam, p, g, m, v, top []T)) {
	for _, h := range []kernel.Adam{
		{LR: 1e-2, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1, GradScale: 1},
		{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, GradScale: 0.125, Maximize: true},
		{LR: 1e-2, Beta1: 0, Beta2: 0.99, Eps: 1e-3, WeightDecay: 0.1, GradScale: 1},
		{LR: 1e-2, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1, GradScale: 1, L2: true},
		{WeightDecay: 0.1, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, GradScale: 1},
	} {
		for states := 2; states <= 3; states++ { // without and with AMSGrad
			optimizer(t, fmt.Sprintf("%+v", h), states, func(k int, p, g []T, state [][]T) {
				h := h
				h.Correct1, h.Correct2 = 1-math.Pow(h.Beta1, float64(k+1)), 1-math.Pow(h.Beta2, float64(k+1))
				step(&h, p, g, state[0], state[1], append(state, nil)[2])
			}, func(k int, p, g float64, state []float64) (float64, []float64) { return adam(&h, k, p, g, state) })
		}
	}
}

// adam is one step of one parameter.
func adam(h *kernel.Adam, k int, p, g float64, state []float64) (float64, []float64) {
	if g *= h.GradScale; h.Maximize {
		g = -g
	}
	if h.L2 {
		g += h.WeightDecay * p
	} else {
		p *= 1 - h.LR*h.WeightDecay
	}
	state[0] = h.Beta1*state[0] + (1-h.Beta1)*g
	state[1] = h.Beta2*state[1] + (1-h.Beta2)*g*g
	v := state[1]
	if len(state) > 2 {
		state[2] = max(state[2], v)
		v = state[2]
	}
	c1, c2 := 1-math.Pow(h.Beta1, float64(k+1)), 1-math.Pow(h.Beta2, float64(k+1))
	return p - h.LR*(state[0]/c1)/(math.Sqrt(v/c2)+h.Eps), state
}

// optimizer runs optimSteps steps by chunks and compares the parameters, within 16 Eps, and the state, within 32.
func optimizer[T kernel.Float](
	t *testing.T, name string, states int,
	step func(k int, p, g []T, state [][]T),
	one func(k int, p, g float64, state []float64) (float64, []float64),
) {
	for _, n := range Sizes() {
		p := Rand[T](n, 1)
		grads := make([][]T, optimSteps)
		for k := range grads {
			grads[k] = Rand[T](n, uint64(10+k))
		}
		want := make([]float64, n*(1+states))
		for i, v := range p {
			w, s := float64(v), make([]float64, states)
			for k := range grads {
				w, s = one(k, w, float64(grads[k][i]), s)
			}
			want[i] = w
			for j, v := range s {
				want[(1+j)*n+i] = v
			}
		}
		got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
			all := append(clone(p), make([]T, n*states)...) // parameters, then each state
			return func(c int) {
				lo, hi := kernel.Range(n, c)
				var state [][]T
				for j := range states {
					state = append(state, all[(1+j)*n+lo:(1+j)*n+hi])
				}
				for k, g := range grads {
					step(k, all[lo:hi], g[lo:hi], state)
				}
			}, func() []T { return all }
		})
		Close(t, want[:n], got[:n], 16, 16, name, n, "parameters")
		Close(t, want[n:], got[n:], 32, 16, name, n, "state")
	}
}

// OptimSpecials tests that a NaN gradient makes its parameter NaN, that Inf times a clip coefficient of 0 does, and that
// neighbours stay finite.
func OptimSpecials[T kernel.Float](t *testing.T, step func(scale float64, p, g []T)) {
	p, g := Rand[T](20, 1), Rand[T](20, 2)
	g[3] = T(math.NaN())
	step(1, p, g)
	p2, g2 := Rand[T](20, 1), Rand[T](20, 2)
	g2[3] = T(math.Inf(-1))
	step(0, p2, g2)
	for i := range p {
		for _, v := range []T{p[i], p2[i]} {
			if nan := v != v; nan != (i == 3) || v-v != 0 && i != 3 {
				t.Fatalf("element %d: %v", i, v)
			}
		}
	}
}

// RMSprop tests five steps of every setting against torch's rule in float64.
func RMSprop[T kernel.Float](t *testing.T, step func(h *kernel.RMSprop, p, g, v, avg, buf []T)) {
	for _, h := range []kernel.RMSprop{
		{LR: 1e-2, Alpha: 0.9, Eps: 1e-4, GradScale: 1},
		{LR: 1e-2, Alpha: 0.9, Eps: 1e-4, GradScale: 0.5, WeightDecay: 0.1, Momentum: 0.7, Maximize: true},
	} {
		for _, centered := range []bool{false, true} {
			optimizer(t, fmt.Sprintf("%+v %v", h, centered), 3, func(k int, p, g []T, state [][]T) {
				var avg, buf []T
				if centered {
					avg = state[1]
				}
				if h.Momentum != 0 {
					buf = state[2]
				}
				step(&h, p, g, state[0], avg, buf)
			}, func(k int, p, g float64, state []float64) (float64, []float64) {
				return rmsprop(&h, centered, p, g, state)
			})
		}
	}
}

func rmsprop(h *kernel.RMSprop, centered bool, p, g float64, state []float64) (float64, []float64) {
	if g *= h.GradScale; h.Maximize {
		g = -g
	}
	g += h.WeightDecay * p
	state[0] = h.Alpha*state[0] + (1-h.Alpha)*g*g
	v := state[0]
	if centered {
		state[1] = h.Alpha*state[1] + (1-h.Alpha)*g
		v -= state[1] * state[1]
	}
	g /= math.Sqrt(v) + h.Eps
	if h.Momentum != 0 {
		state[2] = h.Momentum*state[2] + g
		g = state[2]
	}
	return p - h.LR*g, state
}

// Adagrad tests five steps against torch's rule in float64.
func Adagrad[T kernel.Float](t *testing.T, step func(h *kernel.Adagrad, p, g, sum []T)) {
	for _, h := range []kernel.Adagrad{
		{Rate: 0.1, Eps: 1e-6, GradScale: 1},
		{Rate: 0.1, Eps: 1e-6, GradScale: 0.5, WeightDecay: 0.1, Maximize: true},
	} {
		optimizer(t, fmt.Sprintf("%+v", h), 1, func(k int, p, g []T, state [][]T) {
			step(&h, p, g, state[0])
		}, func(k int, p, g float64, state []float64) (float64, []float64) {
			if g *= h.GradScale; h.Maximize {
				g = -g
			}
			g += h.WeightDecay * p
			state[0] += g * g
			return p - h.Rate*g/(math.Sqrt(state[0])+h.Eps), state
		})
	}
}

// Lion tests five steps against the rule in float64. The betas are sums of powers of two, so that no sign hangs on a
// rounding.
func Lion[T kernel.Float](t *testing.T, step func(h *kernel.Lion, p, g, m []T)) {
	for _, h := range []kernel.Lion{
		{LR: 1e-2, Beta1: 0.875, Beta2: 0.96875, GradScale: 1},
		{LR: 1e-2, Beta1: 0.875, Beta2: 0.96875, GradScale: 0.5, WeightDecay: 0.1, Maximize: true},
	} {
		optimizer(t, fmt.Sprintf("%+v", h), 1, func(k int, p, g []T, state [][]T) {
			step(&h, p, g, state[0])
		}, func(k int, p, g float64, state []float64) (float64, []float64) {
			if g *= h.GradScale; h.Maximize {
				g = -g
			}
			u := h.Beta1*state[0] + (1-h.Beta1)*g
			state[0] = h.Beta2*state[0] + (1-h.Beta2)*g
			p *= 1 - h.LR*h.WeightDecay
			switch {
			case u > 0:
				p -= h.LR
			case u < 0:
				p += h.LR
			}
			return p, state
		})
	}
}
