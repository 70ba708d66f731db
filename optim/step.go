package optim

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
)

// Step updates every parameter that has a gradient, and raises its version. Those without one are skipped: no decay, no
// momentum, no count. It refuses a gradient that a failed step left stale. Nothing later in the same autograd step takes
// a completed update back; a dry run does.
func (c *core) Step(s *autograd.Scope) error {
	for _, p := range c.params {
		if k := p.GradScale(); k != 1 && p.HasGrad() {
			return c.fail("Step", fmt.Errorf("the gradient of %s is multiplied by a loss scale of %v: want GradScaler.Step", p.Name(), k))
		}
	}
	return c.step(s)
}

// step is Step whatever gradients are multiplied by.
func (c *core) step(s *autograd.Scope) error {
	if err := c.ready(s); err != nil {
		return c.fail("Step", err)
	}
	c.gather()
	if len(c.due)+len(c.far)+len(c.away) == 0 {
		return nil
	}
	tiles, err := c.newTiler(s, c.far)
	if err != nil {
		return c.fail("Step", err)
	}
	defer tiles.release()
	c.putBackAfterPlan()
	c.changes++
	if err := tiles.run(func() error { c.run(s); return nil }); err != nil {
		return c.fail("Step", err)
	}
	tiles.release()
	for _, sl := range c.due {
		sl.steps++
		sl.par.Tensor().Bump()
	}
	for _, sl := range c.far {
		sl.par.Tensor().Bump()
	}
	for i, sl := range c.away {
		if err := c.visit(s, sl); err != nil {
			return c.fail("Step", fmt.Errorf("parameter %s in its home: %w; updated already: %s", sl.par.Name(), err, c.done(i)))
		}
	}
	return nil
}

// StepScaled is Step with gradients that are multiplied by factor inside the update, in its one pass over them: an inverse
// loss scale, a clip coefficient. The gradients themselves stay as they are. Unlike Step it takes gradients with a loss scale
// (see autograd.Param.GradScale), which factor is to divide out.
func (c *core) StepScaled(s *autograd.Scope, factor float64) error {
	if !finite(factor) {
		return c.fail("StepScaled", fmt.Errorf("the factor is %v: want a finite number", factor))
	}
	defer c.scale(1)
	c.scale(factor)
	return c.step(s)
}

func (c *core) scale(factor float64) {
	for i := range c.slots {
		c.slots[i].factor = factor
	}
}

// visit updates a parameter that lives in a Home.
func (c *core) visit(s *autograd.Scope, sl *slot) (err error) {
	if sl.w, err = sl.par.Fetch(); err != nil {
		return err
	}
	defer sl.w.Release()
	if sl.g, err = sl.par.FetchGrad(); err != nil {
		return err
	}
	defer sl.g.Release()
	if sl.any() {
		return c.visitFar(s, sl)
	}
	c.due, c.work = append(c.due[:0], sl), pieces{}
	c.work.add(sl.par.Spec().Elems())
	c.run(s)
	sl.steps++
	if err := sl.par.Store(&sl.w); err != nil {
		return fmt.Errorf("%w (its moments have moved, its value has not)", err)
	}
	return nil
}

// visitFar is visit for a parameter whose state is stored: both move, or neither.
func (c *core) visitFar(s *autograd.Scope, sl *slot) error {
	tiles, err := c.newTiler(s, []*slot{sl})
	if err != nil {
		return err
	}
	defer tiles.release()
	if !sl.direct {
		return tiles.run(func() error { return sl.par.Store(&sl.w) })
	}
	if err := tiles.run(func() error { return nil }); err != nil {
		return err
	}
	return sl.par.Store(&sl.w)
}

// done names what a Step that fails at the i-th parameter in a Home has updated.
func (c *core) done(i int) string {
	var names []string
	for _, sl := range c.away[:i] {
		names = append(names, sl.par.Name())
	}
	if len(c.away) < len(c.slots) {
		names = append(names, "all on the device")
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// ready refuses a step that would go wrong.
func (c *core) ready(s *autograd.Scope) error {
	switch {
	case c.closed:
		return errors.New("the optimizer is closed")
	case c.broken != nil:
		return c.broken
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
	c.due, c.far, c.away = c.due[:0], c.far[:0], c.away[:0]
	c.work.reset()
	for i := range c.slots {
		sl := &c.slots[i]
		switch {
		case !sl.par.HasGrad():
		case sl.par.Home() != nil:
			c.away = append(c.away, sl)
		case sl.any():
			sl.w, sl.g = *sl.par.Tensor(), *sl.par.Grad()
			c.far = append(c.far, sl)
		default:
			sl.w, sl.g = *sl.par.Tensor(), *sl.par.Grad()
			c.due = append(c.due, sl)
			c.work.add(sl.par.Spec().Elems())
		}
	}
}

// run applies the rule. All scratch is taken before the first write, so it cannot fail half way.
func (c *core) run(s *autograd.Scope) {
	if len(c.due) == 0 {
		return
	}
	w, wholes := c.wanted()
	s.Run(memory.Site{Op: c.op, Scope: s.Path()}, w, func(r *autograd.Run) {
		if wholes {
			r.Par(len(c.due), func(lane, i int) { c.whole(c.due[i], lane, r.Lane(lane)) })
			return
		}
		r.Par(c.work.chunks, func(lane, chunk int) {
			i, lo, hi := c.work.at(chunk)
			c.update(c.due[i], lane, r.Lane(lane), lo, hi)
		})
	})
}

// wanted is what run asks for: pieces of all parameters together, or parameters one by one for a rule that wants them
// whole.
func (c *core) wanted() (w autograd.Work, wholes bool) {
	w.Scratch = c.halfWork(c.due)
	if _, wholes = c.groups[0].(whole); !wholes {
		w.Chunks = c.work.chunks
		return w, false
	}
	w.Chunks = len(c.due)
	var most int64
	for _, sl := range c.due {
		most = max(most, c.groups[sl.group].(whole).scratch(sl.par.Spec()))
	}
	w.Scratch += most
	return w, true
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
