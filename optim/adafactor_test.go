package optim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// naiveAdafactor is the rule for one matrix, or for a vector (rows 0), in float64 with everything spelled out.
type naiveAdafactor struct {
	rows, cols int
	r, c, v    []float64
	t          float64
}

func (n *naiveAdafactor) step(p, g []float64, lr, decay float64) {
	n.t++
	b := math.Pow(n.t, -0.8)
	rms := func(x []float64) float64 {
		s := 0.0
		for _, v := range x {
			s += v * v
		}
		return math.Sqrt(s / float64(len(x)))
	}
	alpha := math.Max(1e-3, rms(p)) * math.Min(lr, 1/math.Sqrt(n.t))
	eps := math.Pow(2, -52)
	u := make([]float64, len(p))
	if n.rows == 0 {
		for i := range p {
			n.v[i] += b * (g[i]*g[i] - n.v[i])
			u[i] = g[i] / math.Sqrt(math.Max(n.v[i], eps*eps))
		}
	} else {
		mean := 0.0
		for i := range n.rows {
			s := 0.0
			for j := range n.cols {
				s += g[i*n.cols+j] * g[i*n.cols+j]
			}
			n.r[i] += b * (s/float64(n.cols) - n.r[i])
			mean += n.r[i] / float64(n.rows)
		}
		for j := range n.cols {
			s := 0.0
			for i := range n.rows {
				s += g[i*n.cols+j] * g[i*n.cols+j]
			}
			n.c[j] += b * (s/float64(n.rows) - n.c[j])
		}
		for i := range p {
			v := n.r[i/n.cols] * n.c[i%n.cols] / math.Max(mean, eps)
			u[i] = g[i] / math.Sqrt(math.Max(v, eps*eps))
		}
	}
	scale := alpha / math.Max(1, rms(u))
	for i := range p {
		p[i] = p[i]*(1-lr*decay) - scale*u[i]
	}
}

func TestAdafactor(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	m := r.param("m", tensor.Float64, wave(12, 1), 3, 4)
	v := r.param("v", tensor.Float64, wave(5, 2), 5)
	live := r.dev.Stats().LiveByKind[memory.OptState]
	opt, err := optim.NewAdafactor([]*autograd.Param{m, v}, optim.AdafactorConfig{LR: 0.05, WeightDecay: 0.1})
	require.NoError(t, err)
	require.EqualValues(t, 8*(3+4+5), r.dev.Stats().LiveByKind[memory.OptState]-live, "rows and columns, not elements")
	wm, wv := wave(12, 1), wave(5, 2)
	nm := &naiveAdafactor{rows: 3, cols: 4, r: make([]float64, 3), c: make([]float64, 4)}
	nv := &naiveAdafactor{v: make([]float64, 5)}
	for k := range 6 {
		gm, gv := wave(12, uint64(10+k)), wave(5, uint64(20+k))
		r.update(opt, gm, gv)
		nm.step(wm, gm, 0.05, 0.1)
		nv.step(wv, gv, 0.05, 0.1)
	}
	near(t, wm, values(m.Tensor()), 1e-12, 1e-14, "matrix")
	near(t, wv, values(v.Tensor()), 1e-12, 1e-14, "vector")
}

// Every optimizer: k steps, its state into a new one, n steps equal k+n steps, to the bit (law N3).
func TestEveryOptimizerResumes(t *testing.T) {
	type both interface {
		optim.Optimizer
		StateDict() (*optim.StateDict, error)
		LoadStateDict(*optim.StateDict) error
	}
	for name, make := range map[string]func([]*autograd.Param) (both, error){
		"sgd": func(p []*autograd.Param) (both, error) {
			return optim.NewSGD(p, optim.SGDConfig{LR: 0.1, Momentum: 0.9})
		},
		"adam": func(p []*autograd.Param) (both, error) {
			return optim.NewAdam(p, optim.AdamConfig{LR: 0.1, WeightDecay: 0.1})
		},
		"adamw": func(p []*autograd.Param) (both, error) {
			return optim.NewAdamW(p, optim.AdamWConfig{LR: 0.1, AMSGrad: true})
		},
		"rmsprop": func(p []*autograd.Param) (both, error) {
			return optim.NewRMSprop(p, optim.RMSpropConfig{LR: 0.1, Centered: true, Momentum: 0.5})
		},
		"adagrad": func(p []*autograd.Param) (both, error) {
			return optim.NewAdagrad(p, optim.AdagradConfig{LR: 0.1, LRDecay: 0.1})
		},
		"lion":      func(p []*autograd.Param) (both, error) { return optim.NewLion(p, optim.LionConfig{LR: 0.1}) },
		"adafactor": func(p []*autograd.Param) (both, error) { return optim.NewAdafactor(p, optim.AdafactorConfig{LR: 0.1}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := plainRig(t)
			defer r.close()
			start := func() ([]*autograd.Param, both) {
				ps := []*autograd.Param{r.param("a", tensor.Float32, wave(6, 3), 2, 3), r.param("b", tensor.Float32, wave(4, 4), 4)}
				opt, err := make(ps)
				require.NoError(t, err)
				return ps, opt
			}
			ps, opt := start()
			qs, other := start()
			for k := range 8 {
				if k == 3 {
					d, err := opt.StateDict()
					require.NoError(t, err)
					require.NoError(t, other.LoadStateDict(d))
					for i := range ps {
						require.NoError(t, tensor.Copy(qs[i].Tensor(), ps[i].Tensor()))
					}
				}
				r.update(opt, wave(6, uint64(10+k)), wave(4, uint64(30+k)))
				if k >= 3 {
					r.update(other, wave(6, uint64(10+k)), wave(4, uint64(30+k)))
				}
			}
			for i := range ps {
				require.True(t, tensor.Equal(ps[i].Tensor(), qs[i].Tensor()))
			}
		})
	}
}
