package optim

import (
	"errors"
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// ClipOption changes one call of ClipGradNorm.
type ClipOption func(*clipper)

// ErrorIfNonfinite has ClipGradNorm return an error, and leave the gradients alone, when their norm is NaN or infinite.
func ErrorIfNonfinite() ClipOption { return func(c *clipper) { c.strict = true } }

// ClipGradNorm scales the gradients of params in place so that their common norm is at most maxNorm (Pascanu et al.,
// 2013), and returns the norm they had before:
//
//	norm  = sqrt(sum over params of |g|^2)            in float64, in one fixed order
//	g     = g min(1, maxNorm/(norm + 1e-6))           always, as torch does
//
// So an infinite norm turns infinite elements into NaN and all others into 0, and a NaN spreads to all; ErrorIfNonfinite
// refuses both. Parameters without gradient count as 0; if none has one the norm is 0. Given all parameters of an
// optimizer, whatever their groups, the norm is the global one.
//
// Call it between the last Backward of an update and Step. It takes 8 bytes of scratch for every 16384 elements; gradients
// in a Home are fetched one at a time, twice. What the last Backward has measured already (autograd.WithGradNorms) is not read
// for its norm again. It refuses stale gradients and a parameter given twice. If the running step
// fails afterwards, gradients that were made in an earlier one are stale. In a dry run it returns 0.
func ClipGradNorm(s *autograd.Scope, params []*autograd.Param, maxNorm float64, opts ...ClipOption) (norm float64, err error) {
	c := clipper{max: maxNorm}
	for _, o := range opts {
		o(&c)
	}
	err = c.gather(s, params)
	if err == nil {
		err = unscaled(params)
	}
	if err != nil {
		return 0, fmt.Errorf("optim: ClipGradNorm: %w", err)
	}
	if len(c.due) == 0 {
		return 0, nil
	}
	if err := c.measure(s); err != nil {
		return c.norm, fmt.Errorf("optim: ClipGradNorm: %w", err)
	}
	k := c.max / (c.norm + 1e-6)
	if k > 1 { // not so for NaN
		k = 1
	}
	scale := func(g *tensor.Tensor, lo, hi int) {
		if k != 1 { // times 1 is the same bits
			multiply(g, lo, hi, k)
		}
	}
	if err := c.change(s, "clipgradnorm", scale); err != nil {
		return c.norm, fmt.Errorf("optim: ClipGradNorm: %w", err)
	}
	return c.norm, nil
}

// clipper is one call of ClipGradNorm.
type clipper struct {
	max    float64
	strict bool
	due    []*autograd.Param // that have a gradient
	here   []*autograd.Param // those of them whose gradient is on the device
	work   pieces            // of the gradients of here
	norms  map[*autograd.Param]float64
	norm   float64
}

// gather checks the arguments and lists the gradients.
func (c *clipper) gather(s *autograd.Scope, params []*autograd.Param) error {
	if !(c.max >= 0) {
		return fmt.Errorf("the bound is %v: want 0 or more", c.max)
	}
	seen := make(map[*autograd.Param]bool, len(params))
	for i, p := range params {
		switch {
		case p == nil:
			return fmt.Errorf("parameter %d is nil", i)
		case seen[p]:
			return fmt.Errorf("parameter %d, %s, is given twice: it would count twice", i, p.Name())
		case p.Session() != s.Session():
			return fmt.Errorf("parameter %d, %s, is of another session than the scope", i, p.Name())
		case p.Stale():
			return stale(p)
		case p.Consumed():
			return fmt.Errorf("parameter %d, %s: its gradient is released inside backward: afterwards there is none to measure or to change", i, p.Name())
		}
		seen[p] = true
		if !p.HasGrad() {
			continue
		}
		c.due = append(c.due, p)
		if p.Grad() != nil {
			c.here = append(c.here, p)
			c.work.add(p.Spec().Elems())
		}
	}
	return nil
}

// unscaled refuses gradients with a loss scale: they would be clipped by the wrong measure.
func unscaled(params []*autograd.Param) error {
	for i, p := range params {
		if k := p.GradScale(); p.HasGrad() && k != 1 {
			return fmt.Errorf("the gradient of parameter %d, %s, is multiplied by a loss scale of %v: want GradScaler.ClipGradNorm, or GradScaler.Unscale before", i, p.Name(), k)
		}
	}
	return nil
}

// measure takes the norms that backward has not taken: of the gradients on the device together, of those in Homes one by one.
func (c *clipper) measure(s *autograd.Scope) error {
	c.norms = make(map[*autograd.Param]float64, len(c.due))
	var here []*autograd.Param
	var grads []tensor.Tensor
	var work pieces
	for _, p := range c.due {
		if sum, known := p.GradSquares(); known {
			c.norms[p] = math.Sqrt(sum)
		} else if p.Grad() != nil {
			here, grads = append(here, p), append(grads, *p.Grad())
			work.add(p.Spec().Elems())
		}
	}
	c.squares(s, here, grads, &work)
	for _, p := range c.due {
		if _, known := c.norms[p]; known {
			continue
		}
		err := c.visit(p, func(g *tensor.Tensor) error {
			var work pieces
			work.add(g.Elems())
			c.squares(s, []*autograd.Param{p}, []tensor.Tensor{*g}, &work)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, p := range c.due {
		c.norm += c.norms[p] * c.norms[p]
	}
	c.norm = math.Sqrt(c.norm)
	if c.strict && !finite(c.norm) {
		return c.nonfinite()
	}
	return nil
}

// visit fetches the gradient of a parameter that has it in a Home, and does nothing for others.
func (c *clipper) visit(p *autograd.Param, f func(g *tensor.Tensor) error) error {
	if p.Grad() != nil {
		return nil
	}
	g, err := p.FetchGrad()
	if err != nil {
		return err
	}
	defer g.Release()
	return f(&g)
}

// squares takes the norms of some gradients: the square root of sums of squares, one a chunk.
func (c *clipper) squares(s *autograd.Scope, ps []*autograd.Param, grads []tensor.Tensor, work *pieces) {
	if work.chunks == 0 {
		return
	}
	w := autograd.Work{Shared: 8 * int64(work.chunks), Chunks: work.chunks}
	s.Run(memory.Site{Op: "clipgradnorm", Scope: s.Path()}, w, func(r *autograd.Run) {
		sums := kernel.View[float64](r.Shared())
		r.Par(work.chunks, func(_, chunk int) {
			i, lo, hi := work.at(chunk)
			sums[chunk] = operand.SumSquares(&grads[i], lo, hi)
		})
		for i, p := range ps {
			from, to := work.of(i)
			c.norms[p] = math.Sqrt(kernel.SumParts(sums[from:to]))
		}
	})
}

// change applies f to all gradients, chunk by chunk.
func (c *clipper) change(s *autograd.Scope, op string, f func(g *tensor.Tensor, lo, hi int)) error {
	run := func(work *pieces, grad func(i int) *tensor.Tensor) {
		s.Run(memory.Site{Op: op, Scope: s.Path()}, autograd.Work{Chunks: work.chunks}, func(r *autograd.Run) {
			r.Par(work.chunks, func(_, chunk int) {
				i, lo, hi := work.at(chunk)
				f(grad(i), lo, hi)
			})
		})
	}
	for _, p := range c.here {
		p.TouchGrad()
	}
	run(&c.work, func(i int) *tensor.Tensor { return c.here[i].Grad() })
	for _, p := range c.here {
		p.Grad().Bump()
	}
	for _, p := range c.due {
		err := c.visit(p, func(g *tensor.Tensor) error {
			var work pieces
			work.add(g.Elems())
			run(&work, func(int) *tensor.Tensor { return g })
			return p.StoreGrad(g)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// nonfinite says where the norm went wrong.
func (c *clipper) nonfinite() error {
	bad, err := c.bad()
	switch {
	case err != nil:
		return err
	case len(bad) > 0:
		return fmt.Errorf("the norm is %v: element %d of the gradient of %s is the first that is not finite", c.norm, bad[0].Index, bad[0].Param.Name())
	}
	return errors.New("the norm is beyond float64, of gradients that are finite")
}

// ClipGradValue brings each element of the gradients of params into [-limit, limit], in place; NaN stays NaN. It refuses
// what ClipGradNorm refuses. In a dry run it does nothing.
func ClipGradValue(s *autograd.Scope, params []*autograd.Param, limit float64) error {
	c := clipper{max: limit}
	err := c.gather(s, params)
	if err == nil {
		err = unscaled(params)
	}
	if err != nil {
		return fmt.Errorf("optim: ClipGradValue: %w", err)
	}
	if len(c.due) == 0 {
		return nil
	}
	clamp := func(g *tensor.Tensor, lo, hi int) { clipTo(g, lo, hi, limit) }
	if err := c.change(s, "clipgradvalue", clamp); err != nil {
		return fmt.Errorf("optim: ClipGradValue: %w", err)
	}
	return nil
}

// ScaleGrad multiplies the gradients of params by k, in place, as a window does that the data left unfilled. It refuses what
// ClipGradNorm refuses. In a dry run it does nothing.
func ScaleGrad(s *autograd.Scope, params []*autograd.Param, k float64) error {
	c := clipper{}
	if err := c.gather(s, params); err != nil {
		return fmt.Errorf("optim: ScaleGrad: %w", err)
	}
	if len(c.due) == 0 {
		return nil
	}
	scale := func(g *tensor.Tensor, lo, hi int) { multiply(g, lo, hi, k) }
	if err := c.change(s, "scalegrad", scale); err != nil {
		return fmt.Errorf("optim: ScaleGrad: %w", err)
	}
	return nil
}
