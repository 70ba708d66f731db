package optim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/memory"
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
	rooms, err := c.restate(cfgs)
	if err != nil {
		return c.fail("LoadStateDict", err)
	}
	if err := c.fetchAll(d, rooms, cfgs); err != nil {
		c.abandon(rooms)
		return c.fail("LoadStateDict", err)
	}
	c.changes++
	c.groups, c.broken = cfgs, nil
	if d.Rand.ID != 0 {
		c.rand = d.Rand
	}
	for i := range c.slots {
		if err := c.slots[i].load(&d.Params[i], rooms[i], kept(cfgs[c.slots[i].group], c.slots[i].par.Spec())); err != nil {
			c.broken = fmt.Errorf("the state is half loaded: load it again: %w", err)
			return c.fail("LoadStateDict", c.broken)
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
		if err := d.Params[i].fits(kept(cfgs[sl.group], sl.par.Spec())); err != nil {
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
	if err := first(onlyNamed(p.Tensors, names), onlyNamed(p.Stored, names)); err != nil {
		return fmt.Errorf("the state %w", err)
	}
	for _, m := range want {
		spec, ok := p.spec(m.name)
		switch t := p.Tensors[m.name]; {
		case t == nil && !ok && p.Step > 0:
			return fmt.Errorf("%s is missing after %d steps: set Step to 0 to begin it anew", m.name, p.Step)
		case t == nil && !ok:
		case !ok || !spec.Equal(m.spec):
			return fmt.Errorf("%s is %s: want %s", m.name, spec, m.spec)
		}
	}
	return nil
}

// restate gives room for the state of every parameter under cfgs: what is there where it fits, new where the loaded
// hyper-parameters ask for other tensors (momentum where there was none).
func (c *core) restate(cfgs []config) ([]room, error) {
	rooms := make([]room, len(c.slots))
	for i := range c.slots {
		sl := &c.slots[i]
		want := kept(cfgs[sl.group], sl.par.Spec())
		if slices.EqualFunc(want, kept(c.groups[sl.group], sl.par.Spec()), func(a, b moment) bool { return a.name == b.name }) {
			rooms[i] = sl.room
			continue
		}
		r, err := c.newRoom(sl.par, cfgs[sl.group])
		if err != nil {
			c.abandon(rooms[:i])
			return nil, err
		}
		rooms[i] = r
	}
	return rooms, nil
}

// abandon releases what restate made.
func (c *core) abandon(rooms []room) {
	for i := range rooms {
		if r := &rooms[i]; len(r.state) > 0 && !r.is(&c.slots[i].room) {
			r.release()
		}
	}
}

// is tells whether r and q are the same tensors.
func (r *room) is(q *room) bool {
	return len(r.state) == len(q.state) && (len(r.state) == 0 || &r.state[0] == &q.state[0])
}

// fetchAll does what can fail: it writes d beside what is stored, and sees that all else that d stores can be read.
func (c *core) fetchAll(d *StateDict, rooms []room, cfgs []config) error {
	for i := range c.slots {
		sl, p, r := &c.slots[i], &d.Params[i], &rooms[i]
		for k, m := range kept(cfgs[sl.group], sl.par.Spec()) {
			if err := r.fetch(p, k, m.name); err != nil {
				return fmt.Errorf("%s of %s: %w", m.name, p.Name, err)
			}
		}
		if err := r.flush(); err != nil {
			return err
		}
	}
	return nil
}

// fetch writes a tensor of p beside the stored one, or fetches it once if it is stored itself.
func (r *room) fetch(p *ParamState, k int, name string) error {
	beside := r.any() && r.stored[k] != nil && r.stored[k].slots[1] != nil && p.Step > 0
	if _, stored := p.Stored[name]; !beside && !stored {
		return nil
	}
	t, err := p.contiguous(name)
	if err != nil {
		return err
	}
	defer t.Release()
	if !beside || t.Buffer().Device().Virtual() {
		return nil
	}
	return r.stored[k].next().Write(t, 0)
}

// contiguous is Fetch, of a copy if need be.
func (p *ParamState) contiguous(name string) (tensor.Tensor, error) {
	t, err := p.Fetch(name)
	if err != nil || t.Empty() || t.IsContiguous() {
		return t, err
	}
	defer t.Release()
	c, err := t.Contiguous(memory.Other, memory.Site{Op: "load", Scope: p.Name})
	if err != nil {
		return tensor.Tensor{}, err
	}
	return *c, nil
}

// load fills r from p, or makes what fetch has written its content, and puts it in place.
func (sl *slot) load(p *ParamState, r room, want []moment) error {
	for k, m := range want {
		if r.any() && r.stored[k] != nil && (r.stored[k].slots[1] != nil || p.Step == 0) {
			continue
		}
		if err := r.fill(p, k, m.name); err != nil {
			return fmt.Errorf("%s of %s: %w", m.name, p.Name, err)
		}
	}
	if p.Step > 0 && !sl.par.Session().Device().Forked() {
		r.flip()
	}
	if !r.is(&sl.room) {
		sl.release()
	}
	sl.room, sl.steps = r, p.Step
	return nil
}

// fill copies a tensor of p to the device, or over the stored one.
func (r *room) fill(p *ParamState, k int, name string) error {
	get, put := p.Fetch, func(t tensor.Tensor) error { return tensor.Copy(&r.state[k], &t) }
	if r.any() && r.stored[k] != nil {
		get, put = p.contiguous, func(t tensor.Tensor) error { return r.stored[k].old().Write(t, 0) }
	}
	t, err := get(name)
	switch {
	case err != nil:
		return err
	case t.Empty():
		return tensor.Fill(&r.state[k], 0)
	}
	defer t.Release()
	return put(t)
}
