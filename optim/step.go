package optim

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
)

// Step updates every parameter that has a gradient, and raises its version. Those without one are skipped: no decay, no
// momentum, no count. It refuses a gradient that a failed step left stale. Nothing later in the same autograd step takes
// a completed update back; a dry run does.
func (c *core) Step(s *autograd.Scope) error {
	if err := c.ready(s); err != nil {
		return c.fail("Step", err)
	}
	c.gather()
	if len(c.due) == 0 {
		return nil
	}
	c.putBackAfterPlan()
	c.run(s)
	c.changes++
	for _, sl := range c.due {
		sl.steps++
		sl.par.Tensor().Bump()
	}
	return nil
}

// ready refuses a step that would go wrong.
func (c *core) ready(s *autograd.Scope) error {
	if c.closed {
		return errors.New("the optimizer is closed")
	}
	if s.Session() != c.ss {
		return errors.New("the scope is of another session than the parameters")
	}
	for _, p := range c.params {
		if p.Stale() {
			return stale(p)
		}
	}
	return nil
}

func stale(p *autograd.Param) error {
	return fmt.Errorf("the gradient of %s was left half added by a failed step: call ZeroGrad and compute it anew", p.Name())
}

// gather lists the parameters that have a gradient.
func (c *core) gather() {
	c.due = c.due[:0]
	c.work.reset()
	for i := range c.slots {
		if sl := &c.slots[i]; sl.par.Grad() != nil {
			c.due = append(c.due, sl)
			c.work.add(sl.par.Spec().Elems())
		}
	}
}

// run applies the rule. It allocates nothing, so it cannot fail half way.
func (c *core) run(s *autograd.Scope) {
	n := c.work.chunks
	s.Run(memory.Site{Op: c.op, Scope: s.Path()}, autograd.Work{Chunks: n}, func(r *autograd.Run) {
		r.Par(n, func(_, chunk int) {
			i, lo, hi := c.work.at(chunk)
			sl := c.due[i]
			c.groups[sl.group].update(sl, lo, hi)
		})
	})
}

// putBackAfterPlan has the counters restored when the running dry run ends.
func (c *core) putBackAfterPlan() {
	if !c.ss.Device().Forked() {
		return
	}
	steps, changes := make([]int64, len(c.slots)), c.changes
	for i := range c.slots {
		steps[i] = c.slots[i].steps
	}
	c.ss.OnPlanEnd(func() {
		c.changes = changes
		for i := range c.slots {
			c.slots[i].steps = steps[i]
		}
	})
}
