package optim

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
)

// ReleaseGradients moves the optimizer into backward: from now on each parameter is updated as soon as its gradient is
// complete, and the gradient is given back at once, so that the peak holds the largest gradients in flight instead of all
// (LOMO, Lv et al., 2023, has the idea). Step then has nothing left to do. It cannot be undone.
//
// It is other training wherever gradients must meet before the update: a gradient that is released can neither be
// accumulated nor take part in a global norm, so Window and ClipGradNorm refuse these parameters. A step that fails may
// have updated some parameters already.
func (c *core) ReleaseGradients() error {
	switch {
	case c.closed:
		return c.fail("ReleaseGradients", errors.New("the optimizer is closed"))
	case c.ss.Running():
		return c.fail("ReleaseGradients", errors.New("within a Step or Plan: call it between steps"))
	case c.released:
		return nil
	}
	for _, p := range c.params {
		if p.HasGrad() {
			return c.fail("ReleaseGradients", fmt.Errorf("%s has a gradient: call ZeroGrad first", p.Name()))
		}
		if p.Consumed() {
			return c.fail("ReleaseGradients", fmt.Errorf("another optimizer releases the gradient of %s", p.Name()))
		}
	}
	c.released = true
	for i := range c.slots {
		sl := &c.slots[i]
		sl.par.SetConsumed()
		sl.par.OnGradReady(func(s *autograd.Scope, p *autograd.Param) error { return c.consume(s, sl) })
	}
	return nil
}

// Releases tells whether ReleaseGradients was called.
func (c *core) Releases() bool { return c.released }

// consume updates a parameter inside backward and gives its gradient back.
func (c *core) consume(s *autograd.Scope, sl *slot) error {
	if err := c.ready(s); err != nil {
		return c.fail("backward", err)
	}
	steps, changes := sl.steps, c.changes
	c.ss.OnPlanEnd(func() { sl.steps, c.changes = steps, changes })
	c.changes++
	if err := c.visit(s, sl); err != nil {
		return c.fail("backward", fmt.Errorf("parameter %s: %w", sl.par.Name(), err))
	}
	sl.par.ZeroGrad()
	return nil
}
