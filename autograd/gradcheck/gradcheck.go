// Package gradcheck compares the gradients of an op, or of any function of values, with central differences in float64.
package gradcheck

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Config of a check. The zero value suits functions of order one.
type Config struct {
	Step     float64 // of the central difference; 0: 1e-6
	Relative float64 // tolerance relative to the larger of the two gradients; 0: 1e-5
	Absolute float64 // tolerance added to it; 0: 1e-7
	Fixed    []int   // inputs that are not differentiated (integers never are)
}

func (c Config) withDefaults() Config {
	set := func(x *float64, v float64) {
		if *x == 0 {
			*x = v
		}
	}
	set(&c.Step, 1e-6)
	set(&c.Relative, 1e-5)
	set(&c.Absolute, 1e-7)
	return c
}

// Func is what is checked. It gets one value for each input and returns the outputs that count; random ops in it draw
// the same numbers each time.
type Func func(s *autograd.Scope, in []*autograd.Value) []*autograd.Value

// Check evaluates the gradient of sum(w*f(in)), with fixed weights w of order one, with respect to every element of
// every Float64 input, by Backward and by (f(x+h)-f(x-h))/2h. The error names input, element and both numbers. Inputs
// are written to and restored; they must be contiguous. The session must not be dry.
func Check(ss *autograd.Session, f Func, in []*tensor.Tensor, cfg Config) error {
	if ss.Dry() {
		return errors.New("gradcheck: the device is virtual: want one with bytes")
	}
	c := &checker{ss: ss, f: f, in: in, cfg: cfg.withDefaults(), rand: ss.Rand()}
	defer c.release()
	defer ss.SetRand(c.rand)
	got, err := c.backward()
	if err != nil {
		return err
	}
	for i, g := range got {
		if g == nil {
			continue
		}
		if err := c.compare(i, g); err != nil {
			return err
		}
	}
	return nil
}

type checker struct {
	ss      *autograd.Session
	f       Func
	in      []*tensor.Tensor
	cfg     Config
	rand    tensor.Stream
	weights []*tensor.Tensor // of the outputs, nil for those without gradient
}

func (c *checker) release() {
	for _, w := range c.weights {
		if w != nil {
			w.Release()
		}
	}
}

// differentiated tells whether the gradient of input i is checked.
func (c *checker) differentiated(i int) bool {
	for _, k := range c.cfg.Fixed {
		if k == i {
			return false
		}
	}
	return c.in[i].DType() == tensor.Float64
}

// backward gives the gradient of each input by the engine, nil for those not checked.
func (c *checker) backward() ([][]float64, error) {
	got := make([][]float64, len(c.in))
	c.ss.SetRand(c.rand)
	err := c.ss.Step(context.Background(), func(s *autograd.Scope) error {
		xs := make([]*autograd.Value, len(c.in))
		for i, t := range c.in {
			xs[i] = s.Input(t)
			if c.differentiated(i) {
				xs[i].RequireGrad()
			}
		}
		ys := c.f(s, xs)
		if err := c.weigh(ys); err != nil {
			return err
		}
		for k, y := range ys {
			if c.weights[k] != nil {
				y.Backward(s, autograd.WithGrad(c.weights[k]), autograd.RetainGraph())
			}
		}
		for i, x := range xs {
			if c.differentiated(i) {
				got[i] = c.gradient(x, c.in[i])
			}
		}
		return nil
	})
	return got, err
}

// gradient copies the leaf's gradient; none is zeros.
func (c *checker) gradient(x *autograd.Value, t *tensor.Tensor) []float64 {
	if g := x.Grad(); g != nil {
		return append([]float64(nil), tensor.Data[float64](g)...)
	}
	return make([]float64, t.Elems())
}

// weigh makes the weights of the outputs, once.
func (c *checker) weigh(ys []*autograd.Value) error {
	stream := tensor.Stream{Seed: 0x9e3779b97f4a7c15}
	any := false
	for k, y := range ys {
		c.weights = append(c.weights, nil)
		if !y.RequiresGrad() {
			continue
		}
		if y.DType() != tensor.Float64 {
			return fmt.Errorf("gradcheck: output %d is %s: want float64", k, y.Spec())
		}
		w, err := tensor.New(c.ss.Device(), memory.Other, memory.Site{Op: "gradcheck"}, y.Spec())
		if err != nil {
			return err
		}
		c.weights[k] = w
		any = true
		if err := tensor.FillUniform(w, &stream, 0.5, 1.5); err != nil {
			return err
		}
	}
	if !any {
		return errors.New("gradcheck: no output requires a gradient: want one that depends on a Float64 input")
	}
	return nil
}

// loss is the weighted sum of the outputs at the inputs as they are now.
func (c *checker) loss() (sum float64, err error) {
	c.ss.SetRand(c.rand)
	err = c.ss.Step(context.Background(), func(s *autograd.Scope) error {
		s = s.NoGrad()
		xs := make([]*autograd.Value, len(c.in))
		for i, t := range c.in {
			xs[i] = s.Input(t)
		}
		for k, y := range c.f(s, xs) {
			if c.weights[k] == nil {
				continue
			}
			t, err := y.Tensor().Contiguous(memory.Other, memory.Site{Op: "gradcheck"})
			if err != nil {
				return err
			}
			for i, v := range tensor.Data[float64](t) {
				sum += v * tensor.Data[float64](c.weights[k])[i]
			}
			t.Release()
		}
		return nil
	})
	return sum, err
}

// compare goes through the elements of input i.
func (c *checker) compare(i int, got []float64) error {
	x := tensor.Data[float64](c.in[i])
	for j := range x {
		was := x[j]
		x[j] = was + c.cfg.Step
		up, err := c.loss()
		if err == nil {
			x[j] = was - c.cfg.Step
			var down float64
			if down, err = c.loss(); err == nil {
				err = c.close(i, j, got[j], (up-down)/(2*c.cfg.Step))
			}
		}
		x[j] = was
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) close(i, j int, got, want float64) error {
	tol := c.cfg.Absolute + c.cfg.Relative*math.Max(math.Abs(got), math.Abs(want))
	if math.Abs(got-want) <= tol {
		return nil
	}
	return fmt.Errorf("gradcheck: gradient of input %d %s at element %d: backward gives %.9g, the central difference %.9g (step %g, tolerance %.2g)", i, c.in[i].Spec(), j, got, want, c.cfg.Step, tol)
}
