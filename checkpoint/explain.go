package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Explanation is what one step keeps between forward and backward and what it computes twice, op by op.
type Explanation struct {
	Ops []OpReport // in the order in which they first ran
}

// OpReport is the part of one op. Bytes are those of storages that its gradient reads, or that a policy keeps of its outputs;
// each storage counts once, with the first op that wants it. Op "checkpoint" stands for the inputs of a region.
type OpReport struct {
	Op, Scope  string
	Keeps      int64         // bytes in memory
	Offloads   int64         // bytes in a saver's hands
	Recomputes int64         // bytes that backward computes again
	Time       time.Duration // of its first run, with the views and in-place operations before it
	Again      int           // how often it ran again
	AgainTime  time.Duration
}

// Explain runs f, which gives a loss, and its backward pass in a step that is rolled back, and tells what became of each op.
// Gradients must be clear when it is called. In a dry run's world, on a virtual device, it works as well, and its times mean
// nothing.
func Explain(sess *autograd.Session, f func(s *autograd.Scope) *autograd.Value) (*Explanation, error) {
	w := &watcher{rows: map[memory.Site]int{}, seen: map[storage]bool{}}
	err := sess.Step(context.Background(), func(s *autograd.Scope) error {
		w.clock = time.Now()
		f(s.WithMemo(w).WithSaver(w)).Backward(s)
		return errMeasured
	})
	if !errors.Is(err, errMeasured) {
		return nil, err
	}
	return &Explanation{Ops: w.ops}, nil
}

// Total adds the ops up.
func (e *Explanation) Total() OpReport {
	t := OpReport{Op: "total"}
	for _, o := range e.Ops {
		t.Keeps, t.Offloads, t.Recomputes = t.Keeps+o.Keeps, t.Offloads+o.Offloads, t.Recomputes+o.Recomputes
		t.Time, t.Again, t.AgainTime = t.Time+o.Time, t.Again+o.Again, t.AgainTime+o.AgainTime
	}
	return t
}

// String is a table, one line an op, with the total.
func (e *Explanation) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "keeps\toffloads\trecomputes\ttime\tagain\ttime again\t  op")
	for _, o := range append(append([]OpReport(nil), e.Ops...), e.Total()) {
		at := memory.Site{Op: o.Op, Scope: o.Scope}
		fmt.Fprintf(w, "%d\t%d\t%d\t%v\t%d\t%v\t  %s\n", o.Keeps, o.Offloads, o.Recomputes, o.Time.Round(time.Microsecond), o.Again, o.AgainTime.Round(time.Microsecond), at)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// watcher is Explain's view of a step: the Memo that sees ops outside of regions, and regions tell it what happens inside;
// the Saver that sees what is kept outside of them, and what they keep by the saver around them.
type watcher struct {
	ops   []OpReport
	rows  map[memory.Site]int
	seen  map[storage]bool // those that are counted
	at    memory.Site      // on whose behalf a region keeps something
	clock time.Time        // when the last op ended
	again bool             // a second run is on
}

// watcherOf finds the watcher behind a scope's memo.
func watcherOf(m autograd.Memo) *watcher {
	switch m := m.(type) {
	case *watcher:
		return m
	case *memo:
		return m.fr.watch
	case *recaller:
		return m.r.fr.watch
	}
	return nil
}

// row gives the report of an op, by its place in the first run.
func (w *watcher) row(at memory.Site) *OpReport {
	at.Scope = strings.TrimSuffix(strings.ReplaceAll("/"+at.Scope+"/", "/recompute/", "/"), "/")
	at.Scope = strings.TrimPrefix(at.Scope, "/")
	i, ok := w.rows[at]
	if !ok {
		i = len(w.ops)
		w.rows[at] = i
		w.ops = append(w.ops, OpReport{Op: at.Op, Scope: at.Scope})
	}
	return &w.ops[i]
}

// first tells whether a storage is met for the first time.
func (w *watcher) first(b *memory.Buffer) bool {
	id := storage{b.ID(), b.Version()}
	known := w.seen[id]
	w.seen[id] = true
	return !known
}

// storage tells buffers apart, and what was in them before and after a write in place.
type storage struct {
	id      uint64
	version uint32
}

// saved notes what becomes of a storage that a gradient reads within a region.
func (w *watcher) saved(fr *frame, p *place, b *memory.Buffer) {
	if w == nil || fr.inner || p.action == Save || !w.first(b) {
		return // what is saved comes by Pack
	}
	at := p.at
	if w.at.Op != "" {
		at = w.at
	}
	if p.action == Offload {
		w.row(at).Offloads += p.spec.Bytes()
		return
	}
	w.row(at).Recomputes += p.spec.Bytes()
}

// offloaded notes an output that a policy offloads.
func (w *watcher) offloaded(at memory.Site, t *tensor.Tensor) {
	if w != nil && w.first(t.Buffer()) {
		w.row(at).Offloads += t.Bytes()
	}
}

// keeping says on whose behalf the region keeps what it keeps until the call of what it returns.
func (w *watcher) keeping(at memory.Site) (done func()) {
	if w == nil {
		return func() {}
	}
	old := w.at
	w.at = at
	return func() { w.at = old }
}

// begin and end enclose a second run.
func (w *watcher) begin() (end func()) {
	if w == nil {
		return func() {}
	}
	old := w.again
	w.again, w.clock = true, time.Now()
	return func() { w.again, w.clock = old, time.Now() }
}

// Record sees each op that runs.
func (w *watcher) Record(_ *autograd.Rule, at memory.Site, _ []tensor.Tensor) error {
	if w == nil {
		return nil
	}
	r := w.row(at)
	if took := time.Since(w.clock); w.again {
		r.Again, r.AgainTime = r.Again+1, r.AgainTime+took
	} else {
		r.Time += took
	}
	w.clock = time.Now()
	return nil
}

// Recall keeps nothing.
func (w *watcher) Recall(*autograd.Rule, memory.Site, []tensor.Spec) ([]tensor.Tensor, bool, error) {
	return nil, false, nil
}

// Keeps keeps nothing.
func (w *watcher) Keeps(*memory.Buffer) bool { return false }

// Pack sees what is kept in memory and leaves it there.
func (w *watcher) Pack(t *tensor.Tensor, at memory.Site) (any, error) {
	if w.at.Op != "" {
		at = w.at
	}
	if w.first(t.Buffer()) {
		w.row(at).Keeps += t.Bytes()
	}
	return nil, nil
}

// Unpack is never called: nothing was packed.
func (w *watcher) Unpack(*memory.Device, any) (tensor.Tensor, error) {
	return tensor.Tensor{}, errors.New("checkpoint: nothing was packed")
}

// Drop is never called either.
func (w *watcher) Drop(any) {}
