package optim

import (
	"errors"
	"fmt"
	"maps"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// StateDict is what an optimizer must know to go on: hyper-parameters, step counters and state tensors, by the index of
// each parameter in group order, as in torch.
//
// One that an optimizer gave shares the optimizer's tensors, so that saving takes no memory. It is valid until the
// optimizer's next Step, LoadStateDict or Close; after that Check, LoadStateDict and Clone refuse it. Clone makes a copy
// that lasts. One that was read from a file belongs to whoever filled it in, with its tensors.
type StateDict struct {
	Optimizer string // "SGD", "AdamW"
	Groups    []GroupState
	Params    []ParamState

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
}

// StateDict is the optimizer's state, sharing its tensors: see the type.
func (c *core) StateDict() (*StateDict, error) {
	if c.closed {
		return nil, c.fail("StateDict", errors.New("the optimizer is closed"))
	}
	d := &StateDict{Optimizer: c.name, of: c, at: c.changes}
	for _, cfg := range c.groups {
		d.Groups = append(d.Groups, GroupState{Hyper: hyper(cfg)})
	}
	for i := range c.slots {
		sl := &c.slots[i]
		d.Groups[sl.group].Size++
		ps := ParamState{Name: sl.par.Name(), Step: sl.steps, Tensors: map[string]*tensor.Tensor{}}
		for k, m := range c.groups[sl.group].state(sl.par.Spec()) {
			t := sl.state[k]
			ps.Tensors[m.name] = &t
		}
		d.Params = append(d.Params, ps)
	}
	return d, nil
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
	c := &StateDict{Optimizer: d.Optimizer, owned: true}
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
	for _, name := range sortedKeys(p.Tensors) {
		if p.Tensors[name] == nil {
			continue
		}
		t, err := p.Tensors[name].Contiguous(memory.Other, memory.Site{Op: "statedict", Scope: p.Name})
		if err != nil {
			return c, fmt.Errorf("%s of %s: %w", name, p.Name, err)
		}
		c.Tensors[name] = t
	}
	return c, nil
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
