package checkpoint

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// memo keeps the outputs of the ops that a policy chose, in the order in which they ran, and gives them back in the second
// run (selective recomputation).
type memo struct {
	fr      *frame
	entries []entry
	at      int                      // in the second run
	makers  map[*memory.Buffer]maker // while the first run lasts
	kept    map[*memory.Buffer]int   // storages of entries that are in memory
}

// entry is an op of the first run, with its outputs if they are kept.
type entry struct {
	rule *autograd.Rule
	at   memory.Site // as seen from the region
	outs []output
}

// output is one of them: in memory, or in the saver's hands.
type output struct {
	t       tensor.Tensor
	spec    tensor.Spec
	version uint32
	handle  any
}

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
	return m.fr.policy(q)
}

// Record asks the policy about the outputs of an op.
func (m *memo) Record(rule *autograd.Rule, at memory.Site, outs []tensor.Tensor) error {
	m.fr.watch.ran(m.fr, rule, at, outs)
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
	if a := m.fr.policy(q); whole && a != Recompute {
		err = m.keep(&e, outs, at, a)
	}
	m.entries = append(m.entries, e)
	return err
}

// keep keeps outs in e.
func (m *memo) keep(e *entry, outs []tensor.Tensor, at memory.Site, a Action) error {
	for i := range outs {
		o := output{spec: outs[i].Spec(), version: outs[i].Version()}
		if a == Offload {
			flat := tensor.Over(outs[i].Buffer(), tensor.Of(o.spec.DType, outs[i].Elems()))
			h, err := m.fr.offload(&flat, at)
			if err != nil {
				return err
			}
			o.handle = h
		}
		if o.handle == nil {
			asActivation(outs[i].Buffer())
			o.t = *outs[i].Retain()
			m.kept[outs[i].Buffer()]++
		}
		e.outs = append(e.outs, o)
	}
	return nil
}

// Keeps tells whether b is an entry's.
func (m *memo) Keeps(b *memory.Buffer) bool { return m.kept[b] > 0 }

// Recall gives what the first run kept of the op that now runs again.
func (m *memo) Recall(rule *autograd.Rule, at memory.Site, _ []tensor.Spec) ([]tensor.Tensor, bool, error) {
	m.fr.watch.reruns(m.fr, rule, at)
	fr := m.fr
	at.Scope = at.Scope[min(len(at.Scope), len(fr.path)+len("/recompute")):]
	if m.at >= len(m.entries) {
		return nil, false, fr.errorf("recomputation runs more than the %d ops of the forward pass: %s", len(m.entries), remedy)
	}
	e := &m.entries[m.at]
	m.at++
	if e.rule != rule {
		return nil, false, fr.errorf("recomputation differs from the forward pass at op %d: it was %s, and is %s: %s", m.at-1, e.at, rule.Name, remedy)
	}
	outs, err := m.recall(e)
	return outs, len(outs) > 0, err
}

func (m *memo) recall(e *entry) (outs []tensor.Tensor, err error) {
	for i := range e.outs {
		o := &e.outs[i]
		switch {
		case o.handle != nil:
			t, err := m.fr.saver.Unpack(m.fr.sess.Device(), o.handle)
			if err != nil {
				return outs, err
			}
			outs = append(outs, tensor.Over(t.Buffer(), o.spec))
		case o.t.Version() != o.version:
			return outs, m.fr.errorf("the kept output %d of %s has been modified: use the op that makes a new value", i, e.at)
		default:
			outs = append(outs, *o.t.Retain())
		}
	}
	return outs, nil
}

// close ends the first run: what was kept after the last place that a second run fills is not wanted, since that stops
// there.
func (m *memo) close() {
	m.makers = nil
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
		for _, o := range m.entries[i].outs {
			if o.handle != nil {
				m.fr.saver.Drop(o.handle)
				continue
			}
			if b := o.t.Buffer(); m.kept[b] > 1 {
				m.kept[b]--
			} else {
				delete(m.kept, b)
			}
			o.t.Release()
		}
		m.entries[i].outs = nil
	}
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

// replayMemo is forwardMemo for a second run.
func (fr *frame) replayMemo() autograd.Memo {
	if fr.memo != nil {
		fr.memo.at = 0
	}
	return fr.forwardMemo()
}
