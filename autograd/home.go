package autograd

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Home is where a parameter's value and gradient live while nobody uses them: a file, another rank's memory, fewer bits.
// Both are keyed by the name that the parameter had when it moved in, with a number behind it if another parameter goes by
// that name there. The engine fetches a value before each use,
// forward and backward, and drops it after. In backward it fetches the gradient before the parameter's first share of a
// pass and puts it back after the last: adding up elsewhere would round in another order, and training must stay the same
// to the bit (law N1). In a dry run (Device.Virtual) tensors have no data, and a Home changes nothing that lasts.
type Home interface {
	// Fetch gives the value on d, counted as Param, one reference to the caller.
	Fetch(d *memory.Device, name string, s tensor.Spec) (tensor.Tensor, error)
	// Put replaces the value. It keeps t only by Retain.
	Put(name string, t tensor.Tensor) error
	// PutGrad replaces the gradient. It keeps g only by Retain.
	PutGrad(name string, g tensor.Tensor) error
	// Grad gives the gradient on d, counted as Grad, one reference to the caller. It is asked for only after PutGrad.
	Grad(d *memory.Device, name string, s tensor.Spec) (tensor.Tensor, error)
	// ForgetGrad ends the gradient, if there is one: the next one may be as far away as the next PutGrad.
	ForgetGrad(name string)
	// Forget ends value and gradient: the parameter has moved out, or was released.
	Forget(name string)
}

// SetHome moves p's value to h, or back to the device if h is nil. p must have no gradient, and no step may be running.
func (p *Param) SetHome(h Home) error {
	wrap := func(err error) error { return fmt.Errorf("autograd: SetHome of %s: %w", p.name, err) }
	switch {
	case p.ss.running.Load():
		return wrap(fmt.Errorf("a step is running: move parameters between steps"))
	case p.HasGrad():
		return wrap(fmt.Errorf("it has a gradient: call ZeroGrad first"))
	case p.gone:
		return wrap(fmt.Errorf("it was released"))
	}
	t, err := p.Fetch()
	if err != nil {
		return wrap(err)
	}
	if h == nil {
		p.leave()
		p.t = t
		return nil
	}
	key := p.keyIn(h)
	err = h.Put(key, t)
	t.Release()
	if err != nil {
		return wrap(err)
	}
	p.leave()
	p.home, p.key = h, key
	return nil
}

// keyIn is a name for p in h that no other parameter of the session has there.
func (p *Param) keyIn(h Home) string {
	taken := map[string]bool{}
	for _, q := range p.ss.params {
		if q.home == h {
			taken[q.key] = true
		}
	}
	key := p.name
	for n := 2; taken[key]; n++ {
		key = fmt.Sprintf("%s#%d", p.name, n)
	}
	return key
}

// leave ends p's present place.
func (p *Param) leave() {
	if p.home == nil {
		p.t.Release()
		p.t = tensor.Tensor{}
	} else {
		p.home.Forget(p.key)
	}
	p.home, p.key = nil, ""
	p.puts++
}

// BuildIn runs build, and every parameter that it makes moves to h as soon as it has its initial values, so that the device
// holds one at a time: for a model that is larger than the device. build is what makes the model, such as nn.NewGPT. No step
// may be running.
func (ss *Session) BuildIn(h Home, build func() error) error {
	if ss.running.Load() || ss.closed {
		return errors.New("autograd: BuildIn within a step or on a closed session: build models before the first Step")
	}
	old := ss.birthplace
	ss.birthplace = h
	defer func() { ss.birthplace = old }()
	return build()
}

// Home is where p lives; nil: on the device.
func (p *Param) Home() Home { return p.home }

// HasGrad tells whether p has a gradient, on the device or in its Home.
func (p *Param) HasGrad() bool { return !p.grad.Empty() || p.homeGrad }

// Fetch gives the value on the device with a reference for the caller, wherever p lives.
func (p *Param) Fetch() (tensor.Tensor, error) {
	if p.home == nil {
		return *p.t.Retain(), nil
	}
	return p.fetched(p.home.Fetch(p.ss.dev, p.key, p.spec))
}

// FetchGrad gives the gradient on the device with a reference for the caller; the empty Tensor if there is none.
func (p *Param) FetchGrad() (tensor.Tensor, error) {
	switch {
	case !p.grad.Empty():
		return *p.grad.Retain(), nil
	case !p.homeGrad:
		return tensor.Tensor{}, nil
	}
	return p.fetched(p.home.Grad(p.ss.dev, p.key, p.spec))
}

// fetched checks what a Home gave.
func (p *Param) fetched(t tensor.Tensor, err error) (tensor.Tensor, error) {
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("autograd: %s from its home: %w", p.name, err)
	}
	if t.Empty() || !t.Spec().Equal(p.spec) || t.Buffer().Device() != p.ss.dev {
		if !t.Empty() {
			t.Release()
		}
		return tensor.Tensor{}, fmt.Errorf("autograd: the home of %s gave another spec or device: want %s on %q", p.name, p.spec, p.ss.dev.Name())
	}
	return t, nil
}

// Store says that t, which Fetch gave, holds the new value: it raises the version, and puts t into p's Home.
func (p *Param) Store(t *tensor.Tensor) error {
	if p.home == nil {
		t.Bump()
		return nil
	}
	if err := p.home.Put(p.key, *t); err != nil {
		return fmt.Errorf("autograd: %s into its home: %w", p.name, err)
	}
	if !p.ss.Dry() {
		p.puts++
	}
	return nil
}

// StoreGrad says that g, which FetchGrad gave, has been changed: it raises the version, and puts g into p's Home. If the
// running step fails later, the gradient is stale.
func (p *Param) StoreGrad(g *tensor.Tensor) error {
	p.TouchGrad()
	if p.home == nil {
		g.Bump()
		return nil
	}
	p.putIn = p.ss.stepID
	if err := p.home.PutGrad(p.key, *g); err != nil {
		return fmt.Errorf("autograd: the gradient of %s into its home: %w", p.name, err)
	}
	return nil
}

// version rises with each change of the value.
func (p *Param) version() uint32 {
	if p.home == nil {
		return p.t.Version() + p.puts
	}
	return p.puts
}

// handOver gives the gradient that a pass has made to the Home.
func (p *Param) handOver() error {
	if p.home == nil || p.grad.Empty() {
		return nil
	}
	p.TouchGrad()
	p.putIn = p.ss.stepID
	if err := p.home.PutGrad(p.key, p.grad); err != nil {
		return fmt.Errorf("autograd: the gradient of %s into its home: %w", p.name, err)
	}
	p.grad.Release()
	p.grad, p.homeGrad = tensor.Tensor{}, true
	return nil
}
