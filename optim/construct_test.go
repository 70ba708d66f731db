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

func TestWhatConstructorsRefuse(t *testing.T) {
	r, other := plainRig(t), plainRig(t)
	defer r.close()
	defer other.close()
	a, b := r.vec("a", 1), r.vec("b", 2)
	frozen := r.vec("ice", 3)
	frozen.SetFrozen(true)
	gone := r.vec("gone", 4)
	gone.Release()
	foreign := other.vec("foreign", 5)
	live := r.dev.Stats().Live

	type params = []*autograd.Param
	nan, inf := math.NaN(), math.Inf(1)
	sgd := func(ps params, c optim.SGDConfig) func() error {
		return func() error { _, err := optim.NewSGD(ps, c); return err }
	}
	adam := func(ps params, c optim.AdamWConfig) func() error {
		return func() error { _, err := optim.NewAdamW(ps, c); return err }
	}
	groups := func(gs ...optim.AdamWGroup) func() error {
		return func() error { _, err := optim.NewAdamWGroups(gs...); return err }
	}
	ok := optim.AdamWConfig{LR: 1}
	for _, c := range []struct {
		name  string
		build func() error
		texts []string
	}{
		{"no parameters", sgd(nil, optim.SGDConfig{LR: 1}), []string{"optim: NewSGD: no parameters"}},
		{"no groups", groups(), []string{"optim: NewAdamWGroups: no groups"}},
		{"an empty group", groups(optim.AdamWGroup{Params: params{a}, Config: ok}, optim.AdamWGroup{Config: ok}), []string{"group 1: no parameters"}},
		{"nil", adam(params{a, nil}, ok), []string{"optim: NewAdamW: parameter 1 is nil"}},
		{"twice", adam(params{a, b, a}, ok), []string{"parameter 2, a, is given twice"}},
		{"twice across groups", groups(optim.AdamWGroup{Params: params{a, b}, Config: ok}, optim.AdamWGroup{Params: params{b}, Config: ok}),
			[]string{"group 1: parameter 0, b, is given twice, first in group 0"}},
		{"frozen", adam(params{a, frozen}, ok), []string{"parameter 1, ice: it is frozen", "leave it out, or freeze it after"}},
		{"released", adam(params{gone}, ok), []string{"gone: it was released"}},
		{"sessions", adam(params{a, foreign}, ok), []string{"foreign: it belongs to another session"}},

		{"sgd lr 0", sgd(params{a}, optim.SGDConfig{}), []string{"optim: NewSGD: LR is 0: a learning rate has no default"}},
		{"sgd lr", sgd(params{a}, optim.SGDConfig{LR: -1}), []string{"LR is -1"}},
		{"sgd lr nan", sgd(params{a}, optim.SGDConfig{LR: nan}), []string{"LR is NaN"}},
		{"sgd lr inf", sgd(params{a}, optim.SGDConfig{LR: inf}), []string{"LR is +Inf"}},
		{"sgd momentum", sgd(params{a}, optim.SGDConfig{LR: 1, Momentum: -0.5}), []string{"Momentum is -0.5"}},
		{"sgd dampening", sgd(params{a}, optim.SGDConfig{LR: 1, Dampening: nan}), []string{"Dampening is NaN"}},
		{"sgd decay", sgd(params{a}, optim.SGDConfig{LR: 1, WeightDecay: inf}), []string{"WeightDecay is +Inf"}},
		{"nesterov alone", sgd(params{a}, optim.SGDConfig{LR: 1, Nesterov: true}), []string{"Nesterov is set and Momentum is 0"}},
		{"nesterov dampened", sgd(params{a}, optim.SGDConfig{LR: 1, Nesterov: true, Momentum: 0.9, Dampening: 0.1}),
			[]string{"Nesterov is set and Dampening is not 0"}},

		{"adamw lr 0", adam(params{a}, optim.AdamWConfig{}), []string{"optim: NewAdamW: LR is 0"}},
		{"adamw lr", adam(params{a}, optim.AdamWConfig{LR: nan}), []string{"LR is NaN"}},
		{"adamw eps", adam(params{a}, optim.AdamWConfig{LR: 1, Eps: -1e-8}), []string{"Eps is -1e-08"}},
		{"adamw eps nan", adam(params{a}, optim.AdamWConfig{LR: 1, Eps: nan}), []string{"Eps is NaN"}},
		{"adamw decay", adam(params{a}, optim.AdamWConfig{LR: 1, WeightDecay: -2}), []string{"WeightDecay is -2"}},
		{"beta1", adam(params{a}, optim.AdamWConfig{LR: 1, Betas: optim.Betas(1, 0.9)}), []string{"beta1 is 1:", "less than 1"}},
		{"beta2", adam(params{a}, optim.AdamWConfig{LR: 1, Betas: optim.Betas(0.9, -0.1)}), []string{"beta2 is -0.1"}},
		{"beta nan", adam(params{a}, optim.AdamWConfig{LR: 1, Betas: optim.Betas(nan, 0.9)}), []string{"beta1 is NaN"}},
		{"half", adam(params{a}, optim.AdamWConfig{LR: 1, Half: 9}), []string{"unknown way HalfUpdate(9) in Half: want RoundNearest, RoundStochastic"}},
		{"which group", groups(optim.AdamWGroup{Params: params{a}, Config: ok}, optim.AdamWGroup{Params: params{b}}),
			[]string{"optim: NewAdamWGroups: group 1: LR is 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.build()
			require.Error(t, err)
			for _, text := range c.texts {
				require.ErrorContains(t, err, text)
			}
			require.Equal(t, live, r.dev.Stats().Live)
		})
	}
}

func TestAnOptimizerIsNotMadeInADryRun(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a := r.vec("a", 1)
	keep := mustAdamW(t, optim.AdamWConfig{LR: 1}, a)
	_, err := r.sess.Plan(func(*autograd.Scope) error {
		_, err := optim.NewAdamW([]*autograd.Param{a}, optim.AdamWConfig{LR: 1})
		require.ErrorContains(t, err, "make it before Plan")
		require.ErrorContains(t, keep.Close(), "optim: AdamW.Close: within a dry run")
		return nil
	}, autograd.PlanConfig{})
	require.NoError(t, err)
}

func TestStateIsMadeWithTheOptimizer(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a := r.param("net/a", tensor.Float32, make([]float64, 100), 100)
	b := r.vec("net/b", 1, 2, 3)
	var events []memory.Event
	r.dev.SetTrace(func(e memory.Event) { events = append(events, e) })
	opt := mustAdamW(t, optim.AdamWConfig{LR: 1}, a, b)
	r.dev.SetTrace(nil)
	require.EqualValues(t, 2*(400+24), r.dev.Stats().LiveByKind[memory.OptState])
	require.Equal(t, memory.Site{Op: "adamw", Scope: "net/a"}, events[0].Site)
	require.Equal(t, []*autograd.Param{a, b}, opt.Params())
	require.NoError(t, opt.Close())
	require.NoError(t, opt.Close())
	require.Zero(t, r.dev.Stats().LiveByKind[memory.OptState])
	r.ok(func(s *autograd.Scope) {
		require.ErrorContains(t, opt.Step(s), "optim: AdamW.Step: the optimizer is closed")
	})

	_, err := optim.NewSGD([]*autograd.Param{a, b}, optim.SGDConfig{LR: 1})
	require.NoError(t, err)
	require.Zero(t, r.dev.Stats().LiveByKind[memory.OptState], "no momentum, no state")
	_, err = optim.NewSGDGroups(
		optim.SGDGroup{Params: []*autograd.Param{a}, Config: optim.SGDConfig{LR: 1}},
		optim.SGDGroup{Params: []*autograd.Param{b}, Config: optim.SGDConfig{LR: 1, Momentum: 0.9}},
	)
	require.NoError(t, err)
	require.EqualValues(t, 24, r.dev.Stats().LiveByKind[memory.OptState])
}

func TestConstructorsAllocateAllOrNothing(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	ps := []*autograd.Param{r.vec("a", 1), r.vec("b", 2), r.vec("c", 3)}
	live := r.dev.Stats().Live
	for n := int64(1); n <= 6; n++ {
		r.dev.FailAt(n)
		_, err := optim.NewAdamW(ps, optim.AdamWConfig{LR: 1})
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
		require.ErrorContains(t, err, "optim: NewAdamW: exp_avg")
		require.ErrorContains(t, err, "of parameter "+ps[(n-1)/2].Name())
		require.Equal(t, live, r.dev.Stats().Live)
	}
	r.dev.FailAt(0)
	mustAdamW(t, optim.AdamWConfig{LR: 1}, ps...)
}

func mustAdamW(t *testing.T, cfg optim.AdamWConfig, ps ...*autograd.Param) *optim.AdamW {
	t.Helper()
	o, err := optim.NewAdamW(ps, cfg)
	require.NoError(t, err)
	return o
}

func mustSGD(t *testing.T, cfg optim.SGDConfig, ps ...*autograd.Param) *optim.SGD {
	t.Helper()
	o, err := optim.NewSGD(ps, cfg)
	require.NoError(t, err)
	return o
}
