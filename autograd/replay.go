package autograd

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Memo keeps outputs of ops in a forward pass and gives them back in a replay: the seam of selective recomputation. It
// chooses by the rule (Rule.Dear tells which outputs are worth their bytes) and relies on the replay running the same ops
// in the same order. Views and in-place ops never reach it.
type Memo interface {
	// Record sees all outputs of an op, hidden ones too, after Forward. It keeps one only by Retain, or by
	// Scope.SaveTensor. In a replay it sees those of the ops that Recall had nothing for.
	Record(rule *Rule, at memory.Site, outs []tensor.Tensor) error
	// Recall, asked in replays only, gives what Record kept for this op, one reference to the caller for each, or false:
	// then the op runs.
	Recall(rule *Rule, at memory.Site, specs []tensor.Spec) ([]tensor.Tensor, bool, error)
	// Keeps tells whether b is what Record kept. An in-place operation on such a storage works on a copy of it: what is
	// kept must stay as it was.
	Keeps(b *memory.Buffer) bool
}

// ErrStop, returned by a Saver's Pack inside a replay whose Modes name that saver, ends the replay: it has what it needs.
var ErrStop = errors.New("autograd: the replay has what it needs")

// ReplaySaver is a Saver that may be set inside a replay. Others are off there: what a replay makes is needed at once.
type ReplaySaver interface {
	Saver
	Replays()
}

// stop unwinds to the replay that a saver ended.
type stop struct {
	to  *owner
	gen uint32
}

// Replay runs f again in a child scope under the modes of its first run, as recomputation does: with m.Saver, m.Memo and
// m.Rand as given, history recorded. In it a Memo is asked to recall, other savers are off, and Backward adds
// to no parameter's gradient. stopped tells that the saver ended it early with ErrStop; what f had made is released
// either way.
func (s *Scope) Replay(name string, m Modes, f func(*Scope)) (stopped bool) {
	m.Replay, m.NoGrad = true, false
	c, done := s.child(name)
	c.m = m
	o, gen := c.o, c.gen
	o.replay = m.Saver
	before := s.o.ss.mark(inRecompute)
	defer done()
	defer func() {
		s.o.ss.mark(before)
		r := recover()
		if r == nil {
			return
		}
		if t, ok := r.(stop); !ok || t.to != o || t.gen != gen {
			panic(r)
		}
		stopped = true
	}()
	f(c)
	return false
}

// stopReplay unwinds to the innermost replay of sv. It returns if there is none.
func (ss *Session) stopReplay(sv Saver) {
	for o := ss.cur; o != nil; o = o.parent {
		if o.replay != nil && o.replay == sv {
			panic(stop{o, o.gen})
		}
	}
}

// recall asks the memo for the outputs of the op.
func (w *work) recall() bool {
	m := w.s.m.Memo
	if m == nil || !w.s.m.Replay || w.rule.InPlace {
		return false
	}
	w.ss.leave()
	outs, ok, err := m.Recall(w.rule, w.site, w.sh.Out)
	w.ss.enter(w.site.Op, w.site.Scope)
	w.outs = append(w.outs, outs...)
	w.failIf(err)
	if !ok {
		return false
	}
	if len(outs) != len(w.sh.Out) {
		w.fail(fmt.Errorf("the memo recalled %d outputs: want %d", len(outs), len(w.sh.Out)))
	}
	for i, t := range outs {
		if t.Empty() || !t.Spec().Equal(w.sh.Out[i]) {
			w.fail(fmt.Errorf("the memo recalled another spec for output %d: want %s", i, w.sh.Out[i]))
		}
	}
	return true
}

// remember shows the outputs to the memo.
func (w *work) remember() {
	m := w.s.m.Memo
	if m == nil || w.rule.InPlace {
		return
	}
	w.ss.leave()
	err := m.Record(w.rule, w.site, w.outs)
	w.ss.enter(w.site.Op, w.site.Scope)
	w.failIf(err)
}

// ownCopy makes y, the output of an in-place operation, its first input, or a copy of it if a memo keeps that.
func (w *work) ownCopy(y *tensor.Tensor) error {
	x := w.args[0]
	m := w.s.m.Memo
	if m == nil || !m.Keeps(x.Buffer()) {
		*y = *x.Retain()
		return nil
	}
	if err := y.Init(w.ss.dev, memory.Temporary, w.site, x.Spec()); err != nil {
		return err
	}
	w.ss.copyTo(y, x)
	w.ss.plan.touch(x.Buffer())
	w.args[0] = y
	w.vals[0].version-- // the handle is refused from now on, as if its storage had been written to
	return nil
}
