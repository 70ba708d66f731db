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

// StoreGrad makes g, of p's spec and on the session's device, p's gradient, in place of the one it has: to go on from a
// saved one. It takes over the caller's reference if there is no error. No step may be running.
func (p *Param) StoreGrad(g tensor.Tensor) error {
	wrap := func(err error) error { return fmt.Errorf("autograd: StoreGrad of %s: %w", p.name, err) }
	switch {
	case p.ss.running.Load():
		return wrap(errors.New("a step is running: store gradients between steps"))
	case p.gone:
		return wrap(errors.New("it was released"))
	case g.Empty() || !g.Spec().Equal(p.spec) || g.Buffer().Device() != p.ss.dev || !g.IsContiguous():
		return wrap(fmt.Errorf("got %s: want %s, contiguous on %q", g.Spec(), p.spec, p.ss.dev.Name()))
	}
	if p.home != nil {
		if err := p.home.PutGrad(p.key, g); err != nil {
			return wrap(err)
		}
	}
	p.ZeroGrad()
	if p.home != nil {
		g.Release()
		p.homeGrad = true
		return nil
	}
	g.Buffer().SetKind(memory.Grad)
	p.grad = g
	return nil
}
