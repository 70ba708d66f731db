package optim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/optim"
)

// schedule makes a one-parameter optimizer at rate lr with a schedule.
func schedule(t *testing.T, r *rig, lr float64, cfg optim.CosineConfig) (*optim.SGD, *optim.CosineAnnealing) {
	t.Helper()
	opt := mustSGD(t, optim.SGDConfig{LR: lr}, r.vec("a", 1))
	c, err := optim.NewCosineAnnealing(opt, cfg)
	require.NoError(t, err)
	return opt, c
}

// run takes n steps and lists the rates after each.
func run(t *testing.T, c optim.Schedule, n int) (lrs []float64) {
	t.Helper()
	for range n {
		require.NoError(t, c.Step())
		lrs = append(lrs, c.LR()[0])
	}
	return lrs
}

func TestCosineIsRecursive(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	opt, c := schedule(t, r, 1, optim.CosineConfig{TMax: 10})
	run(t, c, 3)
	require.NoError(t, opt.SetLR(0, 0.5))
	near(t, []float64{0.412, 0.315}, run(t, c, 2), 0, 5e-4, "after an edit")
}

func TestCosineAlongTheCurveAndBack(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	for _, n := range []int{1, 2, 3, 7} {
		_, c := schedule(t, r, 0.5, optim.CosineConfig{TMax: n, EtaMin: 0.1})
		for k, lr := range run(t, c, 6*n) {
			want := 0.1 + 0.4*(1+math.Cos(math.Pi*float64(k+1)/float64(n)))/2
			require.InDelta(t, want, lr, 1e-12, "TMax %d, step %d", n, k+1)
		}
		_, c = schedule(t, r, 0.5, optim.CosineConfig{TMax: n, EtaMin: 0.1, Clamp: true})
		lrs := run(t, c, 5*n)
		for k := n - 1; k < 5*n; k++ {
			require.InDelta(t, 0.1, lrs[k], 1e-15, "clamped: TMax %d, step %d", n, k+1)
		}
	}
	_, c := schedule(t, r, 0.1, optim.CosineConfig{TMax: 4, EtaMin: 1})
	lrs := run(t, c, 4)
	require.Greater(t, lrs[0], 0.1, "a floor above the base: it rises")
	require.InDelta(t, 1, lrs[3], 1e-15)
}

func TestCosineRefusals(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	opt, c := schedule(t, r, 0.1, optim.CosineConfig{TMax: 4, EtaMin: 1})
	for _, x := range []struct {
		opt  optim.Scheduled
		cfg  optim.CosineConfig
		text string
	}{
		{nil, optim.CosineConfig{TMax: 1}, "the optimizer is nil"},
		{opt, optim.CosineConfig{}, "TMax is 0: want 1 or more"},
		{opt, optim.CosineConfig{TMax: -3}, "TMax is -3"},
		{opt, optim.CosineConfig{TMax: 1, EtaMin: -1}, "EtaMin is -1"},
		{opt, optim.CosineConfig{TMax: 1, EtaMin: nan}, "EtaMin is NaN"},
	} {
		_, err := optim.NewCosineAnnealing(x.opt, x.cfg)
		require.ErrorContains(t, err, "optim: NewCosineAnnealing: "+x.text)
	}
	for _, x := range []struct {
		st   optim.ScheduleState
		text string
	}{
		{optim.ScheduleState{Step: -1}, "Step is -1"},
		{optim.ScheduleState{Base: []float64{1}}, "the state has 1 base rates and 0 rates: want 1"},
		{optim.ScheduleState{Base: []float64{1}, LR: []float64{nan}}, "group 0: LR is NaN"},
		{optim.ScheduleState{Base: []float64{-1}, LR: []float64{1}}, "group 0: Base is -1"},
	} {
		require.ErrorContains(t, c.Load(x.st), "optim: CosineAnnealing.Load: "+x.text)
	}
	// below the floor on the way up: torch's rate goes negative
	run(t, c, 5)
	require.NoError(t, opt.SetLR(0, 0))
	err := c.Step()
	require.ErrorContains(t, err, "optim: CosineAnnealing.Step: step 6, group 0: LR is -")
	require.Equal(t, 5, c.State().Step)
	require.Zero(t, opt.LR(0))
}

func TestCosineResumes(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	cfg := optim.CosineConfig{TMax: 7, EtaMin: 0.01}
	opt, a := schedule(t, r, 1, cfg)
	run(t, a, 3)
	require.NoError(t, opt.SetLR(0, 0.9))
	run(t, a, 2)
	st := a.State()
	fresh, b := schedule(t, r, 1, cfg)
	require.NoError(t, b.Load(st))
	require.Equal(t, opt.LR(0), fresh.LR(0), "the rate comes with the schedule")
	require.Equal(t, run(t, a, 20), run(t, b, 20), "bit for bit")
	require.Equal(t, 5, st.Step, "a copy")
}

func TestCosineIsJournaled(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	_, c := schedule(t, r, 1, optim.CosineConfig{TMax: 7})
	run(t, c, 2)
	before := c.State()
	two := func(end error) func(*autograd.Scope) error {
		return func(*autograd.Scope) error { run(t, c, 2); return end }
	}
	require.ErrorIs(t, r.step(two(errMine)), errMine)
	require.Equal(t, before, c.State())
	for _, end := range []error{nil, errMine} {
		_, err := r.sess.Plan(two(end), autograd.PlanConfig{})
		require.ErrorIs(t, err, end)
		require.Equal(t, before, c.State())
	}
	require.NoError(t, r.step(two(nil)))
	require.Equal(t, 4, c.State().Step)
}
