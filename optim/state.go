package optim

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// StateDict is what an optimizer must know to go on: hyper-parameters, step counters and state tensors, by the index of
// each parameter in group order, as in torch. State in a StateStore stays there until it is fetched, a tensor at a time.
//
// One that an optimizer gave shares the optimizer's tensors, so that saving takes no memory. It is valid until the
// optimizer's next Step, LoadStateDict or Close; after that Check, LoadStateDict and Clone refuse it. Clone makes a copy
// that lasts. One that was read from a file belongs to whoever filled it in, with its tensors.
type StateDict struct {
	Optimizer string // "SGD", "AdamW"
	Groups    []GroupState
	Params    []ParamState
	// Rand is the stream of RoundStochastic, which goes on by it after loading. With ID 0 it says nothing.
	Rand tensor.Stream

	of    *core  // whose tensors these are; nil: nobody's
	at    uint64 // of.changes then
	owned bool   // made by Clone
}

// GroupState is a group: how many parameters it has, and its hyper-parameters by torch's names, flags as 0 or 1, betas as
// beta1 and beta2.
type GroupState struct {
	Size  int
	Hyper map[string]float64
}

// ParamState is the state of one parameter.
type ParamState struct {
	// Name is the parameter's when the state was taken. States are found by index; the name tells when the order changed.
	Name string
	// Step counts the updates that the tensors have seen. 0: they hold nothing.
	Step int64
	// Tensors by torch's names (exp_avg, momentum_buffer), of the parameter's spec unless the rule says otherwise. They may be missing while Step is 0.
	Tensors map[string]*tensor.Tensor
	// Stored are those that are fetched one by one: of state in a StateStore, or in a file that is read as it is loaded. No
	// name is in both. Fetch and Names cover both.
	Stored map[string]StoredTensor
}

// StoredTensor is a tensor that is somewhere else.
type StoredTensor struct {
	Spec tensor.Spec
	// Fetch gives it contiguous on a device, with one reference for the caller.
	Fetch func() (tensor.Tensor, error)
}

// Names are the names of all tensors in order.
func (p *ParamState) Names() []string {
	names := append(sortedKeys(p.Tensors), sortedKeys(p.Stored)...)
	slices.Sort(names)
	return names
}

// Fetch gives a tensor with one reference for the caller, wherever it is; the empty Tensor if there is none of that name.
func (p *ParamState) Fetch(name string) (tensor.Tensor, error) {
	if t := p.Tensors[name]; t != nil {
		return *t.Retain(), nil
	}
	if st, ok := p.Stored[name]; ok {
		return st.Fetch()
	}
	return tensor.Tensor{}, nil
}

// spec is what Fetch would give; false: nothing.
func (p *ParamState) spec(name string) (tensor.Spec, bool) {
	if t := p.Tensors[name]; t != nil {
		return t.Spec(), !t.Empty()
	}
	st, ok := p.Stored[name]
	return st.Spec, ok
}

// StateDict is the optimizer's state, sharing its tensors: see the type.
func (c *core) StateDict() (*StateDict, error) {
	if c.closed {
		return nil, c.fail("StateDict", errors.New("the optimizer is closed"))
	}
	if c.broken != nil {
		return nil, c.fail("StateDict", c.broken)
	}
	d := &StateDict{Optimizer: c.name, Rand: c.rand, of: c, at: c.changes}
	for _, cfg := range c.groups {
		d.Groups = append(d.Groups, GroupState{Hyper: hyper(cfg)})
	}
	for i := range c.slots {
		sl := &c.slots[i]
		d.Groups[sl.group].Size++
		ps := ParamState{Name: sl.par.Name(), Step: sl.steps, Tensors: map[string]*tensor.Tensor{}, Stored: map[string]StoredTensor{}}
		for k, m := range kept(c.groups[sl.group], sl.par.Spec()) {
			switch {
			case !sl.any() || sl.stored[k] == nil:
				t := sl.state[k]
				ps.Tensors[m.name] = &t
			case sl.steps > 0:
				st := sl.stored[k]
				ps.Stored[m.name] = StoredTensor{m.spec, func() (tensor.Tensor, error) { return c.fetch(d, st) }}
			}
		}
		d.Params = append(d.Params, ps)
	}
	return d, nil
}

// fetch reads a stored tensor onto the device.
func (c *core) fetch(d *StateDict, st *stored) (tensor.Tensor, error) {
	if err := d.Check(); err != nil {
		return tensor.Tensor{}, err
	}
	t, err := tensor.Make(c.ss.Device(), memory.Other, memory.Site{Op: "statedict", Scope: st.name}, st.spec)
	if err != nil {
		return t, err
	}
	if err := st.old().Read(t, 0); err != nil {
		t.Release()
		return tensor.Tensor{}, err
	}
	return t, nil
}

// Check tells whether the tensors of d still are what they were when d was taken.
func (d *StateDict) Check() error {
	switch {
	case d.of == nil:
		return nil
	case d.of.closed:
		return errors.New("optim: StateDict: the optimizer that it was taken from is closed: Clone it before Close")
	case d.of.changes != d.at:
		return errors.New("optim: StateDict: the optimizer that it was taken from, whose tensors it shares, has gone on: take it anew, or Clone it when you take it")
	}
	return nil
}

// Clone is a copy with tensors of its own on their devices, counted as memory.Other, which Release gives back.
func (d *StateDict) Clone() (*StateDict, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	c := &StateDict{Optimizer: d.Optimizer, Rand: d.Rand, owned: true}
	for _, g := range d.Groups {
		c.Groups = append(c.Groups, GroupState{g.Size, maps.Clone(g.Hyper)})
	}
	for i := range d.Params {
		p, err := d.Params[i].clone()
		c.Params = append(c.Params, p)
		if err != nil {
			c.Release()
			return nil, fmt.Errorf("optim: StateDict.Clone: %w", err)
		}
	}
	return c, nil
}

// clone copies p; with an error it gives what it has made.
func (p *ParamState) clone() (ParamState, error) {
	c := ParamState{Name: p.Name, Step: p.Step, Tensors: map[string]*tensor.Tensor{}}
	for _, name := range p.Names() {
		t, err := p.copyOf(name)
		if err != nil {
			return c, fmt.Errorf("%s of %s: %w", name, p.Name, err)
		}
		if t != nil {
			c.Tensors[name] = t
		}
	}
	return c, nil
}

// copyOf is a copy of a tensor; what Fetch reads is one already.
func (p *ParamState) copyOf(name string) (*tensor.Tensor, error) {
	if t := p.Tensors[name]; t != nil {
		return t.Contiguous(memory.Other, memory.Site{Op: "statedict", Scope: p.Name})
	}
	t, err := p.Fetch(name)
	if err != nil || t.Empty() {
		return nil, err
	}
	return &t, nil
}

// Release gives the tensors of a Clone back. It does nothing to a StateDict that shares an optimizer's, or that was
// filled in by hand.
func (d *StateDict) Release() {
	if !d.owned {
		return
	}
	for _, p := range d.Params {
		for name, t := range p.Tensors {
			t.Release()
			delete(p.Tensors, name)
		}
	}
}
