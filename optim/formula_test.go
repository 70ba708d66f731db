package optim_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// naive applies the formulas of the types' comments in float64, step by step.
type naive struct {
	p, a, b []float64 // parameter, state
	t       float64
}

func (n *naive) sgd(g []float64, c optim.SGDConfig) {
	n.t++
	for i, d := range g {
		if c.Maximize {
			d = -d
		}
		d += c.WeightDecay * n.p[i]
		if c.Momentum != 0 {
			n.a[i] = c.Momentum*n.a[i] + (1-c.Dampening)*d
			if n.t == 1 {
				n.a[i] = d
			}
			if c.Nesterov {
				d += c.Momentum * n.a[i]
			} else {
				d = n.a[i]
			}
		}
		n.p[i] -= c.LR * d
	}
}

func (n *naive) adamw(g []float64, c optim.AdamWConfig, b1, b2, eps float64) {
	n.t++
	for i, d := range g {
		if c.Maximize {
			d = -d
		}
		n.p[i] *= 1 - c.LR*c.WeightDecay
		n.a[i] = b1*n.a[i] + (1-b1)*d
		n.b[i] = b2*n.b[i] + (1-b2)*d*d
		m, v := n.a[i]/(1-math.Pow(b1, n.t)), n.b[i]/(1-math.Pow(b2, n.t))
		n.p[i] -= c.LR * m / (math.Sqrt(v) + eps)
	}
}

// sizes of the parameters of the tests below: a scalar, none, odd ones, two chunks.
var shapes = [][]int{{}, {0}, {7}, {3, 5}, {3, 5471}}

func TestFormulas(t *testing.T) {
	sgds := []optim.SGDConfig{
		{LR: 0.1},
		{LR: 0.1, WeightDecay: 0.3, Maximize: true},
		{LR: 0.1, Momentum: 0.9, Dampening: 0.5, WeightDecay: 0.1},
		{LR: 0.1, Momentum: 0.9, Nesterov: true, Maximize: true},
	}
	adams := []optim.AdamWConfig{
		{LR: 0.1},
		{LR: 0.1, WeightDecay: 0.3, Maximize: true, Eps: 1e-3},
		{LR: 0.1, Betas: optim.Betas(0, 0)},
		{LR: 0.1, Betas: optim.Betas(0, 0.99)},
	}
	betas := [][3]float64{{0.9, 0.999, 1e-8}, {0.9, 0.999, 1e-3}, {0, 0, 1e-8}, {0, 0.99, 1e-8}}
	for dt, tol := range map[tensor.DType]float64{tensor.Float32: 2e-5, tensor.Float64: 1e-12} {
		for k, cfg := range sgds {
			t.Run(fmt.Sprintf("sgd %d %v", k, dt), func(t *testing.T) {
				formula(t, dt, tol, func(ps []*autograd.Param) (optim.Optimizer, error) { return optim.NewSGD(ps, cfg) },
					func(n *naive, g []float64) { n.sgd(g, cfg) })
			})
		}
		for k, cfg := range adams {
			t.Run(fmt.Sprintf("adamw %d %v", k, dt), func(t *testing.T) {
				formula(t, dt, tol, func(ps []*autograd.Param) (optim.Optimizer, error) { return optim.NewAdamW(ps, cfg) },
					func(n *naive, g []float64) { n.adamw(g, cfg, betas[k][0], betas[k][1], betas[k][2]) })
			})
		}
	}
}

// formula compares an optimizer of all shapes with a naive one over four steps, of which each parameter misses one.
func formula(t *testing.T, dt tensor.DType, tol float64, build func([]*autograd.Param) (optim.Optimizer, error), want func(*naive, []float64)) {
	r := newRig(t, 3, memory.Config{})
	defer r.close()
	var ps []*autograd.Param
	var ns []*naive
	for i, shape := range shapes {
		n := tensor.Of(dt, shape...).Elems()
		ps = append(ps, r.param(fmt.Sprint("p", i), dt, wave(n, uint64(i)), shape...))
		ns = append(ns, &naive{p: val(ps[i]), a: make([]float64, n), b: make([]float64, n)})
	}
	opt, err := build(ps)
	require.NoError(t, err)
	for k := range 4 {
		grads := make([][]float64, len(ps))
		for i, n := range ns {
			if i%4 == k {
				continue
			}
			grads[i] = append([]float64{}, wave(len(n.p), uint64(100*k+i+7))...)
			if dt == tensor.Float32 {
				for j, v := range grads[i] {
					grads[i][j] = float64(float32(v))
				}
			}
			want(n, grads[i])
		}
		r.update(opt, grads...)
		for i, p := range ps {
			near(t, ns[i].p, val(p), tol, tol, fmt.Sprintf("step %d of %s", k, p.Name()))
		}
	}
}
