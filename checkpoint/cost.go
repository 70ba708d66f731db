package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// Line is a chain of blocks to be measured, each taking what the one before gives.
type Line struct {
	Blocks []nn.Module
	Input  tensor.Spec // of the first block
	// Around gives the scope that the blocks run in, with autocast for instance; nil: the step's own.
	Around func(s *autograd.Scope) *autograd.Scope
}

// LineOf is a Line of a model's blocks, such as the Blocks of an nn.GPT.
func LineOf[M nn.Module](blocks []M, input tensor.Spec) Line {
	ln := Line{Input: input}
	for _, b := range blocks {
		ln.Blocks = append(ln.Blocks, b)
	}
	return ln
}

// Cost is what a block of a chain takes. Bytes are those that live no longer than a step (activations, temporaries,
// scratch, cast copies), and count beside the block's input.
type Cost struct {
	In, Out int64 // bytes of its input and of its result
	All     Menu  // a block that is kept
	Dear    Menu  // a region under DearOnly; its backward pass has the second run in it
	Region  Menu  // a region without a policy, likewise
}

// Menu is one way to run a block.
type Menu struct {
	Keeps    int64 // activations between forward and backward
	Forward  Phase
	Backward Phase
}

// Phase is a forward or backward pass of a block.
type Phase struct {
	Peak        int64 // most bytes at once, gradients of the block's result and input included
	Activations int64 // most bytes of activations at once
	Time        time.Duration
}

// Measure finds the costs of a chain: bytes by dry runs of each block, times by running one block of each sort a few times,
// on random input, in steps that are rolled back; the median counts. Times differ from run to run. For the same schedule in
// each, keep the costs, as JSON for instance, and give them to Solve: it depends on them alone. On a virtual device, where nothing runs, the bytes that a pass allocates
// stand in for its time.
func Measure(sess *autograd.Session, ln Line) ([]Cost, error) {
	var costs []Cost
	in := ln.Input
	for i, b := range ln.Blocks {
		m := meter{sess: sess, block: b, in: in, around: ln.Around}
		c, err := m.bytes()
		if err != nil {
			return nil, fmt.Errorf("checkpoint: Measure: block %d: %w", i, err)
		}
		if k := slices.IndexFunc(costs, func(o Cost) bool { return o.sameBytes(c) }); k >= 0 {
			c = costs[k] // blocks of one sort take one time, whatever else the machine does
		} else if err := m.times(&c); err != nil {
			return nil, fmt.Errorf("checkpoint: Measure: block %d: %w", i, err)
		}
		costs, in = append(costs, c), m.out
	}
	return costs, nil
}

// sameBytes tells whether two costs differ in time only.
func (c Cost) sameBytes(o Cost) bool {
	for _, p := range []*Cost{&c, &o} {
		for _, ph := range p.phases() {
			ph.Time = 0
		}
	}
	return c == o
}

func (c *Cost) phases() []*Phase {
	return []*Phase{&c.All.Forward, &c.All.Backward, &c.Dear.Forward, &c.Dear.Backward, &c.Region.Forward, &c.Region.Backward}
}

// meter runs one block and counts.
type meter struct {
	sess   *autograd.Session
	block  nn.Module
	in     tensor.Spec
	out    tensor.Spec
	around func(s *autograd.Scope) *autograd.Scope

	bufs      map[uint64]memory.Event // alive, of a kind that is counted
	live, act int64
	peak      Phase // since reset; Time counts allocated bytes
}

// counted tells whether bytes of kind k live within a step.
func counted(k memory.Kind) bool {
	return k == memory.Activation || k == memory.Temporary || k == memory.Scratch || k == memory.CastCopy
}

// event is the trace function.
func (m *meter) event(e memory.Event) {
	if old, ok := m.bufs[e.ID]; ok && (e.Act == memory.Free || e.Act == memory.SetKind) {
		delete(m.bufs, e.ID)
		m.add(old, -1)
	}
	if (e.Act == memory.Alloc || e.Act == memory.SetKind) && counted(e.Kind) {
		m.bufs[e.ID] = e
		m.add(e, 1)
	}
	if e.Act == memory.Alloc {
		m.peak.Time += time.Duration(e.Bytes)
	}
	m.mark()
}

func (m *meter) add(e memory.Event, sign int64) {
	m.live += sign * e.Bytes
	if e.Kind == memory.Activation {
		m.act += sign * e.Bytes
	}
}

func (m *meter) mark() {
	m.peak.Peak, m.peak.Activations = max(m.peak.Peak, m.live), max(m.peak.Activations, m.act)
}

// phase ends one, less what the caller holds, and begins the next.
func (m *meter) phase(less int64) Phase {
	p := m.peak
	p.Peak -= less
	m.peak = Phase{}
	m.mark()
	return p
}

// bytes finds the bytes of the block.
func (m *meter) bytes() (c Cost, err error) {
	for menu, f := range m.menus(&c) {
		if *menu, err = m.dry(f); err != nil {
			return c, err
		}
	}
	c.In, c.Out = m.in.Bytes(), m.out.Bytes()
	return c, nil
}

// menus goes through the ways to run the block.
func (m *meter) menus(c *Cost) iter.Seq2[*Menu, nn.Forward] {
	region := func(opts ...Option) nn.Forward {
		return func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			return Run1(s, m.block.Forward, x, opts...)
		}
	}
	return func(yield func(*Menu, nn.Forward) bool) {
		_ = yield(&c.All, m.block.Forward) && yield(&c.Dear, region(With(DearOnly))) && yield(&c.Region, region())
	}
}

// dry runs f once, forward and backward, in a dry run.
func (m *meter) dry(f nn.Forward) (menu Menu, err error) {
	_, err = m.sess.Plan(func(s *autograd.Scope) error {
		s = m.scope(s)
		x, g, err := m.input(s)
		if err != nil {
			return err
		}
		m.bufs, m.live, m.act, m.peak = map[uint64]memory.Event{}, 0, 0, Phase{}
		old := s.Device().SetTrace(m.event)
		defer func() { s.Device().SetTrace(old) }()
		y := f(s, x)
		menu.Forward = m.phase(0)
		menu.Keeps = m.act
		e := m.bufs[y.Tensor().Buffer().ID()]
		less := e.Bytes                  // y is alive here, but not in a chain
		if e.Kind == memory.Activation { // the block reads it in backward; beside that, it is the next one's input
			menu.Keeps -= e.Bytes
			less = 0
		}
		if y.RequiresGrad() {
			m.backward(s, x, y, g)
		}
		menu.Backward = m.phase(less)
		return nil
	}, autograd.PlanConfig{Steps: 1})
	return menu, err
}

// scope is what the blocks run in.
func (m *meter) scope(s *autograd.Scope) *autograd.Scope {
	if m.around == nil {
		return s
	}
	return m.around(s)
}

// input makes an input of random numbers that requires a gradient, and fills in the spec of the result and a gradient for
// it.
func (m *meter) input(s *autograd.Scope) (x *autograd.Value, g *tensor.Tensor, err error) {
	filled := func(sp tensor.Spec) (*tensor.Tensor, error) {
		t, err := tensor.Zeros(s.Device(), memory.Input, memory.Site{Op: "measure"}, sp)
		if err != nil {
			return nil, err
		}
		s.OnClose(t.Release)
		if sp.DType.IsFloat() && !s.Dry() {
			err = tensor.FillNormal(t, &tensor.Stream{Seed: 1}, 0, 1)
		}
		return t, err
	}
	t, err := filled(m.in)
	if err != nil {
		return nil, nil, err
	}
	x = s.Input(t)
	if m.out.Shape == nil {
		s.NoGrad().Do("", func(s *autograd.Scope) *autograd.Value {
			m.out = m.block.Forward(s, x).Spec()
			return nil
		})
	}
	if m.in.DType.IsFloat() {
		x.RequireGrad()
	}
	g, err = filled(m.out)
	return x, g, err
}

// backward runs the block's whole backward pass and touches no parameter's gradient.
func (m *meter) backward(s *autograd.Scope, x, y *autograd.Value, g *tensor.Tensor) {
	if s.Dry() {
		y.Backward(s, autograd.WithGrad(g))
		return
	}
	var wrt []*autograd.Value
	if x.RequiresGrad() {
		wrt = append(wrt, x)
	}
	for _, p := range nn.Params(m.block) {
		wrt = append(wrt, p.Value())
	}
	autograd.Grad(s, y, wrt, autograd.WithGrad(g))
}

// errMeasured ends a step that was run for its time only.
var errMeasured = errors.New("measured")

// repeats is how often a block runs; the median of its times counts.
const repeats = 9

// times fills in the times of c.
func (m *meter) times(c *Cost) error {
	if m.sess.Dry() {
		return nil // the bytes that dry counted
	}
	var times [6][]time.Duration // of each phase
	for range repeats {
		for menu, f := range m.menus(c) {
			if err := m.run(menu, f); err != nil {
				return err
			}
		}
		for i, p := range c.phases() {
			times[i] = append(times[i], p.Time)
		}
	}
	for i, p := range c.phases() {
		slices.Sort(times[i])
		p.Time = times[i][repeats/2]
	}
	return nil
}

// run runs f once, forward and backward, in a step that is rolled back.
func (m *meter) run(menu *Menu, f nn.Forward) error {
	err := m.sess.Step(context.Background(), func(s *autograd.Scope) error {
		s = m.scope(s)
		x, g, err := m.input(s)
		if err != nil {
			return err
		}
		start := time.Now()
		y := f(s, x)
		menu.Forward.Time = max(1, time.Since(start))
		start = time.Now()
		if y.RequiresGrad() {
			m.backward(s, x, y, g)
		}
		menu.Backward.Time = max(1, time.Since(start))
		return errMeasured
	})
	if errors.Is(err, errMeasured) {
		return nil
	}
	return err
}
