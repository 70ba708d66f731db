package golden

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// optimCase is a case of optim.json: parameters, a fixed list of gradients, the parameters after each step.
type optimCase struct {
	Name    string
	Options struct {
		LR, Momentum, Dampening, Eps float64
		WeightDecay                  float64 `json:"weight_decay"`
		LRDecay                      float64 `json:"lr_decay"`
		Nesterov, Maximize           bool
		AMSGrad, Centered            bool
		Betas                        *[2]float64
	}
	Params       []array
	Grads, After [][]array
}

// optimizer makes what the first word of the case's name says.
func (c *optimCase) optimizer(ps []*autograd.Param) (optim.Optimizer, error) {
	o := c.Options
	adam := optim.AdamWConfig{LR: o.LR, Eps: o.Eps, WeightDecay: o.WeightDecay, Maximize: o.Maximize, AMSGrad: o.AMSGrad}
	if o.Betas != nil {
		adam.Betas = optim.Betas(o.Betas[0], o.Betas[1])
	}
	switch kind, _, _ := strings.Cut(c.Name, " "); kind {
	case "sgd":
		return optim.NewSGD(ps, optim.SGDConfig{LR: o.LR, Momentum: o.Momentum, Dampening: o.Dampening,
			WeightDecay: o.WeightDecay, Nesterov: o.Nesterov, Maximize: o.Maximize})
	case "adam":
		return optim.NewAdam(ps, optim.AdamConfig(adam))
	case "rmsprop":
		return optim.NewRMSprop(ps, optim.RMSpropConfig{LR: o.LR, Momentum: o.Momentum, Centered: o.Centered})
	case "adagrad":
		return optim.NewAdagrad(ps, optim.AdagradConfig{LR: o.LR, LRDecay: o.LRDecay})
	case "adamw":
		if adam.WeightDecay == 0 { // torch's default, which is not ours
			adam.WeightDecay = 0.01
		}
		return optim.NewAdamW(ps, adam)
	default:
		return nil, fmt.Errorf("no optimizer for %q", kind)
	}
}

func TestOptimizers(t *testing.T) {
	var file struct{ Cases []optimCase }
	load(t, "optim.json", &file)
	require.NotEmpty(t, file.Cases)
	for i := range file.Cases {
		c := &file.Cases[i]
		t.Run(c.Name, func(t *testing.T) { checkOptimizer(t, c) })
	}
}

func checkOptimizer(t *testing.T, c *optimCase) {
	b := newBench(t)
	defer b.close()
	var ps []*autograd.Param
	for i := range c.Params {
		a := &c.Params[i]
		p, err := b.sess.NewParam(fmt.Sprint("p", i), tensor.Of(tensor.Float32, a.Shape...), nil)
		require.NoError(t, err)
		x := b.tensor(a)
		require.NoError(t, tensor.Copy(p.Tensor(), x))
		x.Release()
		ps = append(ps, p)
	}
	opt, err := c.optimizer(ps)
	require.NoError(t, err)
	for k := range c.Grads {
		require.NoError(t, b.sess.Step(context.Background(), func(s *autograd.Scope) error {
			for i, p := range ps {
				g := b.tensor(&c.Grads[k][i])
				s.OnClose(g.Release)
				ops.MulScalar(s, p.Value(), 1).Backward(s, autograd.WithGrad(g))
			}
			defer opt.ZeroGrad(s)
			return opt.Step(s)
		}))
		for i, p := range ps {
			requireNear(t, c.After[k][i].floats(), b.read(p.Tensor()), 1e-5, 1e-6, fmt.Sprintf("step %d of p%d", k, i))
		}
	}
}

// scheduleCase is a case of schedule.json: the rate before the first step and after each.
type scheduleCase struct {
	Name    string
	BaseLR  float64 `json:"base_lr"`
	Options struct {
		TMax        int     `json:"T_max"`
		EtaMin      float64 `json:"eta_min"`
		T0          int     `json:"T_0"`
		TMult       int     `json:"T_mult"`
		Warmup      int
		StartFactor float64 `json:"start_factor"`
		StepSize    int     `json:"step_size"`
		Gamma       float64
	}
	LRs []float64
}

// schedule makes what the case's options ask for.
func (c *scheduleCase) schedule(opt optim.Scheduled) (optim.Schedule, error) {
	o := c.Options
	switch {
	case o.T0 > 0:
		return optim.NewWarmRestarts(opt, optim.WarmRestartsConfig{T0: o.T0, TMult: o.TMult, EtaMin: o.EtaMin})
	case o.StepSize > 0:
		return optim.NewStepDecay(opt, optim.StepDecayConfig{Size: o.StepSize, Gamma: o.Gamma})
	case o.Gamma > 0:
		return optim.NewExponential(opt, o.Gamma)
	}
	cosine, err := optim.NewCosineAnnealing(opt, optim.CosineConfig{TMax: o.TMax, EtaMin: o.EtaMin})
	if o.Warmup == 0 || err != nil {
		return cosine, err
	}
	return optim.NewWarmup(opt, optim.WarmupConfig{Steps: o.Warmup, StartFactor: o.StartFactor}, cosine)
}

func TestSchedules(t *testing.T) {
	var file struct{ Cases []scheduleCase }
	load(t, "schedule.json", &file)
	require.NotEmpty(t, file.Cases)
	for i := range file.Cases {
		c := &file.Cases[i]
		t.Run(c.Name, func(t *testing.T) {
			b := newBench(t)
			defer b.close()
			p, err := b.sess.NewParam("p", tensor.Of(tensor.Float32, 1), nil)
			require.NoError(t, err)
			opt, err := optim.NewSGD([]*autograd.Param{p}, optim.SGDConfig{LR: c.BaseLR})
			require.NoError(t, err)
			sched, err := c.schedule(opt)
			require.NoError(t, err)
			for k, want := range c.LRs {
				if k > 0 {
					require.NoError(t, sched.Step())
				}
				requireNear(t, []float64{want}, sched.LR(), 1e-12, 1e-16, fmt.Sprintf("after %d steps", k))
			}
		})
	}
}
