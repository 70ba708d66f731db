package optim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/optim"
)

// schedules makes one of each kind.
var schedules = map[string]func(optim.Scheduled) (optim.Schedule, error){
	"cosine": func(o optim.Scheduled) (optim.Schedule, error) {
		return optim.NewCosineAnnealing(o, optim.CosineConfig{TMax: 5, EtaMin: 0.01})
	},
	"restarts": func(o optim.Scheduled) (optim.Schedule, error) {
		return optim.NewWarmRestarts(o, optim.WarmRestartsConfig{T0: 3, TMult: 2})
	},
	"step": func(o optim.Scheduled) (optim.Schedule, error) {
		return optim.NewStepDecay(o, optim.StepDecayConfig{Size: 4, Gamma: 0.5})
	},
	"exponential": func(o optim.Scheduled) (optim.Schedule, error) { return optim.NewExponential(o, 0.9) },
	"warmup": func(o optim.Scheduled) (optim.Schedule, error) {
		then, err := optim.NewCosineAnnealing(o, optim.CosineConfig{TMax: 9})
		if err != nil {
			return nil, err
		}
		return optim.NewWarmup(o, optim.WarmupConfig{Steps: 4, StartFactor: 0.1}, then)
	},
}

// Every schedule goes on where its state says, in a new optimizer, to the bit.
func TestSchedulesResume(t *testing.T) {
	for name, make := range schedules {
		for k := range 12 {
			r := plainRig(t)
			first, err := make(mustSGD(t, optim.SGDConfig{LR: 0.1}, r.vec("a", 1)))
			require.NoError(t, err)
			run(t, first, k)
			second, err := make(mustSGD(t, optim.SGDConfig{LR: 0.1}, r.vec("b", 1)))
			require.NoError(t, err)
			require.NoError(t, second.Load(first.State()))
			require.Equal(t, run(t, first, 10), run(t, second, 10), "%s after %d", name, k)
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
