package autograd

import (
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Modes are what a scope passes on to the code that runs in it: plain values, so that a copy of them is a record of
// them.
type Modes struct {
	NoGrad bool           // no history is recorded
	Eval   bool           // layers act as in evaluation: dropout does nothing
	Saver  Saver          // what becomes of tensors saved for backward; nil keeps them in memory
	Memo   Memo           // keeps outputs of ops for a replay; nil keeps none
	Cast   CastPolicy     // which dtype ops choose for themselves; the zero value: that of their inputs
	Replay bool           // a recomputation, see Scope.Replay
	Rand   *tensor.Stream // where random ops draw
}

// owner is the record behind scopes: the values it releases when it ends. Records are reused; gen tells uses apart (R7).
type owner struct {
	ss      *Session
	parent  *owner
	depth   int
	gen     uint32
	open    bool
	path    string
	values  []*Value
	closers []func()
	replay  Saver // whose ErrStop ends this scope
}

// Scope owns the values made in it and carries the modes. It is a cheap handle: NoGrad, WithSaver and the like give
// another handle on the same owner.
type Scope struct {
	o    *owner
	gen  uint32
	path string
	m    Modes
}

type pathKey struct{ parent, name string }

// join gives parent/name, remembered so that a step makes no strings anew.
func (ss *Session) join(parent, name string) string {
	if parent == "" {
		return name
	}
	if name == "" {
		return parent
	}
	k := pathKey{parent, name}
	p, ok := ss.paths[k]
	if !ok {
		if len(ss.paths) > 1<<14 { // names made up anew each step must not pile up
			clear(ss.paths)
		}
		p = parent + "/" + name
		ss.paths[k] = p
	}
	return p
}

func (ss *Session) open(path string) *owner {
	var o *owner
	if n := len(ss.owners); n > 0 {
		o, ss.owners = ss.owners[n-1], ss.owners[:n-1]
	} else {
		o = &owner{ss: ss}
	}
	o.parent, o.open, o.path, o.depth = ss.cur, true, path, 0
	if ss.cur != nil {
		o.depth = ss.cur.depth + 1
	}
	ss.cur = o
	return o
}

// closeTo ends o and every scope still open inside it, innermost first.
func (ss *Session) closeTo(o *owner) {
	if !o.open {
		return
	}
	for {
		c := ss.cur
		ss.cur = c.parent
		c.end()
		if c == o {
			return
		}
	}
}

func (o *owner) end() {
	o.open = false
	for i := len(o.closers) - 1; i >= 0; i-- {
		o.closers[i]()
	}
	for i := len(o.values) - 1; i >= 0; i-- {
		if v := o.values[i]; v != nil {
			v.end()
		}
	}
	clear(o.closers)
	clear(o.values)
	o.closers, o.values, o.parent, o.replay = o.closers[:0], o.values[:0], nil, nil
	o.gen++
	o.ss.owners = append(o.ss.owners, o)
}

// live panics unless s is open.
func (s *Scope) live(op string) *Session {
	if s.gen != s.o.gen || !s.o.open {
		raisef(op, s.path, "the scope %q has ended: use the scope that the running function was given", s.path)
	}
	return s.o.ss
}

// Session is the session that s belongs to.
func (s *Scope) Session() *Session { return s.o.ss }

// Device is where values of s are allocated.
func (s *Scope) Device() *memory.Device { return s.o.ss.dev }

// Path is the names of the scopes around s, joined by "/"; "" in the step's own.
func (s *Scope) Path() string { return s.path }

// Modes gives a copy of the modes.
func (s *Scope) Modes() Modes { return s.m }

// Training is false under Eval.
func (s *Scope) Training() bool { return !s.m.Eval }

// Dry tells whether kernels are skipped: in a dry run, and on a virtual device.
func (s *Scope) Dry() bool { return s.o.ss.Dry() }

// with gives a handle with other modes.
func (s *Scope) with(change func(*Modes)) *Scope {
	c := *s
	change(&c.m)
	return &c
}

// NoGrad gives a scope that records no history.
func (s *Scope) NoGrad() *Scope { return s.with(func(m *Modes) { m.NoGrad = true }) }

// Eval gives a scope in which layers act as in evaluation. It does not imply NoGrad.
func (s *Scope) Eval() *Scope { return s.with(func(m *Modes) { m.Eval = true }) }

// WithSaver gives a scope whose saved tensors go through sv; nil keeps them in memory. The innermost saver wins. Inside a
// replay only a ReplaySaver is taken; for another the tensors stay in memory.
func (s *Scope) WithSaver(sv Saver) *Scope {
	if _, ok := sv.(ReplaySaver); s.m.Replay && !ok {
		sv = nil
	}
	return s.with(func(m *Modes) { m.Saver = sv })
}

// WithMemo gives a scope whose ops show their outputs to m; nil to nobody.
func (s *Scope) WithMemo(m Memo) *Scope { return s.with(func(c *Modes) { c.Memo = m }) }

// WithAutocast gives a scope in which ops choose their dtypes by p (package amp has the policies); the zero value
// switches that off again. Backward takes the dtypes of forward, whatever the mode of its scope.
func (s *Scope) WithAutocast(p CastPolicy) *Scope {
	if p.Low != tensor.Float32 && !isHalf(p.Low) {
		raisef("autocast", s.path, "autocast to %s: want float16 or bfloat16", p.Low)
	}
	return s.with(func(c *Modes) { c.Cast = p })
}

// Named gives a scope with name added to its path, without an owner of its own.
func (s *Scope) Named(name string) *Scope {
	c := *s
	c.path = s.o.ss.join(s.path, name)
	return &c
}

// OnClose runs f when s ends, however it ends, before its values are released.
func (s *Scope) OnClose(f func()) {
	s.live("onclose")
	s.o.closers = append(s.o.closers, f)
}

// Do runs f in a child scope. Everything made inside is released when f returns, except the value it returns, which
// moves to s.
func (s *Scope) Do(name string, f func(*Scope) *Value) *Value {
	c, done := s.child(name)
	defer done()
	v := f(c)
	if v != nil {
		s.adopt(v)
	}
	return v
}

// DoN is Do for several values.
func (s *Scope) DoN(name string, f func(*Scope) []*Value) []*Value {
	c, done := s.child(name)
	defer done()
	vs := f(c)
	for _, v := range vs {
		s.adopt(v)
	}
	return vs
}

// child opens a scope inside s; done ends it, also in a panic.
func (s *Scope) child(name string) (c *Scope, done func()) {
	ss := s.live(name)
	ss.canceled("do", s.path)
	ss.enter("do", s.path)
	defer ss.leave()
	path := ss.join(s.path, name)
	o := ss.open(path)
	gen := o.gen
	return &Scope{o: o, gen: gen, path: path, m: s.m}, func() {
		if o.gen == gen && ss.cur != nil {
			ss.closeTo(o)
		}
	}
}

// adopt moves a value of an inner scope to s. Values of s, of outer scopes and parameters stay where they are.
func (s *Scope) adopt(v *Value) {
	v.use("return", s.path)
	if v.own == nil || v.own.depth <= s.o.depth {
		return
	}
	v.own.forget(v)
	s.take(v)
}

// take makes s the owner of v.
func (s *Scope) take(v *Value) {
	v.own, v.ownGen, v.at = s.o, s.o.gen, int32(len(s.o.values))
	s.o.values = append(s.o.values, v)
}

// Free ends the scope's hold on values early: their bytes go now, or when the graph no longer needs them. Using one of
// them afterwards is an error; parameters stay.
func (s *Scope) Free(vs ...*Value) {
	ss := s.live("free")
	ss.enter("free", s.path)
	defer ss.leave()
	for _, v := range vs {
		if v == nil || v.par != nil || v.gone() {
			continue
		}
		v.own.forget(v)
		v.end()
	}
}

// forget takes v off the list, whose end must not grow with values that come and go.
func (o *owner) forget(v *Value) {
	o.values[v.at] = nil
	n := len(o.values)
	for n > 0 && o.values[n-1] == nil {
		n--
	}
	o.values = o.values[:n]
}

// Input gives a value over t, without history. The scope takes a reference of its own; the values of t must not change
// while the step runs.
func (s *Scope) Input(t *tensor.Tensor) *Value {
	ss := s.live("input")
	ss.enter("input", s.path)
	defer ss.leave()
	if t == nil || t.Empty() {
		raisef("input", s.path, "the tensor is nil or empty: want one made by package tensor")
	}
	if d := t.Buffer().Device(); d != ss.dev {
		raisef("input", s.path, "%s is on device %q: want one on the session's device %q", t.Spec(), d.Name(), ss.dev.Name())
	}
	return s.value(t.Retain(), "input")
}

// Keep detaches v and returns its tensor, counted as Other, that the caller releases. It copies only what the scope does
// not own whole: parameters, inputs and views.
func (s *Scope) Keep(v *Value) *tensor.Tensor {
	ss := s.live("keep")
	v.use("keep", s.path)
	ss.enter("keep", s.path)
	defer ss.leave()
	ss.plan.touch(v.t.Buffer())
	b := v.t.Buffer()
	own := b.Kind() == memory.Temporary || b.Kind() == memory.Activation
	if own && v.t.IsContiguous() && v.t.Bytes() == b.Size() {
		b.SetKind(memory.Other)
		t := v.t
		return t.Retain()
	}
	t, err := v.t.Contiguous(memory.Other, memory.Site{Op: "keep", Scope: s.path})
	if err != nil {
		raise("keep", s.path, nil, err)
	}
	return t
}

// value makes a value over t, whose reference it takes over.
func (s *Scope) value(t *tensor.Tensor, op string) *Value {
	ss := s.o.ss
	if len(ss.values) == 0 {
		ss.values = make([]Value, 64)
	}
	v := &ss.values[0]
	ss.values = ss.values[1:]
	v.t, v.ss, v.version = *t, ss, t.Version()
	v.site, v.step = memory.Site{Op: op, Scope: s.path}, ss.stepID
	s.take(v)
	ss.plan.touch(t.Buffer())
	return v
}

// String names the scope for debugging.
func (s *Scope) String() string { return fmt.Sprintf("scope %q", s.path) }
