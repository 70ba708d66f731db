package optim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/tensor"
)

// LoadStateDict copies d into the optimizer: its hyper-parameters win over the constructor's. Groups, their sizes, names
// and specs must fit exactly; nothing is converted. It happens wholly or not at all, between steps, and d stays the
// caller's. Errors name the parameter, by index and name, what d has and what was wanted.
func (c *core) LoadStateDict(d *StateDict) error {
	cfgs, err := c.accepts(d)
	if err != nil {
		return c.fail("LoadStateDict", err)
	}
	states, err := c.restate(cfgs)
	if err != nil {
		return c.fail("LoadStateDict", err)
	}
	c.changes++
	c.groups = cfgs
	for i := range c.slots {
		if err := c.slots[i].load(&d.Params[i], states[i], cfgs[c.slots[i].group].state(c.slots[i].par.Spec())); err != nil {
			return c.fail("LoadStateDict", err) // specs were compared: it cannot happen
		}
	}
	return nil
}

// accepts gives the configs that d asks for, or what is wrong with d.
func (c *core) accepts(d *StateDict) ([]config, error) {
	switch {
	case c.closed:
		return nil, errors.New("the optimizer is closed")
	case c.ss.Running():
		return nil, errors.New("within a Step or Plan: load between steps")
	case d == nil:
		return nil, errors.New("the state is nil")
	case d.Optimizer != c.name:
		return nil, fmt.Errorf("the state is of %q: want one of %q", d.Optimizer, c.name)
	case len(d.Groups) != len(c.groups):
		return nil, fmt.Errorf("the state has %d groups: want %d", len(d.Groups), len(c.groups))
	case len(d.Params) != len(c.slots):
		return nil, fmt.Errorf("the state has %d parameters: want %d", len(d.Params), len(c.slots))
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	cfgs, err := c.acceptGroups(d)
	if err != nil {
		return nil, err
	}
	if err := c.sameOrder(d); err != nil {
		return nil, err
	}
	for i := range c.slots {
		sl := &c.slots[i]
		if err := d.Params[i].fits(cfgs[sl.group].state(sl.par.Spec())); err != nil {
			return nil, fmt.Errorf("parameter %d, %s: %w", i, sl.par.Name(), err)
		}
	}
	return cfgs, nil
}

func (c *core) acceptGroups(d *StateDict) ([]config, error) {
	sizes := make([]int, len(c.groups))
	for i := range c.slots {
		sizes[c.slots[i].group]++
	}
	cfgs := make([]config, len(c.groups))
	for g, gs := range d.Groups {
		if gs.Size != sizes[g] {
			return nil, fmt.Errorf("group %d of the state has %d parameters: want %d", g, gs.Size, sizes[g])
		}
		var err error
		if cfgs[g], err = withHyper(c.groups[g], gs.Hyper); err != nil {
			return nil, fmt.Errorf("group %d of the state: %w", g, err)
		}
	}
	return cfgs, nil
}

// sameOrder refuses a state whose names are the optimizer's in another order: the sizes may fit, the numbers would not.
// Parameters that were renamed, and names that are not unique, prove nothing.
func (c *core) sameOrder(d *StateDict) error {
	at := map[string]int{}
	for i, p := range c.params {
		at[p.Name()] = i
	}
	if len(at) != len(c.params) {
		return nil
	}
	for i := range d.Params {
		name := d.Params[i].Name
		if k, ok := at[name]; ok && k != i {
			return fmt.Errorf("parameter %d is %s, but the state there is of %s, which is parameter %d: give the parameters in the order in which they were saved", i, c.params[i].Name(), name, k)
		}
	}
	return nil
}

// fits compares a parameter's state with what is wanted.
func (p *ParamState) fits(want []moment) error {
	var names []string
	for _, m := range want {
		names = append(names, m.name)
	}
	if p.Step < 0 {
		return fmt.Errorf("Step is %d: want 0 or more", p.Step)
	}
	if err := onlyNamed(p.Tensors, names); err != nil {
		return fmt.Errorf("the state %w", err)
	}
	for _, m := range want {
		switch t := p.Tensors[m.name]; {
		case t == nil && p.Step > 0:
			return fmt.Errorf("%s is missing after %d steps: set Step to 0 to begin it anew", m.name, p.Step)
		case t == nil:
		case t.Empty() || !t.Spec().Equal(m.spec):
			return fmt.Errorf("%s is %s: want %s", m.name, t.Spec(), m.spec)
		}
	}
	return nil
}

// restate gives room for the state of every parameter under cfgs: what is there where it fits, new where the loaded
// hyper-parameters ask for other tensors (momentum where there was none).
func (c *core) restate(cfgs []config) ([][]tensor.Tensor, error) {
	states := make([][]tensor.Tensor, len(c.slots))
	for i := range c.slots {
		sl := &c.slots[i]
		want := cfgs[sl.group].state(sl.par.Spec())
		if slices.EqualFunc(want, c.groups[sl.group].state(sl.par.Spec()), func(a, b moment) bool { return a.name == b.name }) {
			states[i] = sl.state
			continue
		}
		state, err := c.newState(sl.par, want)
		if err != nil {
			c.abandon(states[:i])
			return nil, err
		}
		states[i] = state
	}
	return states, nil
}

// abandon releases what restate made.
func (c *core) abandon(states [][]tensor.Tensor) {
	for i, state := range states {
		if len(state) > 0 && !sameState(state, c.slots[i].state) {
			releaseAll(state)
		}
	}
}

func sameState(a, b []tensor.Tensor) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// load fills state from p and puts it in place.
func (sl *slot) load(p *ParamState, state []tensor.Tensor, want []moment) error {
	for k, m := range want {
		var err error
		if t := p.Tensors[m.name]; t != nil {
			err = tensor.Copy(&state[k], t)
		} else {
			err = tensor.Fill(&state[k], 0)
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", m.name, p.Name, err)
		}
	}
	if !sameState(state, sl.state) {
		releaseAll(sl.state)
	}
	sl.state, sl.steps = state, p.Step
	return nil
}
