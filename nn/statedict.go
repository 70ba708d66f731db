package nn

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Entry is a named tensor of a State.
type Entry struct {
	Name   string
	Tensor *tensor.Tensor `nn:"-"` // a State within a model is not part of that model's. nil: of a parameter in a Home, see Fetch

	p *autograd.Param // in a Home
}

// Spec is that of the tensor.
func (e Entry) Spec() tensor.Spec {
	switch {
	case e.Tensor != nil:
		return e.Tensor.Spec()
	case e.p != nil:
		return e.p.Spec()
	}
	return tensor.Spec{}
}

// away tells whether the tensor has to be fetched.
func (e Entry) away() bool { return e.Tensor == nil && e.p != nil }

// with runs f on the tensor.
func (e Entry) with(f func(*tensor.Tensor) error) error {
	t, err := e.Fetch()
	if err != nil {
		return err
	}
	defer t.Release()
	return f(&t)
}

// Fetch gives the tensor with one reference for the caller, of a parameter in a Home a copy on the device.
func (e Entry) Fetch() (tensor.Tensor, error) {
	switch {
	case e.Tensor != nil:
		return *e.Tensor.Retain(), nil
	case e.p != nil:
		return e.p.Fetch()
	}
	return tensor.Tensor{}, fmt.Errorf("nn: %s has no tensor", e.Name)
}

// State is the values of a model by name, in the order in which walking finds them: torch's state dict.
type State []Entry

// StateDict gives the values of all parameters of m, frozen ones included, and its buffers (see [NamedBuffers]). Tied
// parameters appear once, under the first name, where torch repeats them.
//
// The tensors are the model's own: training goes on changing them, and they end with it. Clone takes a
// snapshot. Those of parameters in a Home stay there until Fetch asks for them, one at a time.
func StateDict(m any) State {
	var sd State
	for _, e := range walk(m).list {
		switch {
		case e.p == nil:
			sd = append(sd, Entry{Name: e.name, Tensor: e.buf})
		case e.p.Home() != nil:
			sd = append(sd, Entry{Name: e.name, p: e.p})
		default:
			sd = append(sd, Entry{Name: e.name, Tensor: e.p.Tensor()})
		}
	}
	return sd
}

// Get gives the tensor of that name, nil if there is none.
func (sd State) Get(name string) *tensor.Tensor {
	for _, e := range sd {
		if e.Name == name {
			return e.Tensor
		}
	}
	return nil
}

// Bytes is what the tensors take.
func (sd State) Bytes() (n int64) {
	for _, e := range sd {
		n += e.Spec().Bytes()
	}
	return n
}

// Clone copies every tensor, on its own device, counted as memory.Other. The caller calls Release.
func (sd State) Clone() (State, error) {
	c := make(State, 0, len(sd))
	for _, e := range sd {
		t, err := e.clone()
		if err != nil {
			c.Release()
			return nil, fmt.Errorf("nn: clone of %s: %w", e.Name, err)
		}
		c = append(c, Entry{Name: e.Name, Tensor: t})
	}
	return c, nil
}

func (e Entry) clone() (*tensor.Tensor, error) {
	t, err := e.Fetch()
	if err != nil {
		return nil, err
	}
	defer t.Release()
	return t.Contiguous(memory.Other, memory.Site{Op: "clone", Scope: e.Name})
}

// Release gives up a reference to every tensor: for what Clone made, never for what StateDict gave.
func (sd State) Release() {
	for _, e := range sd {
		e.Tensor.Release()
	}
}
