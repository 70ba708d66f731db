package amp_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

func TestNewGradScalerRefuses(t *testing.T) {
	for _, c := range []struct {
		cfg  amp.GradScalerConfig
		text string
	}{
		{amp.GradScalerConfig{InitScale: -1}, "the scale is -1: want one from MinScale, 1, to the largest float32"},
		{amp.GradScalerConfig{InitScale: nan}, "the scale is NaN"},
		{amp.GradScalerConfig{InitScale: 1e39}, "the scale is +Inf"},
		{amp.GradScalerConfig{InitScale: 0.5}, "the scale is 0.5: want one from MinScale, 1"},
		{amp.GradScalerConfig{GrowthFactor: 1}, "GrowthFactor is 1: want a finite number above 1"},
		{amp.GradScalerConfig{GrowthFactor: inf}, "GrowthFactor is +Inf"},
		{amp.GradScalerConfig{BackoffFactor: 1}, "BackoffFactor is 1: want more than 0 and less than 1"},
		{amp.GradScalerConfig{BackoffFactor: -0.5}, "BackoffFactor is -0.5"},
		{amp.GradScalerConfig{BackoffFactor: nan}, "BackoffFactor is NaN"},
		{amp.GradScalerConfig{GrowthInterval: -1}, "GrowthInterval is -1: want 1 or more updates"},
		{amp.GradScalerConfig{MinScale: -1}, "MinScale is -1"},
		{amp.GradScalerConfig{MinScale: nan}, "MinScale is NaN"},
	} {
		g, err := amp.NewGradScaler(c.cfg)
		require.Nil(t, g)
		require.ErrorContains(t, err, "amp: NewGradScaler: "+c.text)
		c.cfg.Disabled = true
		_, err = amp.NewGradScaler(c.cfg)
		require.NoError(t, err, "disabled, it is not looked at")
	}
}

// Each call that comes at the wrong time is an error there, and changes nothing.
func TestCallsInTheWrongOrder(t *testing.T) {
	r := newRig(t)
	w, v := r.param(tensor.Float32, 1), r.param(tensor.Float32, 1)
	opt, other := adamw(t, w), adamw(t, v)
	g := scaler(t, amp.GradScalerConfig{GrowthInterval: 1})
	fails := func(s scope, text string, f func() error) {
		t.Helper()
		before := g.State()
		require.ErrorContains(t, f(), text)
		require.Equal(t, before, g.State())
	}
	step := func(s scope, o optim.Optimizer) error { _, err := g.Step(s, o); return err }
	r.ok(func(s scope) {
		fails(s, "amp: GradScaler.Update: no optimizer was stepped since the last Update: call Step first", func() error { return g.Update(s) })
		require.NoError(t, step(s, opt))
		fails(s, "amp: GradScaler.Update: no optimizer that was stepped since the last Update had a gradient: call Backward first", func() error { return g.Update(s) })
		g.Discard(s)

		g.Backward(s, r.linearLoss(s, w, 1))
		fails(s, "amp: GradScaler.Update: no optimizer was stepped", func() error { return g.Update(s) })
		require.NoError(t, g.Unscale(s, opt))
		require.Equal(t, 1.0, w.Grad().At(0))
		fails(s, "amp: GradScaler.Unscale: Unscale has already been called for this optimizer since the last Update", func() error { return g.Unscale(s, opt) })
		fails(s, "amp: GradScaler.Update: the optimizer of p[1] was unscaled or clipped, and not stepped: call Step before Update", func() error { return g.Update(s) })
		fails(s, "amp: GradScaler.UpdateTo: the optimizer of p[1] was unscaled", func() error { return g.UpdateTo(s, 4) })
		require.NoError(t, step(s, opt))
		fails(s, "amp: GradScaler.Step: Step has already been called for this optimizer since the last Update", func() error { return step(s, opt) })
		fails(s, "amp: GradScaler.Unscale: Step has already been called", func() error { return g.Unscale(s, opt) })
		fails(s, "amp: GradScaler.ClipGradNorm: Step has already been called", func() error { _, err := g.ClipGradNorm(s, opt, 1); return err })
		require.NoError(t, g.Update(s))
		require.Equal(t, 131072.0, g.Scale())
		opt.ZeroGrad(s)

		fails(s, "amp: GradScaler.Step: the optimizer is nil", func() error { return step(s, nil) })
		fails(s, "amp: GradScaler.ClipGradNorm: the bound is NaN: want 0 or more", func() error { _, err := g.ClipGradNorm(s, opt, nan); return err })
		fails(s, "amp: GradScaler.UpdateTo: the scale is 0.5: want one from MinScale", func() error { return g.UpdateTo(s, 0.5) })
		fails(s, "amp: GradScaler.UpdateTo: the scale is NaN", func() error { return g.UpdateTo(s, math.NaN()) })
	})

	// a factor that changes while an optimizer has gradients of the old one
	r.ok(func(s scope) {
		g.Backward(s, r.linearLoss(s, w, 1))
		g.Backward(s, r.linearLoss(s, v, 1))
		require.NoError(t, step(s, opt))
		require.NoError(t, g.Update(s))
		fails(s, "amp: GradScaler.Step: the gradient of parameter 0, p[1], was made with a loss scale of 131072: want 262144, the scaler's", func() error { return step(s, other) })
		require.NoError(t, g.UpdateTo(s, 131072))
		require.NoError(t, step(s, other))
		opt.ZeroGrad(s)
		other.ZeroGrad(s)
		g.Discard(s)
	})
	err := r.step(func(s scope) {
		g.Backward(s, r.linearLoss(s, w, 1))
		require.NoError(t, g.UpdateTo(s, 4))
		g.Backward(s, r.linearLoss(s, w, 1))
	})
	require.ErrorContains(t, err, "the gradient of p[1] was made with a loss scale of 131072, this pass has 4")
	require.Equal(t, 131072.0, g.Scale(), "put back with the step that failed")

	// gradients that are not the scaler's
	r.ok(func(s scope) {
		r.linearLoss(s, w, 1).Backward(s)
		fails(s, "was made with a loss scale of 1: want 131072, the scaler's (GradScaler.Backward makes them", func() error { return step(s, opt) })
		opt.ZeroGrad(s)
		g.Backward(s, r.linearLoss(s, w, 1))
		require.ErrorContains(t, opt.Step(s), "optim: AdamW.Step: the gradient of p[1] is multiplied by a loss scale of 131072: want GradScaler.Step")
		_, err := optim.ClipGradNorm(s, opt.Params(), 1)
		require.ErrorContains(t, err, "want GradScaler.ClipGradNorm, or GradScaler.Unscale before")
		_, err = g.ClipGradNorm(s, opt, 1)
		require.NoError(t, err)
		g.Backward(s, r.linearLoss(s, w, 1))
		fails(s, "amp: GradScaler.Step: the gradients have changed since ClipGradNorm: call it after the last Backward", func() error { return step(s, opt) })
		opt.ZeroGrad(s)
		g.Discard(s)
	})
	require.NoError(t, opt.ReleaseGradients())
	err = r.step(func(s scope) { g.Backward(s, r.linearLoss(s, w, 1)) })
	require.ErrorContains(t, err, "the gradient of p[1] is released inside backward, where a loss scale of 131072 cannot be divided out")
}

func TestLoadOfAScalerRefuses(t *testing.T) {
	good := scaler(t, amp.GradScalerConfig{InitScale: 8}).State()
	change := func(f func(*amp.GradScalerState)) amp.GradScalerState { st := good; f(&st); return st }
	g := scaler(t, amp.GradScalerConfig{InitScale: 4})
	before := g.State()
	for text, st := range map[string]amp.GradScalerState{
		"the state is empty, as that of a disabled scaler is":         {},
		"taken in the middle of an update: take it after Update":      change(func(s *amp.GradScalerState) { s.Unfinished = true }),
		"a Tracker of 2000: want 0 to 1999, less than GrowthInterval": change(func(s *amp.GradScalerState) { s.Tracker = 2000 }),
		"a Tracker of -1": change(func(s *amp.GradScalerState) { s.Tracker = -1 }),
		"a state of -1 Skips and 0 Skipped: want 0 or more":               change(func(s *amp.GradScalerState) { s.Skips = -1 }),
		"the scale is 0: want one from MinScale, 1, to the largest float": change(func(s *amp.GradScalerState) { s.Scale = 0 }),
		"the scale is 1.1, which is no float32":                           change(func(s *amp.GradScalerState) { s.Scale = 1.1 }),
		"GrowthFactor is 0":                                               change(func(s *amp.GradScalerState) { s.GrowthFactor = 0 }),
		"BackoffFactor is 2":                                              change(func(s *amp.GradScalerState) { s.BackoffFactor = 2 }),
		"GrowthInterval is 0":                                             change(func(s *amp.GradScalerState) { s.GrowthInterval = 0 }),
	} {
		require.ErrorContains(t, g.Load(st), "amp: GradScaler.Load: ")
		require.ErrorContains(t, g.Load(st), text)
		require.Equal(t, before, g.State())
	}
	require.NoError(t, g.Load(good))
	require.Equal(t, good, g.State())
	off := scaler(t, amp.GradScalerConfig{Disabled: true})
	require.Zero(t, off.State())
	require.NoError(t, off.Load(good))
	require.NoError(t, off.Load(amp.GradScalerState{}))
	require.Equal(t, 1.0, off.Scale())
}

// A state in the middle of an update says so.
func TestStateOfAnUnfinishedUpdate(t *testing.T) {
	r := newRig(t)
	w := r.param(tensor.Float32, 1)
	opt := adamw(t, w)
	g := scaler(t, amp.GradScalerConfig{})
	r.ok(func(s scope) {
		g.Backward(s, r.linearLoss(s, w, 1))
		require.False(t, g.State().Unfinished, "between micro-batches there is nothing to lose")
		_, err := g.Step(s, opt)
		require.NoError(t, err)
		require.ErrorContains(t, g.Load(g.State()), "in the middle of an update")
		opt.ZeroGrad(s)
		require.NoError(t, g.Update(s))
		require.False(t, g.State().Unfinished)
	})
}

// The factor stays where float32 ends.
func TestScaleStaysFinite(t *testing.T) {
	r := newRig(t)
	opt := adamw(t, r.param(tensor.Float32, 1))
	g := scaler(t, amp.GradScalerConfig{InitScale: 0x1p126, GrowthInterval: 1})
	for range 3 {
		stepped, err := r.update(g, opt, 1e-30)
		require.NoError(t, err)
		require.True(t, stepped)
	}
	require.Equal(t, 0x1p127, g.Scale())
	require.Zero(t, g.State().Tracker)
}

// A step that fails, at whatever call, and a dry run leave the scaler as it was.
func TestScalerIsPutBack(t *testing.T) {
	r := newRig(t)
	w := r.param(tensor.Float32, 1)
	opt := adamw(t, w)
	g := scaler(t, amp.GradScalerConfig{GrowthInterval: 1})
	_, err := r.update(g, opt, inf)
	require.NoError(t, err)
	before, live := g.State(), r.dev.Stats().Live
	skip, _ := g.LastSkip()
	for _, x := range []float64{1, nan} {
		for stop := range 5 {
			body := func(s scope) error {
				for i, f := range []func() error{
					func() error { g.Backward(s, r.linearLoss(s, w, x)); return nil },
					func() error { _, err := g.ClipGradNorm(s, opt, 1); return err },
					func() error { return g.Unscale(s, opt) },
					func() error { _, err := g.Step(s, opt); return err },
					func() error { return g.Update(s) },
				} {
					require.NoError(t, f())
					if i == stop {
						return errMine
					}
				}
				return nil
			}
			require.ErrorIs(t, r.sess.Step(context.Background(), body), errMine)
			require.Equal(t, before, g.State(), stop)
			require.Equal(t, live, r.dev.Stats().Live)
			_, err := r.sess.Plan(body, autograd.PlanConfig{Steps: 1})
			require.ErrorIs(t, err, errMine)
			require.Equal(t, before, g.State(), stop)
			last, _ := g.LastSkip()
			require.Equal(t, skip, last)
		}
	}
	for at := int64(1); ; at++ { // every allocation fails once
		var stepped bool
		err := r.sess.Step(context.Background(), func(s scope) (err error) {
			r.dev.FailAt(at)
			s.OnClose(func() { r.dev.FailAt(0) })
			g.Backward(s, r.linearLoss(s, w, 1))
			if _, err = g.ClipGradNorm(s, opt, 1); err != nil {
				return err
			}
			if stepped, err = g.Step(s, opt); err != nil {
				return err
			}
			opt.ZeroGrad(s)
			return g.Update(s)
		})
		if err == nil {
			require.True(t, stepped)
			require.Greater(t, at, int64(3))
			return
		}
		require.Equal(t, before, g.State())
		require.Equal(t, live, r.dev.Stats().Live)
	}
}
