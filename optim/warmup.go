package optim

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
)

// Warmup raises the learning rates in a straight line from StartFactor times the base to the base, and then hands over to
// another schedule, torch's SequentialLR of LinearLR and another. (Torch's ChainedScheduler would run both at once and
// multiply their factors; nothing here does.)
type Warmup struct {
	schedule
	cfg  WarmupConfig
	then Schedule
}

// WarmupConfig of a Warmup.
type WarmupConfig struct {
	Steps       int     // of the rise. Required
	StartFactor float64 // of the first step, in (0, 1]; torch's default is 1/3
}

// NewWarmup makes a schedule that rises to opt's learning rates as they are now, and lowers them to the start at once.
// then, which must be a schedule of the same optimizer and must not have begun, follows; nil: the rates stay.
func NewWarmup(opt Scheduled, cfg WarmupConfig, then Schedule) (*Warmup, error) {
	c := &Warmup{cfg: cfg, then: then}
	err := c.open("Warmup", opt, c.after,
		failIf(cfg.Steps <= 0, fmt.Sprintf("Steps is %d: want 1 or more", cfg.Steps)),
		failIf(!(cfg.StartFactor > 0 && cfg.StartFactor <= 1), fmt.Sprintf("StartFactor is %v: want more than 0 and at most 1", cfg.StartFactor)),
		failIf(then != nil && then.State().Step != 0, "the schedule that follows has begun: make it anew"))
	if err != nil {
		return nil, err
	}
	for g := range c.base {
		c.next[g] = c.after(g, 0)
	}
	if err := c.set(c.next); err != nil {
		return nil, fmt.Errorf("optim: NewWarmup: %w", err)
	}
	return c, nil
}

func (c *Warmup) after(g, t int) float64 {
	if t > c.cfg.Steps {
		return c.opt.LR(g)
	}
	if t == c.cfg.Steps {
		return c.base[g]
	}
	return c.base[g] * (c.cfg.StartFactor + (1-c.cfg.StartFactor)*float64(t)/float64(c.cfg.Steps))
}

// Step rises, or steps the schedule that follows.
func (c *Warmup) Step() error {
	if c.then == nil || c.t < c.cfg.Steps {
		return c.schedule.Step()
	}
	if err := c.then.Step(); err != nil {
		return err
	}
	autograd.Journal(c.opt.Session(), &c.t)
	c.t++
	return nil
}

// State is where the rise and the schedule that follows stand.
func (c *Warmup) State() ScheduleState {
	st := c.schedule.State()
	if c.then != nil {
		then := c.then.State()
		st.Then = &then
	}
	return st
}

// Load goes on from st, see Schedule.
func (c *Warmup) Load(st ScheduleState) error {
	if (st.Then == nil) != (c.then == nil) {
		return fmt.Errorf("optim: Warmup.Load: the state and the schedule disagree on whether another schedule follows")
	}
	if c.then != nil {
		if err := c.then.Load(*st.Then); err != nil {
			return err
		}
	}
	return c.schedule.Load(st)
}
