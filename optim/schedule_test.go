package optim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/optim"
)

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

// schedule makes the schedule that a case names, over an optimizer at its base rate.
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

func TestTorchsSchedules(t *testing.T) {
	var file struct{ Cases []scheduleCase }
	golden(t, "schedule.json", &file)
	require.Len(t, file.Cases, 6)
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			r := plainRig(t)
			defer r.close()
			sched, err := c.schedule(mustSGD(t, optim.SGDConfig{LR: c.BaseLR}, r.vec("a", 1)))
			require.NoError(t, err)
			near(t, c.LRs[:1], sched.LR(), 1e-14, 1e-16, c.Name)
			near(t, c.LRs[1:], run(t, sched, len(c.LRs)-1), 1e-13, 1e-16, c.Name)
		})
	}
}

// Every schedule goes on where its state says, in a new optimizer, to the bit.
func TestSchedulesResume(t *testing.T) {
	var file struct{ Cases []scheduleCase }
	golden(t, "schedule.json", &file)
	for _, c := range file.Cases {
		for k := range 12 {
			r := plainRig(t)
			first, err := c.schedule(mustSGD(t, optim.SGDConfig{LR: c.BaseLR}, r.vec("a", 1)))
			require.NoError(t, err)
			run(t, first, k)
			second, err := c.schedule(mustSGD(t, optim.SGDConfig{LR: c.BaseLR}, r.vec("b", 1)))
			require.NoError(t, err)
			require.NoError(t, second.Load(first.State()))
			require.Equal(t, run(t, first, 10), run(t, second, 10), "%s after %d", c.Name, k)
			r.close()
		}
	}
}

func TestScheduleArguments(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	opt := mustSGD(t, optim.SGDConfig{LR: 1}, r.vec("a", 1))
	begun, err := optim.NewExponential(opt, 0.5)
	require.NoError(t, err)
	require.NoError(t, begun.Step())
	for _, c := range []struct {
		f    func() error
		text string
	}{
		{func() error { _, err := optim.NewStepDecay(opt, optim.StepDecayConfig{Gamma: 1}); return err }, "NewStepDecay: Size is 0"},
		{func() error { _, err := optim.NewStepDecay(opt, optim.StepDecayConfig{Size: 1}); return err }, "Gamma is 0"},
		{func() error { _, err := optim.NewExponential(opt, -1); return err }, "NewExponential: gamma is -1"},
		{func() error { _, err := optim.NewExponential(nil, 1); return err }, "the optimizer is nil"},
		{func() error { _, err := optim.NewWarmRestarts(opt, optim.WarmRestartsConfig{}); return err }, "T0 is 0"},
		{func() error {
			_, err := optim.NewWarmRestarts(opt, optim.WarmRestartsConfig{T0: 1, TMult: -1})
			return err
		}, "TMult is -1"},
		{func() error { _, err := optim.NewWarmup(opt, optim.WarmupConfig{StartFactor: 1}, nil); return err }, "Steps is 0"},
		{func() error { _, err := optim.NewWarmup(opt, optim.WarmupConfig{Steps: 1}, nil); return err }, "StartFactor is 0"},
		{func() error {
			_, err := optim.NewWarmup(opt, optim.WarmupConfig{Steps: 1, StartFactor: 1}, begun)
			return err
		}, "has begun"},
	} {
		require.ErrorContains(t, c.f(), c.text)
	}
	require.Equal(t, 0.5, opt.LR(0), "nothing changed")
}
