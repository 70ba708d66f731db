package checkpoint

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// memo keeps the outputs of the ops that a policy chose, in the order in which they ran in the first run (selective
// recomputation). A recaller gives them back in a second one.
type memo struct {
	fr      *frame
	entries []entry
	makers  map[*memory.Buffer]maker
	kept    map[*memory.Buffer]bool // storages of entries
}

// entry is an op of the first run, with its outputs if they are kept.
type entry struct {
	rule *autograd.Rule
	at   memory.Site // as seen from the region
	outs []output
}

// output is one of them: held by the saver around the region, or in the hands of the region's.
type output struct {
	held   *autograd.Held
	handle any
	spec   tensor.Spec
}

// maker is who made a storage.
type maker struct {
	rule    *autograd.Rule
	at      memory.Site
	version uint32
}

// reads asks the policy about a storage that a gradient reads.
func (m *memo) reads(t *tensor.Tensor, at memory.Site) Action {
	q := Tensor{Bytes: t.Bytes(), Reader: at, Block: m.fr.block}
	if mk, ok := m.makers[t.Buffer()]; ok && mk.version == t.Version() {
		q.Rule, q.Maker = mk.rule, mk.at
	}
	return m.decide(q)
}

// decide asks the policy. What the first run has offloaded, a region within an outer one's second run need not offload again.
func (m *memo) decide(q Tensor) Action {
	a := m.fr.policy(q)
	if a == Offload && m.fr.inner {
		return Recompute
	}
	return a
}

// Record asks the policy about the outputs of an op.
func (m *memo) Record(rule *autograd.Rule, at memory.Site, outs []tensor.Tensor) error {
	if err := m.fr.watch.Record(rule, at, outs); err != nil {
		return err
	}
	e := entry{rule: rule, at: m.fr.relative(at, m.fr.path)}
	q := Tensor{Rule: rule, Maker: at, Block: m.fr.block}
	whole := true
	for i := range outs {
		if outs[i].Empty() { // nobody wants it: no gradient is recorded
			whole = false
			continue
		}
		q.Bytes += outs[i].Bytes()
		m.makers[outs[i].Buffer()] = maker{rule, at, outs[i].Version()}
	}
	var err error
	if a := m.decide(q); whole && a != Recompute {
		err = m.keep(&e, outs, at, a)
	}
	m.entries = append(m.entries, e)
	return err
}

// keep keeps outs in e.
func (m *memo) keep(e *entry, outs []tensor.Tensor, at memory.Site, a Action) error {
	defer m.fr.watch.keeping(at)()
	for i := range outs {
		o := output{spec: outs[i].Spec()}
		if a == Offload {
			flat := tensor.Over(outs[i].Buffer(), tensor.Of(o.spec.DType, outs[i].Elems()))
			h, err := m.fr.pack(&flat, at)
			if err != nil {
				return err
			}
			if o.handle = h; h != nil {
				m.fr.watch.offloaded(at, &outs[i])
			}
		}
		if o.handle == nil {
			o.held = m.fr.outer.SaveTensor(&outs[i], "checkpoint")
			m.kept[outs[i].Buffer()] = true
		}
		e.outs = append(e.outs, o)
	}
	return nil
}

// Keeps tells whether b is an entry's.
func (m *memo) Keeps(b *memory.Buffer) bool { return m.kept[b] }

// Recall has nothing: in a replay this is the first run of a region within an outer one's second.
func (m *memo) Recall(rule *autograd.Rule, at memory.Site, specs []tensor.Spec) ([]tensor.Tensor, bool, error) {
	return m.fr.watch.Recall(rule, at, specs)
}

// close ends the first run: what was kept after the last place that a second run fills is not wanted, since that stops
// there.
func (m *memo) close() {
	m.makers, m.kept = nil, nil
	n := 0
	for _, p := range m.fr.places {
		if p.action == Recompute && !p.dead {
			n = p.ops
		}
	}
	m.drop(n)
}

// drop lets go of what entries from n on keep.
func (m *memo) drop(n int) {
	for i := n; i < len(m.entries); i++ {
		m.dropEntry(&m.entries[i])
	}
}

func (m *memo) dropEntry(e *entry) {
	for _, o := range e.outs {
		if o.handle != nil {
			m.fr.saver.Drop(o.handle)
		} else {
			o.held.Drop()
		}
	}
	e.outs = nil
}

// forwardMemo is what the first run shows its ops to.
func (fr *frame) forwardMemo() autograd.Memo {
	switch {
	case fr.memo != nil:
		return fr.memo
	case fr.watch != nil:
		return fr.watch
	}
	return nil
}

// replayMemo is what a second run shows them to; last says that no other second run is to come.
func (fr *frame) replayMemo(r *replay, last bool) autograd.Memo {
	switch {
	case fr.memo != nil:
		return &recaller{r: r, last: last, given: map[*memory.Buffer]bool{}}
	case fr.watch != nil:
		return fr.watch
	}
	return nil
}

// recaller gives a second run what the memo kept.
type recaller struct {
	r     *replay
	at    int                     // next entry
	last  bool                    // entries are given away
	given map[*memory.Buffer]bool // storages that it gave
}

// Recall gives what the first run kept of the op that now runs again.
func (c *recaller) Recall(rule *autograd.Rule, at memory.Site, specs []tensor.Spec) ([]tensor.Tensor, bool, error) {
	fr := c.r.fr
	if c.at >= len(fr.memo.entries) {
		return nil, false, fr.errorf("recomputation runs more than the %d ops of the forward pass, here %s: %s", len(fr.memo.entries), fr.relative(at, c.r.path), remedy)
	}
	e := &fr.memo.entries[c.at]
	c.at++
	if is := fr.relative(at, c.r.path); e.rule != rule || e.at != is {
		return nil, false, fr.errorf("recomputation differs from the forward pass at op %d: it was %s, and is %s: %s", c.at-1, e.at, is, remedy)
	}
	if len(e.outs) == 0 {
		return fr.watch.Recall(rule, at, specs)
	}
	outs, err := c.recall(e)
	if c.last && err == nil {
		fr.memo.dropEntry(e)
	}
	return outs, true, err
}

func (c *recaller) recall(e *entry) (outs []tensor.Tensor, err error) {
	fr := c.r.fr
	for _, o := range e.outs {
		var t tensor.Tensor
		if o.handle != nil {
			if t, err = fr.saver.Unpack(fr.sess.Device(), o.handle); err == nil {
				t = tensor.Over(t.Buffer(), o.spec)
			}
		} else if t, err = o.held.Get(); err == nil {
			o.held.Rest()
		}
		if err != nil {
			return outs, err
		}
		c.given[t.Buffer()] = true
		outs = append(outs, t)
	}
	return outs, nil
}

// Record sees an op that ran again.
func (c *recaller) Record(rule *autograd.Rule, at memory.Site, outs []tensor.Tensor) error {
	return c.r.fr.watch.Record(rule, at, outs)
}

// Keeps tells whether b may be kept elsewhere, for another second run or for a gradient.
func (c *recaller) Keeps(b *memory.Buffer) bool { return c.given[b] }
