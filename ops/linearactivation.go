package ops

import (
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// A linear layer and what follows it, as one op:
//
//	linear_activation   y = act(x w^T + b)
//	linear_add          y = x w^T + b + r
//	linear_swiglu       y = silu(gate) (x w^T + b)
//
// Each tile of the product goes through the second step while it is in the cache, so the product itself is never a tensor.
//
// Gradients would read it, or (relu, residual) gain nothing. So where any is recorded these are linear and the op after it,
// as they are without this file, with what those save: the fused ops have no Backward.

// Activation is an element-wise function that [LinearActivation] applies.
type Activation uint8

// The activations.
const (
	ActReLU     Activation = iota + 1 // [ReLU]
	ActGELU                           // [GELU]
	ActGELUTanh                       // [GELUTanh]
	ActSiLU                           // [SiLU]
)

// activations are the ops that stand for them, ReLU written over its input.
var activations = map[Activation]struct {
	epilogue kernel.Epilogue
	apply    func(*autograd.Scope, *autograd.Value) *autograd.Value
}{
	ActReLU:     {kernel.EpilogueReLU, ReLUInPlace},
	ActGELU:     {kernel.EpilogueGELU, GELU},
	ActGELUTanh: {kernel.EpilogueGELUTanh, GELUTanh},
	ActSiLU:     {kernel.EpilogueSiLU, SiLU},
}

// LinearActivation gives act(x w^T + b): [Linear] and an activation, with their shapes, dtypes and bits. Where no gradient is
// recorded the result of Linear is not made. Otherwise saved is what the two save: of ReLU a bit an element.
func LinearActivation(s *autograd.Scope, x, w, b *autograd.Value, act Activation) *autograd.Value {
	a, ok := activations[act]
	if !ok {
		panic(&autograd.Error{Op: "linear_activation", Scope: s.Path(), Err: fmt.Errorf("activation %d: want ActReLU, ActGELU, ActGELUTanh or ActSiLU", act)})
	}
	if fusible(s, x, w, b) {
		return linearThen(s, linearActivationRule, a.epilogue, x, w, b)
	}
	h := Linear(s, x, w, b)
	y := a.apply(s, h)
	if act != ActReLU {
		s.Free(h)
	}
	return y
}

// LinearAdd gives x w^T + b + r: [Linear], and [AddInPlace] of r over its result, with their shapes, dtypes and bits; of other
// dtypes than r's, as under autocast, [Add]. Where no gradient is recorded and r has the result's shape it is one pass.
func LinearAdd(s *autograd.Scope, x, w, b, r *autograd.Value) *autograd.Value {
	if fusible(s, x, w, b) && joins(s, x, w, r) {
		return linearThen(s, linearAddRule, kernel.EpilogueAdd, x, w, b, r)
	}
	h := Linear(s, x, w, b)
	if r == nil || h.DType() == r.DType() {
		return AddInPlace(s, h, r)
	}
	y := Add(s, h, r)
	s.Free(h)
	return y
}

// LinearSwiGLU gives silu(gate) (x w^T + b): [Linear] and [SwiGLU], with their shapes, dtypes and bits. Where no gradient is
// recorded the result of Linear is not made.
func LinearSwiGLU(s *autograd.Scope, x, w, b, gate *autograd.Value) *autograd.Value {
	if fusible(s, x, w, b) && joins(s, x, w, gate) {
		return linearThen(s, linearSwiGLURule, kernel.EpilogueSwiGLU, x, w, b, gate)
	}
	h := Linear(s, x, w, b)
	y := SwiGLU(s, gate, h)
	s.Free(h)
	return y
}

// fusible tells whether no gradient of these is recorded. What is missing is for [Linear] to report; products of parameters
// alone, which autocast rounds in copies of its own, are left to it too.
func fusible(s *autograd.Scope, x, w, b *autograd.Value) bool {
	if x == nil || w == nil || x.Param() != nil && s.Modes().Cast.On() {
		return false
	}
	return !recorded(s, x) && !recorded(s, w) && (b == nil || !recorded(s, b))
}

func recorded(s *autograd.Scope, v *autograd.Value) bool {
	return v.RequiresGrad() && !s.Modes().NoGrad
}

// joins tells whether r may be the second operand of an epilogue: it is what the linear layer's result is, and lies so that
// the kernel needs no copy.
func joins(s *autograd.Scope, x, w, r *autograd.Value) bool {
	if r == nil || recorded(s, r) || r.Param() != nil || !r.Tensor().IsContiguous() {
		return false
	}
	dt, err := wantFactors(x.Spec(), w.Spec())
	if cast := s.Modes().Cast; cast.On() && dt != tensor.Float64 {
		dt = cast.Low
	}
	n := len(x.Shape()) - 1
	return err == nil && r.DType() == dt && n >= 0 && len(w.Shape()) == 2 && len(r.Shape()) == n+1 &&
		slices.Equal(r.Shape()[:n], x.Shape()[:n]) && r.Dim(n) == w.Dim(0)
}

// linearThen applies a product with an epilogue. b may be nil.
func linearThen(s *autograd.Scope, rule *autograd.Rule, e kernel.Epilogue, x, w, b *autograd.Value, with ...*autograd.Value) *autograd.Value {
	in := []*autograd.Value{x, w}
	if b != nil {
		in = append(in, b)
	}
	return autograd.Apply(s, linearThenOp{linearOp{bias: b != nil}, rule, e}, append(in, with...)...)
}

// linearThenOp is linear with an epilogue, whose other operand, if there is one, is the last input.
type linearThenOp struct {
	linearOp
	rule     *autograd.Rule
	epilogue kernel.Epilogue
}

var (
	linearActivationRule = &autograd.Rule{Name: "linear_activation", Cast: autograd.CastLow, Dear: true, Halves: true}
	linearAddRule        = &autograd.Rule{Name: "linear_add", Cast: autograd.CastLow, Dear: true, Halves: true}
	linearSwiGLURule     = &autograd.Rule{Name: "linear_swiglu", Cast: autograd.CastLow, Dear: true, Halves: true}
)

func (o linearThenOp) Rule() *autograd.Rule { return o.rule }

// own is how many inputs the linear layer has.
func (o linearThenOp) own() int {
	if o.bias {
		return 3
	}
	return 2
}

func (o linearThenOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	return o.linearOp.Infer(in[:o.own()], sh)
}

func (o linearThenOp) Forward(f *autograd.Fwd) {
	p := o.product(f)
	p.epilogue = o.epilogue
	if i := o.own(); i < len(f.In) {
		p.with = mat{&f.In[i], p.n, false}
	}
	multiply(&f.Run, &p)
}

func (linearThenOp) Backward(*autograd.Bwd) { panic("ops: a fused linear layer is never recorded") }
