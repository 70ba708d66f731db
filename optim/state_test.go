package optim_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

func TestResumeIsBitwise(t *testing.T) {
	for _, k := range []int{0, 1, 3} {
		r := plainRig(t)
		whole := newTraining(t, r)
		for range k {
			r.ok(func(s *autograd.Scope) { require.NoError(t, whole.step(s)) })
		}
		d, err := whole.opt.StateDict()
		require.NoError(t, err)
		saved, err := d.Clone()
		require.NoError(t, err)
		var params []*tensor.Tensor
		for _, p := range whole.opt.Params() {
			c, err := p.Tensor().Contiguous(memory.Other, site)
			require.NoError(t, err)
			params = append(params, c)
		}
		sched := whole.sched.State()
		for range 4 {
			r.ok(func(s *autograd.Scope) { require.NoError(t, whole.step(s)) })
		}

		r2 := newRig(t, 1, memory.Config{})
		resumed := newTraining(t, r2)
		for i, p := range resumed.opt.Params() {
			require.NoError(t, tensor.Copy(p.Tensor(), params[i]))
		}
		require.NoError(t, resumed.opt.SetLR(0, 77), "what the file says wins")
		require.NoError(t, resumed.opt.LoadStateDict(saved))
		require.NoError(t, resumed.sched.Load(sched))
		resumed.k = k
		for range 4 {
			r2.ok(func(s *autograd.Scope) { require.NoError(t, resumed.step(s)) })
		}
		require.Equal(t, whole.look(t), resumed.look(t), "after %d steps", k)
		saved.Release()
		for _, p := range params {
			p.Release()
		}
		r.close()
		r2.close()
	}
}

func TestMomentumResumes(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	cfg := optim.SGDConfig{LR: 0.1, Momentum: 0.9, Dampening: 0.5}
	a, never := r.vec("a", 1), r.vec("never", 1)
	b, b2 := r.vec("a", 1), r.vec("never", 1)
	one, two := mustSGD(t, cfg, a, never), mustSGD(t, cfg, b, b2)
	r.update(one, []float64{3}, nil)
	d, err := one.StateDict()
	require.NoError(t, err)
	require.NoError(t, two.LoadStateDict(d))
	require.NoError(t, tensor.Copy(b.Tensor(), a.Tensor()))
	for _, o := range []*optim.SGD{one, two} {
		r.update(o, []float64{-1}, []float64{2})
	}
	require.Equal(t, val(a), val(b))
	require.Equal(t, val(never), val(b2), "its first step, undampened")
	require.Equal(t, []int64{2, 1}, steps(t, two))
}

func TestStateDictHoldsWhatTorchsDoes(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a, b := r.vec("net/a", 1, 2), r.vec("net/b", 3)
	opt, err := optim.NewSGDGroups(
		optim.SGDGroup{Params: []*autograd.Param{a}, Config: optim.SGDConfig{LR: 0.5, Momentum: 0.25, Nesterov: true}},
		optim.SGDGroup{Params: []*autograd.Param{b}, Config: optim.SGDConfig{LR: 1, WeightDecay: 2, Maximize: true}},
	)
	require.NoError(t, err)
	r.update(opt, []float64{4, 8}, nil)
	live := r.dev.Stats().Live
	d, err := opt.StateDict()
	require.NoError(t, err)
	require.Equal(t, live, r.dev.Stats().Live, "it takes no memory")
	require.Equal(t, "SGD", d.Optimizer)
	require.Equal(t, []optim.GroupState{
		{Size: 1, Hyper: map[string]float64{"lr": 0.5, "momentum": 0.25, "dampening": 0, "weight_decay": 0, "nesterov": 1, "maximize": 0}},
		{Size: 1, Hyper: map[string]float64{"lr": 1, "momentum": 0, "dampening": 0, "weight_decay": 2, "nesterov": 0, "maximize": 1}},
	}, d.Groups)
	require.Equal(t, "net/a", d.Params[0].Name)
	require.EqualValues(t, 1, d.Params[0].Step)
	require.Equal(t, []float64{4, 8}, values(d.Params[0].Tensors["momentum_buffer"]))
	require.Empty(t, d.Params[1].Tensors)
	require.Zero(t, d.Params[1].Step)
	_, err = json.Marshal(d.Groups)
	require.NoError(t, err)

	adam, err := mustAdamW(t, optim.AdamWConfig{LR: 1}, a).StateDict()
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"lr": 1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0, "maximize": 0, "amsgrad": 0}, adam.Groups[0].Hyper)
}

func TestSharedTensorsGoOutOfDate(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a := r.vec("a", 1)
	opt := mustAdamW(t, optim.AdamWConfig{LR: 1}, a)
	d, err := opt.StateDict()
	require.NoError(t, err)
	require.NoError(t, d.Check())
	require.NoError(t, opt.LoadStateDict(d), "onto itself")
	require.ErrorContains(t, d.Check(), "has gone on")

	d, err = opt.StateDict()
	require.NoError(t, err)
	clone, err := d.Clone()
	require.NoError(t, err)
	r.update(opt, nil)
	require.NoError(t, d.Check(), "nothing was updated")
	_, err = r.sess.Plan(func(s *autograd.Scope) error { r.push(s, a, 1); return opt.Step(s) }, autograd.PlanConfig{})
	require.NoError(t, err)
	require.NoError(t, d.Check(), "a dry run")
	r.update(opt, []float64{1})
	require.ErrorContains(t, d.Check(), "take it anew, or Clone it")
	require.ErrorContains(t, opt.LoadStateDict(d), "optim: AdamW.LoadStateDict: optim: StateDict: the optimizer that it was taken from")
	_, err = d.Clone()
	require.Error(t, err)

	require.NoError(t, clone.Check())
	require.Equal(t, []float64{0}, values(clone.Params[0].Tensors["exp_avg"]))
	require.EqualValues(t, 16, r.dev.Stats().LiveByKind[memory.Other])
	require.NoError(t, opt.LoadStateDict(clone))
	require.Equal(t, []int64{0}, steps(t, opt))
	clone.Release()
	clone.Release()
	require.Zero(t, r.dev.Stats().LiveByKind[memory.Other])

	d, err = opt.StateDict()
	require.NoError(t, err)
	d.Release()
	require.EqualValues(t, 16, r.dev.Stats().LiveByKind[memory.OptState], "not its own")
	require.NoError(t, opt.Close())
	require.ErrorContains(t, d.Check(), "closed")
	_, err = opt.StateDict()
	require.ErrorContains(t, err, "optim: AdamW.StateDict: the optimizer is closed")
}

func TestCloneIsAllOrNothing(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	d, err := mustAdamW(t, optim.AdamWConfig{LR: 1}, r.vec("a", 1), r.vec("b", 1)).StateDict()
	require.NoError(t, err)
	live := r.dev.Stats().Live
	for n := int64(1); n <= 4; n++ {
		r.dev.FailAt(n)
		_, err := d.Clone()
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
		require.ErrorContains(t, err, "optim: StateDict.Clone: exp_avg")
		require.Equal(t, live, r.dev.Stats().Live)
	}
}

func TestWhatLoadRefuses(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a, b, c := r.vec("net/a", 1, 2), r.vec("net/b", 3, 4), r.param("net/c", tensor.Float32, []float64{5}, 1)
	opt, err := optim.NewAdamWGroups(
		optim.AdamWGroup{Params: []*autograd.Param{a, b}, Config: optim.AdamWConfig{LR: 0.1}},
		optim.AdamWGroup{Params: []*autograd.Param{c}, Config: optim.AdamWConfig{LR: 0.2}},
	)
	require.NoError(t, err)
	r.update(opt, []float64{1, 1}, []float64{2, 2}, []float64{3})
	other, err := tensor.Zeros(r.dev, memory.Other, site, tensor.Of(tensor.Float64, 3))
	require.NoError(t, err)
	defer other.Release()
	single, err := tensor.Zeros(r.dev, memory.Other, site, tensor.Of(tensor.Float64, 1))
	require.NoError(t, err)
	defer single.Release()
	before := func() any {
		d, err := opt.StateDict()
		require.NoError(t, err)
		var all []any
		for _, p := range d.Params {
			all = append(all, p.Step, values(p.Tensors["exp_avg"]))
		}
		return append(all, d.Groups)
	}
	want := before()
	for _, x := range []struct {
		name  string
		spoil func(d *optim.StateDict)
		text  string
	}{
		{"kind", func(d *optim.StateDict) { d.Optimizer = "SGD" }, `the state is of "SGD": want one of "AdamW"`},
		{"groups", func(d *optim.StateDict) { d.Groups = d.Groups[:1] }, "the state has 1 groups: want 2"},
		{"params", func(d *optim.StateDict) { d.Params = d.Params[:2] }, "the state has 2 parameters: want 3"},
		{"sizes", func(d *optim.StateDict) { d.Groups[0].Size, d.Groups[1].Size = 1, 2 }, "group 0 of the state has 1 parameters: want 2"},
		{"hyper missing", func(d *optim.StateDict) { delete(d.Groups[1].Hyper, "eps") }, "group 1 of the state: the hyper-parameter eps is missing"},
		{"hyper extra", func(d *optim.StateDict) { d.Groups[1].Hyper["centred"] = 1 }, `group 1 of the state: hyper-parameter "centred" is unknown: want lr, beta1`},
		{"hyper bad", func(d *optim.StateDict) { d.Groups[0].Hyper["beta1"] = 1 }, "group 0 of the state: beta1 is 1"},
		{"order", func(d *optim.StateDict) { d.Params[0], d.Params[1] = d.Params[1], d.Params[0] },
			"parameter 0 is net/a, but the state there is of net/b, which is parameter 1"},
		{"step", func(d *optim.StateDict) { d.Params[1].Step = -1 }, "parameter 1, net/b: Step is -1"},
		{"tensor missing", func(d *optim.StateDict) { delete(d.Params[2].Tensors, "exp_avg_sq") },
			"parameter 2, net/c: exp_avg_sq is missing after 1 steps"},
		{"tensor extra", func(d *optim.StateDict) { d.Params[2].Tensors["max_exp_avg_sq"] = single },
			`parameter 2, net/c: the state "max_exp_avg_sq" is unknown: want exp_avg, exp_avg_sq`},
		{"shape", func(d *optim.StateDict) { d.Params[0].Tensors["exp_avg"] = other },
			"parameter 0, net/a: exp_avg is float64[3]: want float64[2]"},
		{"dtype is kept", func(d *optim.StateDict) { d.Params[2].Tensors["exp_avg"] = single },
			"parameter 2, net/c: exp_avg is float64[1]: want float32[1]"},
	} {
		t.Run(x.name, func(t *testing.T) {
			d, err := opt.StateDict()
			require.NoError(t, err)
			x.spoil(d)
			err = opt.LoadStateDict(d)
			require.ErrorContains(t, err, "optim: AdamW.LoadStateDict: "+x.text)
			require.Equal(t, want, before())
		})
	}
	require.ErrorContains(t, opt.LoadStateDict(nil), "the state is nil")
	_, err = r.sess.Plan(func(*autograd.Scope) error {
		d, err := opt.StateDict()
		require.NoError(t, err)
		require.ErrorContains(t, opt.LoadStateDict(d), "within a Step or Plan")
		return nil
	}, autograd.PlanConfig{})
	require.NoError(t, err)

	// renamed parameters are fine, and so is a state without tensors that has not begun
	d, err := opt.StateDict()
	require.NoError(t, err)
	d.Params[0].Name, d.Params[2].Name = "old/a", ""
	d.Params[1].Step, d.Params[1].Tensors = 0, nil
	require.NoError(t, opt.LoadStateDict(d))
	require.Equal(t, []int64{1, 0, 1}, steps(t, opt))
	d, err = opt.StateDict()
	require.NoError(t, err)
	require.Equal(t, []float64{0, 0}, values(d.Params[1].Tensors["exp_avg"]))
}

// The file's hyper-parameters win, also where they change what state there is.
func TestLoadMakesAndDropsMomentum(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	heavy := optim.SGDConfig{LR: 0.1, Momentum: 0.9}
	a, b := r.vec("a", 1, 2), r.vec("b", 3)
	with := mustSGD(t, heavy, a, b)
	r.update(with, []float64{1, 2}, []float64{3})
	a2, b2 := r.vec("a", 1, 2), r.vec("b", 3)
	without := mustSGD(t, optim.SGDConfig{LR: 1}, a2, b2)
	fresh, err := without.StateDict()
	require.NoError(t, err)
	plain, err := fresh.Clone()
	require.NoError(t, err)

	d, err := with.StateDict()
	require.NoError(t, err)
	live := r.dev.Stats().Live
	for n := int64(1); n <= 2; n++ {
		r.dev.FailAt(n)
		var oom *memory.OOMError
		require.ErrorAs(t, without.LoadStateDict(d), &oom)
		require.Equal(t, live, r.dev.Stats().Live)
		require.Equal(t, 1.0, without.LR(0))
	}
	require.NoError(t, without.LoadStateDict(d))
	require.Equal(t, live+24, r.dev.Stats().Live)
	require.Equal(t, 0.1, without.LR(0))
	for i, p := range []*autograd.Param{a2, b2} {
		require.NoError(t, tensor.Copy(p.Tensor(), with.Params()[i].Tensor()))
	}
	r.update(with, []float64{5, 6}, []float64{7})
	r.update(without, []float64{5, 6}, []float64{7})
	require.Equal(t, val(a), val(a2))
	require.Equal(t, val(b), val(b2))

	require.NoError(t, without.LoadStateDict(plain))
	require.Equal(t, live, r.dev.Stats().Live)
	r.update(without, []float64{1, 1}, []float64{1})
	require.Equal(t, []int64{1, 1}, steps(t, without))
}
