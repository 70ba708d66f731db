package autograd

import (
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Value is a handle on a tensor in the graph: the output of an op, an input, or a parameter. The scope that made it (or
// to which Do returned it) owns it; when that scope ends, using it is an error that says where it was made and what to
// do.
type Value struct {
	t       tensor.Tensor
	ss      *Session
	own     *owner // nil: a parameter's
	node    *node
	par     *Param
	site    memory.Site
	step    uint64
	at      int32 // in own.values
	out     int32 // which output of node
	ownGen  uint32
	nodeGen uint32
	version uint32 // of the storage when v was made
	grad    bool   // requires a gradient
	freed   bool
	many    bool // one of several views that an op returned
	untrack bool // a view made under NoGrad of a value that requires a gradient
}

// Spec gives dtype and shape.
func (v *Value) Spec() tensor.Spec { return v.t.Spec() }

// Shape gives the shape; it must not be modified.
func (v *Value) Shape() []int { return v.t.Shape() }

// DType gives the element type.
func (v *Value) DType() tensor.DType { return v.t.DType() }

// Dim gives the size of dimension i; negative counts from the end.
func (v *Value) Dim(i int) int { return v.t.Spec().Dim(i) }

// RequiresGrad tells whether operations on v are recorded.
func (v *Value) RequiresGrad() bool {
	if v.par != nil {
		return !v.par.frozen
	}
	return v.grad
}

// Param is the parameter that v stands for, nil for other values.
func (v *Value) Param() *Param { return v.par }

// gone: the scope has let go of v.
func (v *Value) gone() bool {
	return v.par == nil && (v.freed || v.own.gen != v.ownGen)
}

// use panics unless v may be read now.
func (v *Value) use(op, scope string) {
	switch {
	case v.par != nil:
		v.par.use(op, scope)
	case v.gone():
		if v.step != v.ss.stepID {
			raisef(op, scope, "value %s made by %s was kept from step %d to step %d: a value lives as long as its scope; read it with Item or s.Keep it before the step ends (a running total is a Go number)", v.Spec(), v.site, v.step, v.ss.stepID)
		}
		raisef(op, scope, "value %s made by %s was released by Free or when its scope ended: return it from Do, s.Keep it, or pass it in", v.Spec(), v.site)
	case v.t.Version() != v.version:
		raisef(op, scope, "value %s made by %s was overwritten by an in-place operation: use that operation's result, or the op that makes a new value", v.Spec(), v.site)
	case v.node != nil && v.node.gen != v.nodeGen:
		raisef(op, scope, "value %s made by %s refers to a graph that has ended", v.Spec(), v.site)
	}
}

// end lets go of the storage and of the history.
func (v *Value) end() {
	if v.freed {
		return
	}
	v.freed = true
	v.ss.plan.slack(v)
	v.t.Release()
	if n := v.node; n != nil {
		v.node = nil
		n.unref()
	}
}

// Tensor gives the tensor behind v, valid as long as v. It must not be written to.
func (v *Value) Tensor() *tensor.Tensor {
	v.use("tensor", v.site.Scope)
	if v.par != nil {
		return v.par.Tensor()
	}
	v.ss.plan.touch(v.t.Buffer())
	return &v.t
}

// Item reads a value of one element. In a dry run and on a virtual device it gives 0, and Plan.Reads lists the site.
func (v *Value) Item() float64 {
	v.use("item", v.site.Scope)
	if v.t.Elems() != 1 {
		raise("item", v.site.Scope, []tensor.Spec{v.Spec()}, fmt.Errorf("want a value of one element, got %d", v.t.Elems()))
	}
	v.ss.plan.read(v)
	t := v.Tensor()
	if v.ss.Dry() {
		return 0
	}
	x, err := t.Item()
	if err != nil {
		raise("item", v.site.Scope, nil, err)
	}
	return x
}

// Detach gives a value over the same storage without history.
func (v *Value) Detach(s *Scope) *Value {
	ss := s.live("detach")
	v.use("detach", s.path)
	ss.enter("detach", s.path)
	defer ss.leave()
	t := v.Tensor()
	d := s.value(t.Retain(), "detach")
	d.version = t.Version()
	return d
}

// RequireGrad makes v, which must have no history, a leaf: Backward accumulates its gradient, which Grad reads. It
// returns v.
func (v *Value) RequireGrad() *Value {
	v.use("requiregrad", v.site.Scope)
	switch {
	case v.par != nil:
		raisef("requiregrad", v.site.Scope, "%s is a parameter: use SetFrozen", v.par.name)
	case !v.DType().IsFloat():
		raisef("requiregrad", v.site.Scope, "only floating point values can require gradients, got %s", v.Spec())
	case v.node != nil:
		if v.node.leaf {
			return v
		}
		raisef("requiregrad", v.site.Scope, "%s made by %s has a history and requires a gradient already", v.Spec(), v.site)
	}
	n := v.ss.newNode()
	n.leaf, n.site = true, v.site
	n.outs = append(n.outs, v.Spec())
	n.grads = append(n.grads, tensor.Tensor{})
	v.node, v.nodeGen, v.grad = n, n.gen, true
	return v
}

// Grad is the accumulated gradient of a leaf made by RequireGrad, valid as long as v; nil if none has arrived.
func (v *Value) Grad() *tensor.Tensor {
	v.use("grad", v.site.Scope)
	if v.par != nil {
		return v.par.Grad()
	}
	if v.node == nil || !v.node.leaf {
		raisef("grad", v.site.Scope, "%s made by %s is not a leaf: use autograd.Grad or OnGrad", v.Spec(), v.site)
	}
	return present(&v.node.grads[0])
}

// OnGrad runs f in backward when the gradient of v is complete (for a leaf: with what earlier passes left there). g lives
// as long as the call; what f returns, of the same spec, replaces it, nil leaves it. f runs without recording.
func (v *Value) OnGrad(f func(s *Scope, g *Value) *Value) {
	v.use("ongrad", v.site.Scope)
	if v.par != nil {
		raisef("ongrad", v.site.Scope, "%s is a parameter: use its OnGradReady", v.par.name)
	}
	if v.node == nil {
		raisef("ongrad", v.site.Scope, "%s made by %s does not require a gradient", v.Spec(), v.site)
	}
	v.node.hooks = append(v.node.hooks, hook{out: int(v.out), f: f})
}

// present is &t, or nil if t is the zero Tensor.
func present(t *tensor.Tensor) *tensor.Tensor {
	if t.Empty() {
		return nil
	}
	return t
}
