package optim

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
)

// Schedule changes the learning rates of an optimizer step by step.
type Schedule interface {
	// Step moves to the next rates. Call it once after each Step of the optimizer, not after each micro-batch; after one
	// that was skipped, do not. Within a step that fails, and in a dry run, it is put back.
	Step() error
	// LR are the learning rates of the groups now.
	LR() []float64
	// State is a copy of where the schedule stands; Load goes on from it.
	State() ScheduleState
	Load(st ScheduleState) error
}

// ScheduleState is where a schedule stands, to be saved beside the optimizer's state. What the constructor was given is
// not part of it.
type ScheduleState struct {
	Step int            // steps taken
	Base []float64      // rates that the curve starts from
	LR   []float64      // rates now
	Then *ScheduleState // of the schedule that follows a Warmup, else nil
}

// schedule is what all schedules share; the curve is after.
type schedule struct {
	name  string
	opt   Scheduled
	base  []float64
	next  []float64 // room
	t     int       // steps taken
	after func(g, t int) float64
}

// open checks the arguments and takes the rates as they are.
func (c *schedule) open(name string, opt Scheduled, after func(g, t int) float64, checks ...error) error {
	if err := first(append([]error{failIf(opt == nil, "the optimizer is nil")}, checks...)...); err != nil {
		return fmt.Errorf("optim: New%s: %w", name, err)
	}
	c.name, c.opt, c.after = name, opt, after
	c.next = make([]float64, opt.Groups())
	c.base = c.LR()
	return nil
}

// Step moves to the next rates, see Schedule.
func (c *schedule) Step() error {
	t := c.t + 1
	for g := range c.next {
		c.next[g] = c.after(g, t)
		if err := notNegative("LR", c.next[g]); err != nil { // set from outside below the curve's lowest
			return fmt.Errorf("optim: %s.Step: step %d, group %d: %w", c.name, t, g, err)
		}
	}
	if err := c.set(c.next); err != nil {
		return fmt.Errorf("optim: %s.Step: %w", c.name, err)
	}
	autograd.Journal(c.opt.Session(), &c.t)
	c.t = t
	return nil
}

func (c *schedule) set(lrs []float64) error {
	for g, lr := range lrs {
		if err := c.opt.SetLR(g, lr); err != nil {
			return err
		}
	}
	return nil
}

// LR are the learning rates of the groups now.
func (c *schedule) LR() []float64 {
	lr := make([]float64, c.opt.Groups())
	for g := range lr {
		lr[g] = c.opt.LR(g)
	}
	return lr
}

// State is a copy of where c stands.
func (c *schedule) State() ScheduleState {
	return ScheduleState{Step: c.t, Base: append([]float64(nil), c.base...), LR: c.LR()}
}

// Load goes on from st. It sets the optimizer's learning rates too, from which the next are computed, so the order of
// loading optimizer and schedule does not matter.
func (c *schedule) Load(st ScheduleState) error {
	err := c.accepts(st)
	if err == nil {
		err = c.set(st.LR)
	}
	if err != nil {
		return fmt.Errorf("optim: %s.Load: %w", c.name, err)
	}
	autograd.Journal(c.opt.Session(), &c.t)
	autograd.Journal(c.opt.Session(), &c.base)
	c.t, c.base = st.Step, append([]float64(nil), st.Base...)
	return nil
}

func (c *schedule) accepts(st ScheduleState) error {
	n := c.opt.Groups()
	switch {
	case st.Step < 0:
		return fmt.Errorf("Step is %d: want 0 or more", st.Step)
	case len(st.Base) != n || len(st.LR) != n:
		return fmt.Errorf("the state has %d base rates and %d rates: want %d, one a group", len(st.Base), len(st.LR), n)
	}
	for g := range n {
		if err := errors.Join(notNegative("Base", st.Base[g]), notNegative("LR", st.LR[g])); err != nil {
			return fmt.Errorf("group %d: %w", g, err)
		}
	}
	return nil
}
