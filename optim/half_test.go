package optim_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

var halfUpdates = map[string]optim.HalfUpdate{
	"nearest": optim.RoundNearest, "stochastic": optim.RoundStochastic, "kahan": optim.RoundKahan, "master": optim.MasterWeights,
}

// halfRules make each optimizer over one parameter.
var halfRules = map[string]func(p *autograd.Param, u optim.HalfUpdate) (stepper, error){
	"sgd": func(p *autograd.Param, u optim.HalfUpdate) (stepper, error) {
		return optim.NewSGD([]*autograd.Param{p}, optim.SGDConfig{LR: 0.01, Momentum: 0.9, WeightDecay: 0.1, Half: u})
	},
	"adamw": func(p *autograd.Param, u optim.HalfUpdate) (stepper, error) {
		return optim.NewAdamW([]*autograd.Param{p}, optim.AdamWConfig{LR: 0.01, WeightDecay: 0.1, AMSGrad: true, Half: u})
	},
	"adam": func(p *autograd.Param, u optim.HalfUpdate) (stepper, error) {
		return optim.NewAdam([]*autograd.Param{p}, optim.AdamConfig{LR: 0.01, WeightDecay: 0.1, Half: u})
	},
	"lion": func(p *autograd.Param, u optim.HalfUpdate) (stepper, error) {
		return optim.NewLion([]*autograd.Param{p}, optim.LionConfig{LR: 0.01, Half: u})
	},
	"rmsprop": func(p *autograd.Param, u optim.HalfUpdate) (stepper, error) {
		return optim.NewRMSprop([]*autograd.Param{p}, optim.RMSpropConfig{LR: 0.01, Momentum: 0.5, Centered: true, Half: u})
	},
	"adagrad": func(p *autograd.Param, u optim.HalfUpdate) (stepper, error) {
		return optim.NewAdagrad([]*autograd.Param{p}, optim.AdagradConfig{LR: 0.05, Half: u})
	},
	"adafactor": func(p *autograd.Param, u optim.HalfUpdate) (stepper, error) {
		return optim.NewAdafactor([]*autograd.Param{p}, optim.AdafactorConfig{LR: 0.05, Half: u})
	},
}

type stepper interface {
	optim.Optimizer
	StepScaled(*autograd.Scope, float64) error
	StateDict() (*optim.StateDict, error)
	LoadStateDict(*optim.StateDict) error
}

// give puts a gradient of p there, as a backward pass that is not under test would.
func (r *rig) give(s *autograd.Scope, p *autograd.Param, g []float64) {
	t, err := tensor.New(r.dev, memory.Temporary, site, p.Spec())
	if err != nil {
		panic(&autograd.Error{Op: "give", Err: err})
	}
	defer t.Release()
	if !s.Dry() {
		put(t, g)
	}
	autograd.Apply(s, passOp{}, p.Value()).Backward(s, autograd.WithGrad(t))
}

// passOp hands its gradient on.
type passOp struct{}

var passRule = &autograd.Rule{Name: "testpass", Pass: []bool{true}}

func (passOp) Rule() *autograd.Rule { return passRule }
func (passOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Like(in[0])
	return nil
}
func (passOp) Forward(*autograd.Fwd)  {}
func (passOp) Backward(*autograd.Bwd) {}

func (r *rig) halfStep(o stepper, g []float64, factor float64) {
	r.t.Helper()
	r.ok(func(s *autograd.Scope) {
		r.give(s, o.Params()[0], g)
		require.NoError(r.t, o.StepScaled(s, factor))
		o.ZeroGrad(s)
	})
}

// rounded is what a half type makes of v.
func rounded(dt tensor.DType, v []float64) []float64 {
	w := make([]float64, len(v))
	for i, x := range v {
		if dt == tensor.Float16 {
			w[i] = float64(float16.Fromfloat32(float32(x)).Float32())
		} else {
			w[i] = float64(tensor.ToBF16(float32(x)).Float32())
		}
	}
	return w
}

// A weight of 1 that is to fall by a thousandth a step: BFloat16 has nothing between 1 and 1 - 2^-8, so rounded to nearest
// it never moves. The other ways arrive.
func TestSmallUpdatesOfAHalf(t *testing.T) {
	const n = 256
	ones := make([]float64, n)
	for i := range ones {
		ones[i] = 1
	}
	for name, u := range halfUpdates {
		r := plainRig(t)
		p := r.param("w", tensor.BFloat16, ones, n)
		o, err := optim.NewSGD([]*autograd.Param{p}, optim.SGDConfig{LR: 1e-3, Half: u})
		require.NoError(t, err)
		for range 500 {
			r.halfStep(o, ones, 1)
		}
		var mean float64
		for _, v := range val(p) {
			mean += v / n
		}
		want, within := 0.5, 0.004
		switch u {
		case optim.RoundNearest:
			want, within = 1, 0
		case optim.RoundStochastic:
			within = 0.01
		}
		require.InDelta(t, want, mean, within, name)
		r.close()
	}
}

// Each rule on halves is the rule in float32 on the same numbers, rounded: a few steps stay within some spacings.
func TestRulesOnHalves(t *testing.T) {
	const rows, cols = 40, 70
	for rule, make := range halfRules {
		for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
			eps := map[tensor.DType]float64{tensor.BFloat16: 0x1p-8, tensor.Float16: 0x1p-11}[dt]
			for name, u := range halfUpdates {
				r := plainRig(t)
				p := r.param("w", dt, wave(rows*cols, 1), rows, cols)
				q := r.param("w32", tensor.Float32, val(p), rows, cols)
				o, err := make(p, u)
				require.NoError(t, err)
				ref, err := make(q, u)
				require.NoError(t, err)
				for i := range 4 {
					g := wave(rows*cols, uint64(10+i))
					r.halfStep(o, g, 0.5)
					r.ok(func(s *autograd.Scope) { // the same gradients, as the half holds them
						r.give(s, q, rounded(dt, g))
						require.NoError(t, ref.StepScaled(s, 0.5))
						ref.ZeroGrad(s)
					})
				}
				what := fmt.Sprintf("%s %s %s", rule, dt, name)
				var far int // a sign, or a rounded second moment near 0, may turn an update of Lion or Adagrad
				want, got := val(q), val(p)
				for i := range want {
					if math.Abs(want[i]-got[i]) > 8*eps*math.Max(1, math.Abs(want[i])) {
						far++
					}
				}
				require.LessOrEqual(t, far, rows*cols/20, what)
				r.close()
			}
		}
	}
}

// Bytes a parameter under AdamW, by kind, in a dry run and in the run (with autocast weights are float32: 4 + 4 + 8).
func TestBytesOfHalfUpdates(t *testing.T) {
	const n = 1 << 12
	for _, c := range []struct {
		dt                 tensor.DType
		u                  optim.HalfUpdate
		value, grad, state int64
	}{
		{tensor.Float32, optim.RoundNearest, 4, 4, 8},
		{tensor.BFloat16, optim.RoundNearest, 2, 2, 4},
		{tensor.BFloat16, optim.RoundStochastic, 2, 2, 4},
		{tensor.Float16, optim.RoundStochastic, 2, 2, 4},
		{tensor.BFloat16, optim.RoundKahan, 2, 2, 6},
		{tensor.BFloat16, optim.MasterWeights, 2, 2, 12},
	} {
		r := plainRig(t)
		p := r.param("w", c.dt, wave(n, 1), n)
		o, err := optim.NewAdamW([]*autograd.Param{p}, optim.AdamWConfig{LR: 1, Half: c.u})
		require.NoError(t, err)
		want := map[memory.Kind]int64{memory.Param: c.value * n, memory.Grad: c.grad * n, memory.OptState: c.state * n}
		check := func(live func(k memory.Kind) int64) {
			for k, bytes := range want {
				require.Equal(t, bytes, live(k), "%s of %s, %s", k, c.dt, c.u)
			}
		}
		step := func(s *autograd.Scope) error {
			r.give(s, p, wave(n, 2))
			check(func(k memory.Kind) int64 { return r.dev.Stats().LiveByKind[k] })
			defer o.ZeroGrad(s)
			return o.Step(s)
		}
		plan, err := r.sess.Plan(step, autograd.PlanConfig{Steps: 1})
		require.NoError(t, err)
		check(func(k memory.Kind) int64 { return plan.Steps[0].ByKind[k] })
		require.NoError(t, r.step(step))
		r.close()
	}
}

// A weight that was written from outside is what training goes on from, master or not.
func TestMasterFollowsTheWeight(t *testing.T) {
	for name, u := range halfUpdates {
		r := plainRig(t)
		p := r.param("w", tensor.BFloat16, []float64{1, 1}, 2)
		o, err := optim.NewSGD([]*autograd.Param{p}, optim.SGDConfig{LR: 1, Half: u})
		require.NoError(t, err)
		r.halfStep(o, []float64{0.25, 0.25}, 1)
		require.Equal(t, []float64{0.75, 0.75}, val(p), name)
		require.NoError(t, tensor.Fill(p.Tensor(), 4))
		r.halfStep(o, []float64{0.25, 0.5}, 1)
		require.Equal(t, []float64{3.75, 3.5}, val(p), name)
		r.close()
	}
}

// A second moment in BFloat16 falls by a thousandth a step: rounded to nearest it stays, at random it follows.
func TestMomentsOfHalvesFall(t *testing.T) {
	const n, steps = 512, 1000
	for name, u := range halfUpdates {
		r := plainRig(t)
		p := r.param("w", tensor.BFloat16, make([]float64, n), n)
		o, err := optim.NewAdamW([]*autograd.Param{p}, optim.AdamWConfig{LR: 1e-3, Half: u})
		require.NoError(t, err)
		second := func() (mean float64) {
			d, err := o.StateDict()
			require.NoError(t, err)
			for _, v := range values(d.Params[0].Tensors["exp_avg_sq"]) {
				mean += v / n
			}
			return mean
		}
		r.halfStep(o, slices.Repeat([]float64{1}, n), 1)
		first := second()
		for range steps {
			r.halfStep(o, make([]float64, n), 1)
		}
		want := math.Pow(0.999, steps)
		if u == optim.RoundNearest {
			want = 1
		}
		require.InEpsilon(t, want, second()/first, 0.03, name)
		r.close()
	}
}

// StepScaled multiplies gradients inside the update and leaves them alone.
func TestStepScaled(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a, b := r.vec("a", 1, 2), r.vec("b", 1, 2)
	cfg := optim.AdamWConfig{LR: 0.1, WeightDecay: 0.1}
	scaled, plain := mustAdamW(t, cfg, a), mustAdamW(t, cfg, b)
	r.ok(func(s *autograd.Scope) {
		r.push(s, a, 3, -4)
		require.NoError(t, scaled.StepScaled(s, 0.25))
		require.Equal(t, []float64{3, -4}, values(a.Grad()))
		for _, bad := range []float64{nan, inf} {
			require.ErrorContains(t, scaled.StepScaled(s, bad), "optim: AdamW.StepScaled: the factor is "+fmt.Sprint(bad))
		}
		scaled.ZeroGrad(s)
	})
	r.update(plain, []float64{0.75, -1})
	require.Equal(t, val(b), val(a))
	r.update(scaled, []float64{0.5, 1})
	r.update(plain, []float64{0.5, 1})
	require.Equal(t, val(b), val(a), "the factor is for one call")
}

// Adafactor on halves widens blocks, not parameters.
func TestAdafactorWidensBlocks(t *testing.T) {
	const rows, cols = 3000, 100
	r := plainRig(t)
	defer r.close()
	p := r.param("w", tensor.BFloat16, wave(rows*cols, 1), rows, cols)
	o, err := optim.NewAdafactor([]*autograd.Param{p}, optim.AdafactorConfig{LR: 0.1, Half: optim.RoundStochastic})
	require.NoError(t, err)
	r.ok(func(s *autograd.Scope) {
		r.give(s, p, wave(rows*cols, 2))
		live := r.dev.Stats().Live
		r.dev.ResetPeak()
		require.NoError(t, o.Step(s))
		require.LessOrEqual(t, r.dev.Stats().Peak, live+int64(r.sess.Lanes()*(8*cols+8*2048)))
		o.ZeroGrad(s)
	})
}

// Dry run = real run, values do not depend on workers, and a state that was saved and loaded goes on to the same bits, the
// random ones included.
func TestHalfUpdatesResume(t *testing.T) {
	const n = 20_000 // more than a chunk
	for rule, make := range halfRules {
		for name, u := range halfUpdates {
			var ends [3][]float64
			for run := range ends {
				r := newRig(t, 1+run, memory.Config{})
				p := r.param("w", tensor.BFloat16, wave(n, 1), n)
				o, err := make(p, u)
				require.NoError(t, err)
				if run == 0 {
					plantest.Compare(t, r.sess, func(s *autograd.Scope) error {
						r.give(s, p, wave(n, 2))
						defer o.ZeroGrad(s)
						return o.Step(s)
					})
					r.close()
					continue
				}
				r.halfStep(o, wave(n, 3), 1)
				if run == 2 {
					d, err := o.StateDict()
					require.NoError(t, err)
					saved, err := d.Clone()
					require.NoError(t, err)
					o, err = make(p, u)
					require.NoError(t, err)
					require.NoError(t, o.LoadStateDict(saved))
					saved.Release()
				}
				r.halfStep(o, wave(n, 4), 1)
				ends[run] = val(p)
				r.close()
			}
			require.Equal(t, ends[1], ends[2], "%s %s", rule, name)
		}
	}
}
