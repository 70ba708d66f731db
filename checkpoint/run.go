package checkpoint

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// Func is what a region runs: several values in, several out. It must compute the same each time, and must not write over its
// inputs.
type Func func(s *autograd.Scope, xs []*autograd.Value) []*autograd.Value

// Option changes how a region is kept and recomputed.
type Option func(*config)

type config struct {
	policy  Policy
	saver   autograd.Saver
	check   Check
	noStop  bool
	block   int
	checked error
}

// With lets p decide what the region keeps; without it, it keeps its inputs only.
func With(p Policy) Option { return func(c *config) { c.policy = p } }

// OffloadTo says where tensors go for which the policy answers [Offload].
func OffloadTo(sv autograd.Saver) Option { return func(c *config) { c.saver = sv } }

// WithCheck says how closely the second run is compared with the first; [CheckSample] without it.
func WithCheck(k Check) Option {
	return func(c *config) {
		c.check = k
		if k > CheckValues {
			c.checked = fmt.Errorf("check %d: want CheckSample, CheckMetadata or CheckValues", k)
		}
	}
}

// NoEarlyStop runs the whole region again, and not only up to the last tensor that backward needs: to see that both runs
// save the same number of tensors.
func NoEarlyStop() Option { return func(c *config) { c.noStop = true } }

// atBlock says which of a chain's blocks a region is, for policies.
func atBlock(i int) Option { return func(c *config) { c.block = i } }

// Run calls f on xs and keeps of it what the options say, xs alone if there are none; backward calls f again for the rest.
// The result is f's. Under NoGrad it is a plain call.
func Run(s *autograd.Scope, f Func, xs []*autograd.Value, opts ...Option) []*autograd.Value {
	var c config
	for _, o := range opts {
		o(&c)
	}
	if c.checked != nil {
		fail(s, c.checked)
	}
	if s.Modes().NoGrad { // C9
		return s.DoN("", func(s *autograd.Scope) []*autograd.Value { return f(s, xs) })
	}
	fr := newFrame(s, f, c)
	defer fr.close()
	fr.hold(s, xs)
	return s.DoN("", func(s *autograd.Scope) []*autograd.Value {
		ys := f(fr.scope(s), xs)
		fr.checkInputs(s)
		return ys
	})
}

// Run1 is Run for one value in and one out, as the Forward method of a module.
func Run1(s *autograd.Scope, f nn.Forward, x *autograd.Value, opts ...Option) *autograd.Value {
	ys := Run(s, func(s *autograd.Scope, xs []*autograd.Value) []*autograd.Value {
		return []*autograd.Value{f(s, xs[0])}
	}, []*autograd.Value{x}, opts...)
	return ys[0]
}

// fail ends the step.
func fail(s *autograd.Scope, err error) {
	panic(&autograd.Error{Op: "checkpoint", Scope: s.Path(), Err: err})
}

// hold saves the inputs (C1).
func (fr *frame) hold(s *autograd.Scope, xs []*autograd.Value) {
	for i, x := range xs {
		if x == nil {
			fail(s, fmt.Errorf("input %d is nil", i))
		}
		fr.ins = append(fr.ins, s.Save(x, "checkpoint"))
		in := input{param: x.Param() != nil}
		if !in.param {
			b := x.Tensor().Buffer()
			in.buf, in.version, in.sum = b, b.Version(), fr.check.sum(b.Bytes())
		}
		fr.inputs = append(fr.inputs, in)
	}
}

// input is how an input was when the region began.
type input struct {
	param   bool
	buf     *memory.Buffer // to look at the version while the region runs; not held
	version uint32
	sum     uint64
}

// scope gives the scope that f runs in: what it saves comes to the frame.
func (fr *frame) scope(s *autograd.Scope) *autograd.Scope {
	return s.WithSaver(fr).WithMemo(fr.forwardMemo())
}

// checkInputs is C6: a second run would start from other values.
func (fr *frame) checkInputs(s *autograd.Scope) {
	for i := range fr.inputs {
		in := &fr.inputs[i]
		if fr.needs > 0 && !in.param && in.buf.Version() != in.version {
			panic(&autograd.Error{Op: "checkpoint", Scope: s.Path(), In: []tensor.Spec{fr.ins[i].Spec()},
				Err: fmt.Errorf("the function modified its input %d in place, so that recomputation would start from other values: use the op that makes a new value", i)})
		}
	}
}
