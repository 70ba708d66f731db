package autograd

import (
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Gradients written over what died (Rule.Over): the output's gradient, or a saved tensor, whose last holder is the node
// that backward runs just now. Who holds what is the same in a dry run, and so is the choice.

// kindOf is what output k is made as: Temporary, or Grad if it is the gradient of a parameter, computed in Forward.
func (w *work) kindOf(k int) memory.Kind {
	if k < len(w.sh.Out)-w.sh.Hidden {
		return memory.Temporary
	}
	for i, refs := range w.rule.Over {
		if i < len(w.vals) && w.vals[i].par != nil && listed(refs, Out(k)) {
			return memory.Grad
		}
	}
	return memory.Temporary
}

// early counts a hidden output that is the gradient of input i, a value, as such and not as an activation.
func (w *work) early(i int, r Ref) {
	hidden := int(^r) >= len(w.sh.Out)-w.sh.Hidden
	if !hidden || i >= len(w.rule.Over) || !listed(w.rule.Over[i], r) {
		return
	}
	if b := w.outs[^r].Buffer(); b.Kind() == memory.Activation {
		b.SetKind(memory.Temporary)
	}
}

func listed(refs []Ref, r Ref) bool {
	for _, k := range refs {
		if k == r {
			return true
		}
	}
	return false
}

// dying gives what the gradient of input i may be written over, or an empty tensor.
func (c *call) dying(i int) tensor.Tensor {
	n := c.b.node
	if i >= len(n.rule.Over) || c.p.ss.apart || !c.p.vacant(&n.in[i]) {
		return tensor.Tensor{}
	}
	spec := n.inSpec(i)
	if n.sight.tile {
		spec.DType = n.in[i].spec.DType
	}
	for _, r := range n.rule.Over[i] {
		if t := c.last(r); whole(&t, spec) && n.in[i].spec.Equal(t.Spec()) && !c.claimed(&t) {
			return t
		}
	}
	return tensor.Tensor{}
}

// last gives what r names if the node is the last to hold it, or an empty tensor.
func (c *call) last(r Ref) (t tensor.Tensor) {
	n, holds := c.b.node, 1
	switch {
	case r == OutGrad:
		if t = n.grads[0]; c.b.grads[0].Buffer() != t.Buffer() { // the kernel sees a copy of another dtype
			return tensor.Tensor{}
		}
	case c.p.retain:
	case r >= 0:
		t = c.b.in[r]
	default:
		t = c.b.out[^r]
	}
	for k := range n.saved {
		sl := &n.saved[k]
		if r != OutGrad && sl.ref == r {
			if sl.par != nil {
				return tensor.Tensor{}
			}
			if sl.pk == nil && sl.t.Buffer() == t.Buffer() {
				holds = 2 // the entry's and the call's
			}
		}
	}
	if t.Empty() || t.Buffer().Refs() != holds || c.seenTwice(&t) {
		return tensor.Tensor{}
	}
	return t
}

// seenTwice tells whether the kernel sees the memory of t under another name too.
func (c *call) seenTwice(t *tensor.Tensor) bool {
	n := 0
	for _, list := range [][]tensor.Tensor{c.b.in, c.b.out, c.b.grads} {
		for i := range list {
			if list[i].Buffer() == t.Buffer() {
				n++
			}
		}
	}
	return n > 1
}

// whole tells whether t is all of its buffer and of the given spec.
func whole(t *tensor.Tensor, spec tensor.Spec) bool {
	return !t.Empty() && t.IsContiguous() && t.Spec().Equal(spec) && t.Buffer().Size() == spec.Bytes()
}

// claimed tells whether the gradient of another input is written over t.
func (c *call) claimed(t *tensor.Tensor) bool {
	for _, i := range c.over {
		if c.b.dst[i].Buffer() == t.Buffer() {
			return true
		}
	}
	return false
}

// vacant tells whether no gradient has arrived at e, so that one made elsewhere can take its place.
func (p *pass) vacant(e *edge) bool {
	if e.par != nil {
		return !p.capture && e.par.grad.Empty() && !e.par.homeGrad
	}
	n := e.node
	switch {
	case n.view == nil || n.apart:
		return n.grads[e.out].Empty()
	case n.reshapes():
		return p.vacant(&n.in[0])
	}
	return false
}

// takeOver makes t, written over what died, the gradient of an edge that is vacant.
func (p *pass) takeOver(e *edge, t *tensor.Tensor, site memory.Site) {
	p.ss.plan.wroteOver(site.Op, t.Bytes())
	if e.par != nil {
		t.Buffer().SetKind(memory.Grad)
		e.par.setGrad(*t.Retain())
		p.explainGrad(t, e)
		return
	}
	t.Buffer().SetKind(memory.Temporary)
	p.explainGrad(t, e)
	p.give(e, t, site)
}
