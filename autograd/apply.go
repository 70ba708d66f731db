package autograd

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// work is the room that one Apply needs; the session keeps them, so that an op allocates next to nothing in Go.
type work struct {
	s       *Scope
	ss      *Session
	site    memory.Site
	rule    *Rule
	node    *node
	sh      Shapes
	sight   sight
	specs   []tensor.Spec
	seen    []tensor.Spec // specs as the kernels see them: specs itself, or wide
	wide    []tensor.Spec
	vals    []*Value
	args    []*tensor.Tensor // inputs as their values have them
	temps   []tensor.Tensor  // contiguous copies, released after Forward
	fetched []*tensor.Tensor // parameters that live in a Home
	outs    []tensor.Tensor  // outputs not yet handed to a value
	filled  []tensor.Tensor  // what Forward fills in their stead, where that is something else
	result  []*Value
	f       Fwd
}

// Apply runs op on in and gives its one visible output, owned by s. It panics with an *Error if something is wrong.
func Apply(s *Scope, op Op, in ...*Value) *Value {
	ss := s.live(op.Rule().Name)
	if s.m.Cast.On() {
		var made []*Value
		in, made = s.castInputs(op, in)
		defer s.endCasts(made)
	}
	w := ss.takeWork(s, op)
	defer w.end()
	w.apply(op, in)
	if len(w.result) != 1 {
		raise(w.site.Op, s.path, w.specs, fmt.Errorf("the op has %d outputs: use ApplyN", len(w.result)))
	}
	return w.result[0]
}

// ApplyN is Apply for any number of outputs, hidden ones not counted.
func ApplyN(s *Scope, op Op, in ...*Value) []*Value {
	ss := s.live(op.Rule().Name)
	if s.m.Cast.On() {
		var made []*Value
		in, made = s.castInputs(op, in)
		defer s.endCasts(made)
	}
	w := ss.takeWork(s, op)
	defer w.end()
	w.apply(op, in)
	return append([]*Value(nil), w.result...)
}

func (ss *Session) takeWork(s *Scope, op Op) *work {
	rule := op.Rule()
	ss.enter(rule.Name, s.path)
	var w *work
	if n := len(ss.works); n > 0 {
		w, ss.works = ss.works[n-1], ss.works[:n-1]
	} else {
		w = &work{ss: ss}
	}
	w.s, w.rule, w.site = s, rule, memory.Site{Op: rule.Name, Scope: s.path}
	ss.begins(w.site, !s.m.NoGrad)
	return w
}

// end releases what has not been handed over, in a panic too, and gives the room back. The handles of the last op stay in
// it until the next one's take their place: to clear them would cost more than the few bytes that they keep from Go's
// collector.
func (w *work) end() {
	w.f.close()
	release(w.temps)
	release(w.outs)
	for _, t := range w.fetched {
		t.Release()
	}
	if w.node != nil {
		w.node.unref()
	}
	w.vals, w.args, w.specs = w.vals[:0], w.args[:0], w.specs[:0]
	w.temps, w.outs, w.fetched, w.result = w.temps[:0], w.outs[:0], w.fetched[:0], w.result[:0]
	w.f.In, w.f.Out = w.f.In[:0], nil
	w.node, w.s = nil, nil
	w.ss.works = append(w.ss.works, w)
	w.ss.leave()
}

func release(ts []tensor.Tensor) {
	for i := range ts {
		if !ts[i].Empty() {
			ts[i].Release()
			ts[i] = tensor.Tensor{}
		}
	}
}

// fail raises err with the inputs' specs, and the names of those that are parameters.
func (w *work) fail(err error) {
	var e *Error
	if errors.As(err, &e) {
		panic(e)
	}
	e = &Error{Op: w.site.Op, Scope: w.site.Scope, In: append([]tensor.Spec(nil), w.specs...), Err: err}
	for i, v := range w.vals {
		if v.par != nil {
			if e.Names == nil {
				e.Names = make([]string, len(w.vals))
			}
			e.Names[i] = v.par.name
		}
	}
	panic(e)
}

func (w *work) failIf(err error) {
	if err != nil {
		w.fail(err)
	}
}

func (w *work) apply(op Op, in []*Value) {
	need := w.inputs(in)
	w.look(op)
	w.sh.reset()
	w.failIf(op.Infer(w.seen, &w.sh))
	w.narrow(op)
	need = need && w.differentiable()
	viewer, _ := op.(Viewer)
	if w.rule.InPlace {
		w.failIf(w.mayWrite(need))
	}
	if w.rule.Random {
		w.f.Rand = w.s.m.Rand.Take(w.sh.Draws)
	}
	if need {
		w.record(op, viewer)
	}
	if viewer != nil {
		w.views(viewer)
	} else {
		w.compute(op, need)
	}
	if need {
		w.failIf(w.saveRefs(false))
	}
	w.hand(viewer, need)
	w.traceForward()
}

// inputs checks the inputs and tells whether the op is recorded.
func (w *work) inputs(in []*Value) (need bool) {
	for i, v := range in {
		if v == nil {
			raise(w.site.Op, w.site.Scope, w.specs, fmt.Errorf("input %d is nil", i))
		}
		v.use(w.rule.Name, w.s.path)
		if v.ss != w.ss {
			raise(w.site.Op, w.site.Scope, w.specs, fmt.Errorf("input %d belongs to another session", i))
		}
		w.vals = append(w.vals, v)
		w.specs = append(w.specs, v.Spec())
		w.args = append(w.args, w.arg(v))
		need = need || v.RequiresGrad()
	}
	return need && !w.s.m.NoGrad
}

// arg is v's tensor; of a parameter in a Home it is fetched, and dropped when the op has ended.
func (w *work) arg(v *Value) *tensor.Tensor {
	switch {
	case v.par == nil:
		return &v.t
	case v.par.home == nil:
		return &v.par.t
	}
	w.ss.leave()
	t, err := v.par.Fetch()
	w.ss.enter(w.site.Op, w.site.Scope)
	w.failIf(err)
	w.fetched = append(w.fetched, &t)
	return &t
}

// differentiable tells whether an output can have a gradient. Of a comparison's or an arg-max's nothing is recorded.
func (w *work) differentiable() bool {
	for _, sp := range w.sh.Out[:len(w.sh.Out)-w.sh.Hidden] {
		if sp.DType.IsFloat() {
			return true
		}
	}
	return false
}

// mayWrite refuses in-place operations that would go wrong now; those that spoil a saved value fail at backward.
func (w *work) mayWrite(need bool) error {
	v, t := w.vals[0], w.args[0]
	if v.par != nil && v.par.home != nil {
		return fmt.Errorf("parameter %s lives in a Home: what is written to the fetched copy would be lost; use Fetch and Store", v.par.name)
	}
	leaf := func(v *Value) bool { return v.par != nil || v.node != nil && v.node.leaf }
	if need {
		switch {
		case leaf(v) && v.RequiresGrad():
			return fmt.Errorf("a leaf that requires grad is being used in an in-place operation: work on the result of an op, or update it under NoGrad")
		case v.ofLeaf():
			return fmt.Errorf("a view of a leaf that requires grad is being used in an in-place operation")
		case v.untrack:
			return fmt.Errorf("a view was created in NoGrad mode and is being modified inplace with gradients recorded: make the view with gradients recorded, or write under NoGrad")
		case v.many:
			return fmt.Errorf("output %d of %s is one of multiple views that it returned: such views must not be modified inplace; use the op that makes a new value", v.out, v.site)
		}
	}
	for i, st := range t.Strides() {
		if st == 0 && t.Shape()[i] > 1 {
			return fmt.Errorf("more than one element of the written-to tensor refers to a single memory location (dim %d is expanded): make it contiguous first", i)
		}
	}
	for i := 1; i < len(w.args); i++ {
		if u := w.args[i]; t.Overlaps(u) && !t.SameView(u) {
			return fmt.Errorf("input %d lies on some of the memory that is written to, in another order: make it contiguous first", i)
		}
	}
	got, want := w.sh.Out[0], w.specs[0]
	switch {
	case got.DType != want.DType:
		return fmt.Errorf("result type %s can't be cast to the desired output type %s", got.DType, want.DType)
	case !got.SameShape(want):
		return fmt.Errorf("output with shape %v doesn't match the broadcast shape %v", want.Shape, got.Shape)
	}
	return nil
}

// record opens the node and saves what backward reads of the inputs (R2, R3).
func (w *work) record(op Op, viewer Viewer) {
	n := w.ss.newNode()
	w.node = n
	n.op, n.rule, n.view, n.site, n.rand, n.sight = op, w.rule, viewer, w.site, w.f.Rand, w.sight
	n.join, _ = op.(Joiner)
	n.work = Work{Scratch: w.sh.BwdScratch, Shared: w.sh.BwdShared, Chunks: w.sh.BwdChunks}
	n.outs = append(n.outs, w.sh.Out...)
	for range n.outs {
		n.grads = append(n.grads, tensor.Tensor{})
	}
	for i, v := range w.vals {
		n.in = append(n.in, edge{node: v.node, out: int(v.out), par: v.par, grad: v.RequiresGrad(), spec: w.specs[i]})
		if v.node != nil {
			v.node.refs++
		}
	}
	w.failIf(w.saveRefs(true))
}

// saveRefs saves the inputs, or the outputs, that the wanted gradients read, each once.
func (w *work) saveRefs(inputs bool) error {
	n := w.node
	for i, v := range w.vals {
		if i >= len(w.rule.Reads) || !v.RequiresGrad() {
			continue
		}
		for _, r := range w.rule.Reads[i] {
			if (r >= 0) != inputs || n.has(r) {
				continue
			}
			n.saved = append(n.saved, slot{ref: r})
			sl := &n.saved[len(n.saved)-1]
			var err error
			if r >= 0 {
				err = w.s.save(sl, w.args[r], w.vals[r].par, w.site)
			} else {
				err = w.s.save(sl, &w.outs[^r], nil, w.site)
				w.early(i, r)
			}
			if err != nil {
				n.saved = n.saved[:len(n.saved)-1]
				return err
			}
			n.explainSaved(w.s, sl)
		}
	}
	return nil
}

func (n *node) has(r Ref) bool {
	for i := range n.saved {
		if n.saved[i].ref == r {
			return true
		}
	}
	return false
}

// ofLeaf tells whether v is a view, or a view of views, of a leaf that requires a gradient.
func (v *Value) ofLeaf() bool {
	for n := v.node; n != nil && n.view != nil; n = n.in[0].node {
		if e := &n.in[0]; e.grad && (e.par != nil || e.node.leaf) {
			return true
		}
	}
	return false
}

// views makes the outputs of a Viewer, of a contiguous copy of the input if its strides do not allow them.
func (w *work) views(op Viewer) {
	x := w.args[0]
	if r, ok := op.(Reshaper); ok && !r.Fits(x) {
		_, err := w.ss.contiguous(x, &w.temps, w.site)
		w.failIf(err)
		x = &w.temps[0]
	}
	for i := range w.sh.Out {
		t := op.View(x, i)
		w.outs = append(w.outs, *t.Retain())
	}
}

// compute allocates outputs, copies and scratch, in this order, and runs the kernel (R1), unless a memo has the outputs.
func (w *work) compute(op Op, need bool) {
	if w.recall() {
		return
	}
	visible := len(w.sh.Out) - w.sh.Hidden
	for i, sp := range w.sh.Out {
		w.outs = append(w.outs, tensor.Tensor{})
		t := &w.outs[i]
		switch {
		case w.rule.InPlace && i == 0:
			w.failIf(w.ownCopy(t))
		case i < visible || need:
			w.failIf(t.Init(w.ss.dev, w.kindOf(i), w.site, sp))
		}
	}
	for i, t := range w.args {
		if w.asIs(t) {
			w.f.In = append(w.f.In, *t)
			continue
		}
		seen, err := w.ss.operand(op, &w.sight, t, w.vals[i].par != nil, i, w.seen, w.sh.Out, &w.temps, w.site)
		w.failIf(err)
		w.f.In = append(w.f.In, seen)
	}
	w.failIf(w.results())
	w.f.specs = w.specs
	if !w.sight.tile {
		w.failIf(w.f.open(w.ss, w.site, Work{w.sh.Scratch, w.sh.Shared, w.sh.Chunks}))
	}
	if w.rule.InPlace {
		w.outs[0].Bump()
		w.ss.plan.wroteOver(w.site.Op, w.outs[0].Bytes())
	}
	switch {
	case w.sight.tile:
		w.failIf(w.tiled(op))
	case !w.ss.Dry():
		op.Forward(&w.f)
	}
	w.f.close()
	w.round()
	release(w.temps)
	w.temps = w.temps[:0]
	w.remember()
}

// hand makes the values of the visible outputs and lets the hidden ones go.
func (w *work) hand(viewer Viewer, need bool) {
	for i := range w.args {
		w.ss.plan.touch(w.args[i].Buffer())
	}
	visible := len(w.outs) - w.sh.Hidden
	for i := range w.outs[:visible] {
		v := w.s.value(&w.outs[i], w.rule.Name)
		w.outs[i] = tensor.Tensor{}
		if need && v.DType().IsFloat() {
			v.node, v.nodeGen, v.out, v.grad = w.node, w.node.gen, int32(i), true
			w.node.refs++
		}
		if viewer != nil {
			v.many = w.rule.MultiView
			v.untrack = !need && w.s.m.NoGrad && w.vals[0].RequiresGrad()
		}
		w.result = append(w.result, v)
	}
}
