package autograd

import (
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// into gives where the gradient of an edge goes, and whether to add to what is there (R5).
func (p *pass) into(e *edge, site memory.Site) (dst tensor.Tensor, add bool) {
	switch {
	case e.par != nil && p.capture:
		dst, add = p.sum(&p.target(nil, 0, e.par).t, memory.Temporary, e.spec, site)
	case e.par != nil:
		dst, add = p.intoParam(e.par, site)
	case e.node.view != nil && !e.node.apart:
		return p.through(e.node, e.out, site)
	default:
		dst, add = p.sum(&e.node.grads[e.out], memory.Temporary, e.spec, site)
	}
	if !add {
		p.explainGrad(&dst, e)
	}
	return dst, add
}

func (p *pass) intoParam(par *Param, site memory.Site) (tensor.Tensor, bool) {
	if !par.grad.Empty() {
		par.TouchGrad()
		return par.grad, true
	}
	if par.homeGrad {
		return p.fetchGrad(par, site), true
	}
	t := p.alloc(memory.Grad, par.Spec(), site)
	par.setGrad(t)
	return t, false
}

// fetchGrad brings the gradient of a parameter from its Home, to go on adding to it.
func (p *pass) fetchGrad(par *Param, site memory.Site) tensor.Tensor {
	p.ss.leave()
	t, err := par.FetchGrad()
	p.ss.enter(site.Op, site.Scope)
	if err != nil {
		raise(site.Op, site.Scope, []tensor.Spec{par.spec}, err)
	}
	par.setGrad(t)
	return t
}

// sum makes *t a running sum that may be written in place: nobody else holds it.
func (p *pass) sum(t *tensor.Tensor, k memory.Kind, spec tensor.Spec, site memory.Site) (tensor.Tensor, bool) {
	if t.Empty() {
		*t = p.alloc(k, spec, site)
		return *t, false
	}
	if t.Buffer().Refs() == 1 && t.IsContiguous() {
		return *t, true
	}
	own := p.alloc(k, spec, site)
	p.ss.copyTo(&own, t)
	t.Release()
	*t = own
	return own, true
}

// through is into for output i of a view: the same view of the base's gradient. What is new there and not in the view
// must be zero.
func (p *pass) through(n *node, i int, site memory.Site) (dst tensor.Tensor, add bool) {
	e := &n.in[0]
	base, add := p.into(e, site)
	if !add && n.outs[i].Elems() < e.spec.Elems() {
		p.ss.fill(&base, 0)
		add = true
	}
	return n.view.View(&base, i), add
}

// like stands in for the gradient of an edge: its shape and strides.
func (p *pass) like(e *edge) tensor.Tensor {
	if e.par != nil || e.node.view == nil || e.node.apart {
		return tensor.Unbacked(e.spec)
	}
	base := p.like(&e.node.in[0])
	return e.node.view.View(&base, e.out)
}

func (p *pass) alloc(k memory.Kind, spec tensor.Spec, site memory.Site) tensor.Tensor {
	t, err := tensor.Make(p.ss.dev, k, site, spec)
	if err != nil {
		raise(site.Op, site.Scope, []tensor.Spec{spec}, err)
	}
	return t
}

// give hands a gradient on as it is: it is shared if it is contiguous and nothing is there yet, added otherwise.
func (p *pass) give(e *edge, g *tensor.Tensor, site memory.Site) {
	if e.par == nil && g.IsContiguous() {
		n := e.node
		switch {
		case n.view == nil || n.apart:
			if n.grads[e.out].Empty() {
				n.grads[e.out] = *g.Retain()
				return
			}
		case n.reshapes():
			p.giveReshaped(n, g, site)
			return
		}
	}
	dst, add := p.into(e, site)
	p.ss.put(&dst, g, add)
}

// giveReshaped hands the gradient of a reshaped value, which is contiguous, on to the value's own.
func (p *pass) giveReshaped(n *node, g *tensor.Tensor, site memory.Site) {
	e := &n.in[0]
	r, err := g.Reshape(e.spec.Shape...)
	if err != nil {
		raise(site.Op, site.Scope, n.outs, err)
	}
	p.give(e, &r, site)
}

func (n *node) reshapes() bool {
	_, ok := n.view.(Reshaper)
	return ok
}

// call is the room of one backward kernel. Deferred code releases what it holds; the session keeps it for the next.
type call struct {
	p      *pass
	b      Bwd
	in     []tensor.Spec
	temps  []tensor.Tensor
	loaded []tensor.Tensor
	from   []*packed // where each of loaded was unpacked from; nil: it was in memory, or a parameter
	finish []finish
	over   []int // inputs whose gradients are written over what died
}

// finish is a gradient that the kernel wrote beside its destination: of a broadcast input, to be summed, or for a
// strided destination.
type finish struct {
	from, to tensor.Tensor
	add      bool
}

// backward runs the kernel of n.
func (p *pass) backward(n *node) {
	c := p.takeCall(n)
	defer c.end()
	site := n.gradSite()
	p.ss.begins(site, false)
	op := p.ss.op
	kernel := c.passOn(site)
	if !kernel {
		return
	}
	c.incoming(site)
	c.read()
	if p.ss.op != op { // a saver computed
		p.ss.begins(site, false)
	}
	c.destinations(site)
	if err := c.compute(site); err != nil {
		raise(site.Op, site.Scope, nil, err)
	}
	for i := range c.finish {
		f := &c.finish[i]
		p.sumInto(&f.to, &f.from, f.add, site)
	}
	for _, i := range c.over {
		p.takeOver(&n.in[i], &c.b.dst[i], site)
	}
}

// compute allocates scratch and runs the kernel.
func (c *call) compute(site memory.Site) error {
	n, ss := c.b.node, c.p.ss
	if n.sight.tile {
		return c.tiled(site)
	}
	if err := c.b.Run.open(ss, site, n.work); err != nil {
		return err
	}
	if !ss.Dry() {
		n.op.Backward(&c.b)
	}
	c.b.Run.close()
	return nil
}

func (p *pass) takeCall(n *node) *call {
	var c *call
	if k := len(p.ss.calls); k > 0 {
		c, p.ss.calls = p.ss.calls[k-1], p.ss.calls[:k-1]
	} else {
		c = &call{}
	}
	c.p, c.b.node, c.b.Rand = p, n, n.rand
	c.b.grads = append(c.b.grads[:0], n.grads...)
	c.b.in, c.b.dst = room(c.b.in, len(n.in)), room(c.b.dst, len(n.in))
	c.b.out, c.b.add = room(c.b.out, len(n.outs)), room(c.b.add, len(n.in))
	for i := range n.in {
		c.in = append(c.in, n.sight.spec(n.in[i].spec))
	}
	return c
}

// room is s with n zero elements.
func room[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+4)
	}
	s = s[:n]
	clear(s)
	return s
}

// end releases what the call holds, in a panic too, and gives the room back.
func (c *call) end() {
	c.b.Run.close()
	release(c.temps)
	release(c.loaded)
	clear(c.finish)
	clear(c.b.in)
	clear(c.b.out)
	clear(c.b.dst)
	clear(c.in)
	clear(c.from)
	c.from = c.from[:0]
	c.in, c.temps, c.loaded, c.finish, c.over = c.in[:0], c.temps[:0], c.loaded[:0], c.finish[:0], c.over[:0]
	ss := c.p.ss
	clear(c.b.grads)
	c.p, c.b.node, c.b.Run = nil, nil, Run{}
	ss.calls = append(ss.calls, c)
}

// passOn hands on the gradients that need no kernel and tells whether others do.
func (c *call) passOn(site memory.Site) (kernel bool) {
	n := c.b.node
	for i := range n.in {
		switch {
		case !c.p.wants(&n.in[i]):
		case !n.passes(i):
			kernel = true
		case !n.grads[0].Empty():
			c.pass(i, site)
		}
	}
	return kernel
}

// pass hands the gradient of input i on.
func (c *call) pass(i int, site memory.Site) {
	n := c.b.node
	e, g := &n.in[i], n.grads[0]
	if n.join != nil {
		g = n.join.Part(&g, c.in, i)
	}
	if e.spec.Equal(g.Spec()) {
		c.p.give(e, &g, site)
		return
	}
	dst, add := c.p.into(e, site)
	c.p.sumInto(&dst, &g, add, site)
}

func (n *node) passes(i int) bool {
	return n.join != nil || i < len(n.rule.Pass) && n.rule.Pass[i]
}

// read loads what the wanted gradients read, as Forward saw it.
func (c *call) read() {
	n := c.b.node
	for k := range n.saved {
		sl := &n.saved[k]
		if !c.wanted(sl.ref) {
			continue
		}
		t, err := c.load(sl)
		if err != nil {
			raise(n.site.Op, n.site.Scope, n.specs(), err)
		}
		c.p.ss.plan.touch(t.Buffer())
		if sl.ref < 0 {
			c.b.out[^sl.ref] = c.seen(t, n.gradSite())
			continue
		}
		c.b.in[sl.ref], err = c.p.ss.operand(n.op, &n.sight, &t, sl.par != nil, int(sl.ref), c.in, n.outs, &c.temps, n.gradSite())
		if err != nil {
			raise(n.site.Op, n.site.Scope, n.specs(), err)
		}
	}
}

// load gives what sl saved and holds it until the call ends. Views of one storage that a saver holds (q, k and v of one
// product) are unpacked once.
func (c *call) load(sl *slot) (tensor.Tensor, error) {
	if sl.pk != nil {
		if i := slices.Index(c.from, sl.pk); i >= 0 {
			return sl.t.On(c.loaded[i].Buffer()), nil
		}
	}
	t, err := sl.load(c.b.node)
	if err == nil {
		c.loaded, c.from = append(c.loaded, t), append(c.from, sl.pk)
	}
	return t, err
}

// wanted tells whether a gradient that the kernel computes reads ref.
func (c *call) wanted(ref Ref) bool {
	n := c.b.node
	for i := range n.in {
		if i >= len(n.rule.Reads) || n.passes(i) || !c.p.wants(&n.in[i]) {
			continue
		}
		for _, r := range n.rule.Reads[i] {
			if r == ref {
				return true
			}
		}
	}
	return false
}

// destinations allocates where the kernel writes.
func (c *call) destinations(site memory.Site) {
	n, p := c.b.node, c.p
	for i := range n.in {
		e := &n.in[i]
		if n.passes(i) || !p.wants(e) {
			continue
		}
		if t := c.dying(i); !t.Empty() {
			c.b.dst[i] = t
			c.over = append(c.over, i)
			continue
		}
		dst, add := p.into(e, site)
		want := n.inSpec(i)
		fits := e.spec.DType == want.DType && takes(n.op, &dst, i, c.in)
		if n.sight.tile { // any dtype and strides, but no two tiles on one place
			fits = !c.crosses(&dst)
		}
		if e.spec.SameShape(want) && fits {
			c.b.dst[i], c.b.add[i] = dst, add
			continue
		}
		t := p.alloc(memory.Temporary, want, site)
		c.temps = append(c.temps, t)
		c.finish = append(c.finish, finish{from: t, to: dst, add: add})
		c.b.dst[i] = t
	}
}

// crosses tells whether dst lies on some of the memory of an earlier destination, in another order.
func (c *call) crosses(dst *tensor.Tensor) bool {
	for i := range c.b.dst {
		if d := &c.b.dst[i]; !d.Empty() && d.Overlaps(dst) && !d.SameView(dst) {
			return true
		}
	}
	return false
}

func (b *Bwd) must(t *tensor.Tensor, what string, i int) *tensor.Tensor {
	if t.Empty() {
		panic(fmt.Sprintf("autograd: the backward kernel of %s reads %s %d, which its Rule.Reads does not name for the gradients wanted", b.node.rule.Name, what, i))
	}
	return t
}

// specs of the inputs, for errors.
func (n *node) specs() []tensor.Spec {
	var s []tensor.Spec
	for i := range n.in {
		s = append(s, n.in[i].spec)
	}
	return s
}
