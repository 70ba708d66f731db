package autograd

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Refuse has Step and Plan fail with err from now on, until Refuse(nil): for who could not finish changing parameters and
// must not let a training go on with half of them. Called within a step it counts from the next one.
func (ss *Session) Refuse(err error) { ss.refused = err }

// Refused is what Refuse was given.
func (ss *Session) Refused() error { return ss.refused }

// AdoptGrad makes g, of p's spec and on the session's device, p's gradient, in place of the one it has, wherever p lives: to
// go on from a saved one. It takes over the caller's reference if there is no error, and copies nothing; SetGrad copies. No
// step may be running.
func (p *Param) AdoptGrad(g tensor.Tensor) error {
	wrap := func(err error) error { return fmt.Errorf("autograd: AdoptGrad of %s: %w", p.name, err) }
	switch {
	case p.ss.running.Load():
		return wrap(errors.New("a step is running: load gradients between steps"))
	case p.gone:
		return wrap(errors.New("it was released"))
	case g.Empty() || !g.Spec().Equal(p.spec) || g.Buffer().Device() != p.ss.dev || !g.IsContiguous():
		return wrap(fmt.Errorf("got %s: want %s, contiguous on %q", g.Spec(), p.spec, p.ss.dev.Name()))
	}
	p.ZeroGrad()
	if p.home == nil {
		g.Buffer().SetKind(memory.Grad)
		p.grad = g
		return nil
	}
	if err := p.home.PutGrad(p.key, g); err != nil {
		return wrap(err)
	}
	g.Release()
	p.homeGrad = true
	return nil
}
