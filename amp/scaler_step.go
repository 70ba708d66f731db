package amp

import (
	"errors"
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/optim"
)

// Step updates the parameters of opt by gradients divided by Scale, unless one of them is not finite: then it clears them
// all and leaves the optimizer as it is, its step counters, its weight decay and its moments, and stepped is false, by which
// schedules and averages are to be left alone too. It is false as well if opt had no gradient. Once in a window.
//
// The division is part of the optimizer's own pass where it has StepScaled, as those of package optim do. After
// GradScalerConfig.MaxSkips windows in a row with a skip it is an error.
func (g *GradScaler) Step(s *autograd.Scope, opt optim.Optimizer) (stepped bool, err error) {
	if stepped, err = g.step(s, opt); err != nil {
		return false, fmt.Errorf("amp: GradScaler.Step: %w", err)
	}
	return stepped, nil
}

func (g *GradScaler) step(s *autograd.Scope, opt optim.Optimizer) (bool, error) {
	t := g.turn(opt)
	if g.cfg.Disabled && !t.clipped {
		return true, opt.Step(s)
	}
	if err := g.measure(s, &t); err != nil {
		return false, err
	}
	if g.cfg.Disabled {
		g.drop(s, opt)
		return true, apply(s, opt, t.clip)
	}
	if len(t.grads.NonFinite) > 0 {
		return false, g.skip(s, t)
	}
	if t.grads.Params > 0 {
		factor := t.clip
		if t.stage == ready {
			factor /= g.scale
		}
		if err := apply(s, opt, factor); err != nil {
			return false, err
		}
	}
	t.stage = stepped
	g.put(s, t)
	return t.grads.Params > 0, nil
}

// apply steps opt with gradients multiplied by factor.
func apply(s *autograd.Scope, opt optim.Optimizer, factor float64) error {
	if o, ok := opt.(interface {
		StepScaled(s *autograd.Scope, factor float64) error
	}); ok {
		return o.StepScaled(s, factor)
	}
	if err := divide(s, opt, factor); err != nil {
		return err
	}
	return opt.Step(s)
}

// skip ends an optimizer's window without an update.
func (g *GradScaler) skip(s *autograd.Scope, t turn) error {
	k := g.describe(t.grads.NonFinite)
	if n := g.skips + 1; g.cfg.MaxSkips > 0 && n >= g.cfg.MaxSkips {
		return fmt.Errorf("%d updates in a row without finite gradients: %s: look for what makes the loss or the model overflow (MaxSkips allows for more)", n, k)
	}
	t.stage = stepped
	g.put(s, t)
	g.last = k
	g.skipped++
	t.opt.ZeroGrad(s)
	return nil
}

// drop forgets opt's turn.
func (g *GradScaler) drop(s *autograd.Scope, opt optim.Optimizer) {
	g.journal(s)
	var rest []turn
	for _, t := range g.turns {
		if t.opt != opt {
			rest = append(rest, t)
		}
	}
	g.turns = rest
}

// Update ends the window and chooses the factor of the next one: of all optimizers that were stepped since the last Update,
// if one was skipped, Scale falls; otherwise it rises if that was the GrowthInterval-th time, unless float32 does not hold
// it. It is an error if none was stepped, or none of them had a gradient: in the middle of a window a new factor would mix
// with the old one.
func (g *GradScaler) Update(s *autograd.Scope) error {
	if g.cfg.Disabled {
		return nil
	}
	overflow, err := g.ended()
	if err != nil {
		return fmt.Errorf("amp: GradScaler.Update: %w", err)
	}
	g.journal(s)
	g.turns = nil
	if overflow {
		g.scale = math.Max(float64(float32(g.scale*g.cfg.BackoffFactor)), g.cfg.MinScale)
		g.tracker = 0
		g.skips++
		return nil
	}
	g.skips = 0
	if g.tracker++; g.tracker < g.cfg.GrowthInterval {
		return nil
	}
	g.tracker = 0
	if grown := float64(float32(g.scale * g.cfg.GrowthFactor)); !math.IsInf(grown, 0) {
		g.scale = grown
	}
	return nil
}

// UpdateTo is Update with a new factor instead of one that it chooses, torch's update(new_scale): from MinScale to the
// largest float32. What it has counted towards the next growth stays. It may be called without a Step before, but not while
// gradients are being made.
func (g *GradScaler) UpdateTo(s *autograd.Scope, scale float64) error {
	if g.cfg.Disabled {
		return nil
	}
	scale = float64(float32(scale))
	if err := g.cfg.checkScale(scale); err != nil {
		return fmt.Errorf("amp: GradScaler.UpdateTo: %w", err)
	}
	if err := g.settled(); err != nil {
		return fmt.Errorf("amp: GradScaler.UpdateTo: %w", err)
	}
	g.journal(s)
	g.scale, g.turns = scale, nil
	return nil
}

// ended tells whether the window that ends had an overflow.
func (g *GradScaler) ended() (overflow bool, err error) {
	if err := g.settled(); err != nil {
		return false, err
	}
	if len(g.turns) == 0 {
		return false, errors.New("no optimizer was stepped since the last Update: call Step first, once for each optimizer, and Update at the end of a window only")
	}
	params := 0
	for _, t := range g.turns {
		params += t.grads.Params
		overflow = overflow || len(t.grads.NonFinite) > 0
	}
	if params == 0 {
		return false, errors.New("no optimizer that was stepped since the last Update had a gradient: call Backward first")
	}
	return overflow, nil
}

// settled refuses to end a window in which an optimizer has still to be stepped.
func (g *GradScaler) settled() error {
	for _, t := range g.turns {
		if t.stage != stepped {
			return fmt.Errorf("the optimizer of %s was unscaled or clipped, and not stepped: call Step before Update", t.opt.Params()[0].Name())
		}
	}
	return nil
}

// Discard forgets the running window, whose gradients are cleared instead of used. The factor stays.
func (g *GradScaler) Discard(s *autograd.Scope) {
	g.journal(s)
	g.turns = nil
}
