package autograd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// BackwardOption changes one call of Backward or Grad.
type BackwardOption func(*pass)

// RetainGraph keeps the saved set, so that Backward can run again over the same graph.
func RetainGraph() BackwardOption { return func(p *pass) { p.retain = true } }

// WithGrad starts from g, of the value's spec, instead of from 1. It allows values of any shape.
func WithGrad(g *tensor.Tensor) BackwardOption { return func(p *pass) { p.seed = g } }

// WithScale starts from f instead of from 1: gradients come out multiplied by f, as gradient accumulation wants it. Several
// multiply.
func WithScale(f float64) BackwardOption { return func(p *pass) { p.scale *= f } }

// pass is one run of backward.
type pass struct {
	ss     *Session
	s      *Scope // of hooks
	id     uint64
	retain bool
	seed   *tensor.Tensor
	scale  float64
	loss   float64 // see WithLossScale
	norms  bool    // see WithGradNorms
	order  []*node // newest first
	at     int
	params []*Param

	capture bool // only gradients of wrt are wanted, and parameters' own are not touched
	wrt     []target
}

// target is a gradient that Grad asks for.
type target struct {
	node *node
	out  int
	par  *Param
	t    tensor.Tensor // empty: none has arrived
}

// Backward adds the gradient of v, which must hold one element unless WithGrad is given, to every parameter and leaf it
// depends on. The graph is used up, unless RetainGraph is given.
func (v *Value) Backward(s *Scope, opts ...BackwardOption) {
	p := &pass{scale: 1, loss: 1}
	p.run(s, v, opts)
}

// Grad gives the gradient of v with respect to each of wrt (values or parameters' values) as values of s without
// history; nil for one that v does not depend on. No parameter's own gradient is touched.
func Grad(s *Scope, v *Value, wrt []*Value, opts ...BackwardOption) []*Value {
	p := &pass{scale: 1, loss: 1, capture: true}
	for i, w := range wrt {
		w.use("grad", s.path)
		if !w.RequiresGrad() {
			raisef("grad", s.path, "wrt[%d], %s made by %s, does not require a gradient", i, w.Spec(), w.site)
		}
		p.wrt = append(p.wrt, target{node: w.node, out: int(w.out), par: w.par})
	}
	defer func() {
		for i := range p.wrt {
			if !p.wrt[i].t.Empty() {
				p.wrt[i].t.Release()
			}
		}
	}()
	p.run(s, v, opts)
	out := make([]*Value, len(wrt))
	for i := range p.wrt {
		if t := &p.wrt[i].t; !t.Empty() {
			out[i] = s.value(t, "grad")
			*t = tensor.Tensor{}
		}
	}
	return out
}

func (p *pass) run(s *Scope, v *Value, opts []BackwardOption) {
	ss := s.live("backward")
	p.ss = ss
	for _, o := range opts {
		o(p)
	}
	p.scale *= p.loss
	v.use("backward", s.path)
	c, done := s.child("backward")
	defer done()
	p.s = c.NoGrad()
	outer, before := ss.pass, ss.mark(inBackward)
	ss.pass = p
	defer func() {
		ss.pass = outer
		if ss.passed = outer == nil; !ss.passed {
			ss.mark(before)
		}
	}()
	ss.enter("backward", s.path)
	defer ss.leave()
	defer p.end()
	p.check(v)
	p.collect(v)
	p.start(v)
	for p.at < len(p.order) {
		n := p.order[p.at]
		ss.canceled("backward", n.site.Scope)
		p.visit(n)
		p.at++
	}
	ss.plan.touch(v.t.Buffer())
}

// check refuses roots that have no gradient.
func (p *pass) check(v *Value) {
	var err error
	switch {
	case v.node == nil:
		err = errors.New("the value does not require grad and does not have a graph: it was made under NoGrad, detached, or from inputs only")
	case p.seed == nil && v.t.Elems() != 1:
		err = errors.New("grad can be implicitly created only for scalar values: reduce it first, or give WithGrad")
	case p.seed != nil && (p.seed.Empty() || !p.seed.Spec().Equal(v.Spec())):
		err = fmt.Errorf("WithGrad has %s: want the value's spec", p.seed.Spec())
	case p.seed != nil && p.seed.Buffer().Device() != p.ss.dev:
		err = fmt.Errorf("WithGrad is on device %q: want the session's", p.seed.Buffer().Device().Name())
	}
	if err != nil {
		raise("backward", v.site.Scope, []tensor.Spec{v.Spec()}, err)
	}
}

// collect lists the nodes that the root depends on, newest first, and holds them.
func (p *pass) collect(v *Value) {
	p.ss.passID++
	p.id = p.ss.passID
	v.node.pass = p.id
	stack := []*node{v.node}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		p.hold(n)
		for i := range n.in {
			e := &n.in[i]
			if !e.grad {
				continue
			}
			if e.par != nil {
				p.expect(e.par)
			}
			if e.node != nil && e.node.pass != p.id {
				e.node.pass = p.id
				stack = append(stack, e.node)
			}
		}
	}
	slices.SortFunc(p.order, func(a, b *node) int { return cmp.Compare(b.id, a.id) })
	p.markWanted()
	p.setApart()
}

// setApart finds the reshapes whose gradient cannot be a view of the base's, oldest first: a base comes before.
func (p *pass) setApart() {
	for _, n := range slices.Backward(p.order) {
		if r, ok := n.view.(Reshaper); ok && !n.apart {
			base := p.like(&n.in[0])
			n.apart = !r.Fits(&base)
		}
	}
}

func (p *pass) hold(n *node) {
	if n.spent {
		raise(n.site.Op, n.site.Scope, n.outs, errors.New("trying to backward through the graph a second time: its saved values have been released; give RetainGraph to the first Backward"))
	}
	if n.running {
		raise(n.site.Op, n.site.Scope, n.outs, errors.New("backward within a backward over the same graph"))
	}
	n.refs++
	n.running, n.needed, n.apart = true, false, len(n.hooks) > 0 || n.view != nil && n.passes(0)
	p.order = append(p.order, n)
}

// expect counts the edges through which a parameter's gradient will come.
func (p *pass) expect(par *Param) {
	if par.stale && !p.capture {
		raisef("backward", p.s.path, "the gradient of %s was left half added by a failed step: call ZeroGrad first", par.name)
	}
	p.expectScale(par)
	if par.pending == 0 {
		p.params = append(p.params, par)
	}
	par.pending++
}

// markWanted finds the nodes that lie between the root and what Grad asks for.
func (p *pass) markWanted() {
	if !p.capture {
		return
	}
	for _, t := range p.wrt {
		if t.node != nil && t.node.pass == p.id {
			t.node.needed = true
			t.node.apart = true
		}
	}
	for i := len(p.order) - 1; i >= 0; i-- {
		n := p.order[i]
		for k := range n.in {
			n.needed = n.needed || p.wants(&n.in[k])
		}
	}
}

// wants tells whether the gradient of an input is computed in this pass.
func (p *pass) wants(e *edge) bool {
	switch {
	case !e.grad, e.par != nil && p.s.m.Replay && !p.capture:
		return false
	case !p.capture:
		return true
	case e.par != nil:
		return p.target(nil, 0, e.par) != nil
	}
	return e.node.needed
}

func (p *pass) target(n *node, out int, par *Param) *target {
	for i := range p.wrt {
		if t := &p.wrt[i]; t.node == n && t.out == out && t.par == par {
			return t
		}
	}
	return nil
}

// start puts the gradient of the root in place.
func (p *pass) start(v *Value) {
	n := v.node
	e := edge{node: n, out: int(v.out), grad: true, spec: v.Spec()}
	n.apart = n.apart || n.view != nil
	site := memory.Site{Op: "backward", Scope: v.site.Scope}
	p.ss.begins(site, false)
	dst, add := p.into(&e, site)
	switch {
	case p.seed != nil && p.scale != 1:
		raisef("backward", v.site.Scope, "WithGrad and WithScale are both given: scale the tensor instead")
	case p.seed != nil:
		p.ss.put(&dst, p.seed, add)
	case !add:
		p.ss.fill(&dst, p.scale)
	default: // a leaf that has a gradient already
		one := p.alloc(memory.Temporary, v.Spec(), site)
		defer one.Release()
		p.ss.fill(&one, p.scale)
		p.ss.put(&dst, &one, true)
	}
}

// visit runs one node: hooks and captures, its kernel, its release.
func (p *pass) visit(n *node) {
	p.hooks(n)
	p.take(n)
	p.traceBackward(n)
	if !n.leaf && (!p.capture || n.needed) && p.arrived(n) {
		if n.view != nil && !n.passes(0) {
			p.passViews(n)
		} else {
			p.backward(n)
		}
	}
	if !n.leaf || p.capture {
		n.releaseGrads()
	}
	for i := range n.saved {
		if pk := n.saved[i].pk; pk != nil && (p.retain || pk.refs > 1) { // otherwise Drop follows at once
			pk.read(p)
		}
	}
	if !p.retain {
		n.spent = n.spent || len(n.saved) > 0
		n.drop()
	}
	for i := range n.in {
		if e := &n.in[i]; e.par != nil && e.grad {
			p.received(e.par)
		}
	}
	p.release(n)
}

func (p *pass) arrived(n *node) bool {
	for i := range n.grads {
		if !n.grads[i].Empty() {
			return true
		}
	}
	return false
}

// release ends the pass's hold on n.
func (p *pass) release(n *node) {
	n.running = false
	n.unref()
}

// end lets go of what a failed pass has not visited.
func (p *pass) end() {
	for _, par := range p.params {
		par.pending = 0
	}
	for i := p.at; i < len(p.order); i++ {
		if n := p.order[i]; n.running {
			if !n.leaf {
				n.releaseGrads()
			}
			p.release(n)
		}
	}
	p.order = nil
}

// hooks runs what OnGrad registered on the outputs of n.
func (p *pass) hooks(n *node) {
	for _, h := range n.hooks {
		if n.grads[h.out].Empty() {
			continue
		}
		p.ss.leave()
		p.hook(n, h)
		p.ss.enter("backward", n.site.Scope)
	}
}

func (p *pass) hook(n *node, h hook) {
	s, done := p.s.child("ongrad")
	defer done()
	g := s.value(n.grads[h.out].Retain(), "ongrad")
	r := h.f(s, g)
	if r == nil || r == g {
		return
	}
	r.use("ongrad", n.site.Scope)
	if !r.Spec().Equal(n.outs[h.out]) {
		raise("ongrad", n.site.Scope, []tensor.Spec{r.Spec()}, fmt.Errorf("the hook on %s returned another spec: want %s", n.site, n.outs[h.out]))
	}
	t, err := p.contiguous(r.Tensor(), n.site)
	if err != nil {
		raise("ongrad", n.site.Scope, nil, err)
	}
	n.grads[h.out].Release()
	n.grads[h.out] = t
}

// contiguous gives t with a reference, or a contiguous copy.
func (p *pass) contiguous(t *tensor.Tensor, site memory.Site) (tensor.Tensor, error) {
	if t.IsContiguous() {
		return *t.Retain(), nil
	}
	c, err := tensor.Make(p.ss.dev, memory.Temporary, site, t.Spec())
	if err == nil {
		p.ss.copyTo(&c, t)
	}
	return c, err
}

// take keeps the gradients of n that Grad asks for.
func (p *pass) take(n *node) {
	if !p.capture {
		return
	}
	for i := range n.grads {
		if t := p.target(n, i, nil); t != nil && !n.grads[i].Empty() {
			t.t = *n.grads[i].Retain()
		}
	}
}

// received counts down the edges of a parameter and runs its OnGradReady after the last.
func (p *pass) received(par *Param) {
	par.pending--
	if par.pending > 0 || p.capture || p.s.m.Replay {
		return
	}
	norm := p.norms && !par.grad.Empty()
	if norm {
		p.square(par)
	}
	p.ss.leave()
	err := par.handOver()
	if norm {
		par.squaredAt = par.gradVersion
	}
	p.ss.enter("backward", par.name)
	if err != nil {
		raise("backward", par.name, []tensor.Spec{par.spec}, err)
	}
	if !par.HasGrad() {
		return
	}
	for _, f := range par.ready {
		p.ss.leave()
		err := p.ready(par, f)
		p.ss.enter("backward", par.name)
		if err != nil {
			raise("ongradready", par.name, nil, err)
		}
	}
}

func (p *pass) ready(par *Param, f func(*Scope, *Param) error) error {
	s, done := p.s.child("ongradready")
	defer done()
	return f(s, par)
}

// passViews adds the gradients of a view's outputs that have buffers of their own to the base's.
func (p *pass) passViews(n *node) {
	site := n.gradSite()
	p.ss.begins(site, false)
	for i := range n.grads {
		switch {
		case n.grads[i].Empty():
		case n.reshapes():
			p.giveReshaped(n, &n.grads[i], site)
		default:
			dst, add := p.through(n, i, site)
			p.ss.put(&dst, &n.grads[i], add)
		}
	}
}

// gradSite names the backward of n: "linear'".
func (n *node) gradSite() memory.Site {
	k := pathKey{n.site.Op, "'"}
	name, ok := n.ss.paths[k]
	if !ok {
		name = n.site.Op + "'"
		n.ss.paths[k] = name
	}
	return memory.Site{Op: name, Scope: n.site.Scope}
}
