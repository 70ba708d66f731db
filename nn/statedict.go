package nn

import (
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Entry is a named tensor of a State.
type Entry struct {
	Name   string
	Tensor *tensor.Tensor `nn:"-"` // a State within a model is not part of that model's
}

// State is the values of a model by name, in the order in which walking finds them: torch's state dict.
type State []Entry

// StateDict gives the values of all parameters of m, frozen ones included, and its buffers (see [NamedBuffers]). Tied
// parameters appear once, under the first name, where torch repeats them.
//
// The tensors are the model's own: training goes on changing them, and they end with it. Clone takes a
// snapshot.
func StateDict(m any) State {
	var sd State
	for _, e := range walk(m).list {
		t := e.buf
		if e.p != nil {
			t = e.p.Tensor()
		}
		sd = append(sd, Entry{e.name, t})
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
		n += e.Tensor.Bytes()
	}
	return n
}

// Clone copies every tensor, on its own device, counted as memory.Other. The caller calls Release.
func (sd State) Clone() (State, error) {
	c := make(State, 0, len(sd))
	for _, e := range sd {
		t, err := e.Tensor.Contiguous(memory.Other, memory.Site{Op: "clone", Scope: e.Name})
		if err != nil {
			c.Release()
			return nil, fmt.Errorf("nn: clone of %s: %w", e.Name, err)
		}
		c = append(c, Entry{e.Name, t})
	}
	return c, nil
}

// Release gives up a reference to every tensor: for what Clone made, never for what StateDict gave.
func (sd State) Release() {
	for _, e := range sd {
		e.Tensor.Release()
	}
}
