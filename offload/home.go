package offload

import (
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// home is where one parameter lives.
type home struct {
	name        string
	value, grad *extent // nil: none
}

// Fetch gives a parameter's value: see autograd.Home. What was fetched after it last time is read ahead.
func (st *Store) Fetch(d *memory.Device, name string, s tensor.Spec) (tensor.Tensor, error) {
	h := st.homes[name]
	if h == nil || h.value == nil {
		return tensor.Tensor{}, fmt.Errorf("offload: no parameter %q lives in the store", name)
	}
	return st.fetch(d, access{h, false}, memory.Param, s)
}

// Grad gives a parameter's gradient: see autograd.Home.
func (st *Store) Grad(d *memory.Device, name string, s tensor.Spec) (tensor.Tensor, error) {
	h := st.homes[name]
	if h == nil || h.grad == nil && !d.Forked() { // a dry run puts none
		return tensor.Tensor{}, fmt.Errorf("offload: parameter %q has no gradient in the store", name)
	}
	return st.fetch(d, access{h, true}, memory.Grad, s)
}

// fetch makes a tensor and fills it.
func (st *Store) fetch(d *memory.Device, a access, k memory.Kind, s tensor.Spec) (tensor.Tensor, error) {
	if err := st.usable(); err != nil {
		return tensor.Tensor{}, err
	}
	if d != st.dev {
		return tensor.Tensor{}, fmt.Errorf("offload: a parameter is asked for on device %q: want %q, on which the store was opened", d.Name(), st.dev.Name())
	}
	t, err := tensor.Make(d, k, memory.Site{Op: "fetch", Scope: a.h.name}, s)
	if err != nil || d.Forked() {
		return t, err
	}
	st.past.add(a)
	e := a.extent()
	if e.n != s.Bytes() {
		err = fmt.Errorf("offload: %s has %d bytes in the store: want %d, of %s", a.h.name, e.n, s.Bytes(), s)
	} else {
		err = st.fillTo(&t, e, 0, st.past.next)
	}
	if err != nil {
		t.Release()
		return tensor.Tensor{}, err
	}
	return t, nil
}

// Put replaces a parameter's value, wholly or not at all: it returns when the new one is in place: see autograd.Home.
func (st *Store) Put(name string, t tensor.Tensor) error {
	if err := st.usable(); err != nil || st.dev.Forked() {
		return err
	}
	h := st.homes[name]
	if h == nil {
		h = &home{name: name}
	}
	if h.value != nil && h.value.buf != nil && h.value.n == t.Bytes() {
		return st.fillFrom(h.value, &t, 0) // memory: nothing can go wrong half way
	}
	e, err := st.newHome(Param, name, &t)
	if err != nil {
		return err
	}
	err = st.fillFrom(e, &t, 0)
	if err == nil {
		err = e.flush()
	}
	if err != nil {
		e.free()
		return err
	}
	if h.value != nil {
		h.value.free()
	}
	h.value, st.homes[name] = e, h
	return nil
}

// PutGrad replaces a parameter's gradient. The bytes are copied out of g before it returns and written behind the backward
// pass; should that fail, Grad says so: see autograd.Home.
func (st *Store) PutGrad(name string, g tensor.Tensor) error {
	if err := st.usable(); err != nil || st.dev.Forked() {
		return err
	}
	h := st.homes[name]
	if h == nil {
		return fmt.Errorf("offload: a gradient of %q, which does not live in the store", name)
	}
	if h.grad != nil && h.grad.n != g.Bytes() {
		st.ForgetGrad(name)
	}
	if h.grad == nil {
		e, err := st.newHome(Grad, name, &g)
		if err != nil {
			return err
		}
		h.grad = e
	}
	_ = h.grad.flush() // what failed before is replaced
	return st.fillFrom(h.grad, &g, 0)
}

// newHome makes room for t.
func (st *Store) newHome(r Role, name string, t *tensor.Tensor) (*extent, error) {
	if !t.IsContiguous() {
		return nil, fmt.Errorf("offload: the %s of %s are strided: want them contiguous", r, name)
	}
	tier, err := st.cfg.place(Item{Role: r, Name: name, Kind: t.Buffer().Kind(), Spec: t.Spec()})
	if err != nil {
		return nil, err
	}
	return st.newExtent(tier, r, t.Bytes(), memory.Site{Op: "home", Scope: name})
}

// Forget ends a parameter's value and gradient: see autograd.Home.
func (st *Store) Forget(name string) {
	st.ForgetGrad(name)
	if h := st.homes[name]; h != nil && !st.dev.Forked() {
		h.value.free()
		delete(st.homes, name)
		st.past = history{}
	}
}

// ForgetGrad ends a parameter's gradient: see autograd.Home.
func (st *Store) ForgetGrad(name string) {
	if h := st.homes[name]; h != nil && h.grad != nil && !st.dev.Forked() {
		h.grad.free()
		h.grad = nil
	}
}

// Certain tells whether a value that is put is sure to arrive: in memory.
func (st *Store) Certain() bool { return st.cfg.Tier == Host && st.cfg.Place == nil }
