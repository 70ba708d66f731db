package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/memory"
)

// Tensor is the life of a buffer in a recording. Born and Died are indexes of events.
type Tensor struct {
	ID          uint64
	Addr, Bytes int64 // the place in the arena; as asked for
	Site        memory.Site
	Spec        string   // "float32[8 256 384]"; "" for memory that is no tensor's
	Why         []Reason // who held it for what, in order
	Kinds       []KindAt // the first is that of its birth
	Born        int      // -1: alive before the first event
	Died        int      // how many events there are, if it is alive after the last
}

// KindAt is a change of kind.
type KindAt struct {
	At   int // the event's index; -1: before the first
	Kind memory.Kind
}

// Reason is why a tensor is held, from some event on.
type Reason struct {
	At   int // the event's index; -1: before the first
	Text string
}

// Kind is the kind just after event at.
func (t *Tensor) Kind(at int) memory.Kind {
	k := t.Kinds[0].Kind
	for _, c := range t.Kinds {
		if c.At <= at {
			k = c.Kind
		}
	}
	return k
}

// Alive tells whether t is alive just after event at.
func (t *Tensor) Alive(at int) bool { return t.Born <= at && at < t.Died }

// Tensors gives the lives of all buffers, in the order of their birth. It is an error if the events do not fit together,
// or not to Held.
func (r *Recording) Tensors() ([]Tensor, error) {
	var list []Tensor
	at := map[uint64]int{} // of those alive
	var live int64
	open := func(born int, id uint64, addr, bytes int64, k memory.Kind, site memory.Site, spec, why string) {
		at[id] = len(list)
		t := Tensor{ID: id, Addr: addr, Bytes: bytes, Site: site, Spec: spec, Born: born, Died: len(r.Events), Kinds: []KindAt{{born, k}}}
		t.explain(born, why)
		list = append(list, t)
		live += bytes
	}
	for _, h := range r.Held {
		open(-1, h.ID, h.Addr, h.Bytes, h.Kind, h.Site, h.Spec, h.Why)
	}
	for i := range r.Events {
		e := &r.Events[i]
		n, known := at[e.ID]
		switch {
		case e.Act == memory.Mark:
		case known == (e.Act == memory.Alloc):
			return nil, fmt.Errorf("report: event %d (%s of buffer %d): the buffer is alive: %t; want Recording.Held to be what was alive before the first event, and no event left out", e.Seq, e.Act, e.ID, known)
		case e.Act == memory.Alloc:
			open(i, e.ID, e.Addr, e.Bytes, e.Kind, e.Site, e.Spec, e.Why)
		case e.Act == memory.Free:
			list[n].Died = i
			live -= e.Bytes
			delete(at, e.ID)
		default:
			list[n].update(i, e)
		}
		if live != e.Live {
			return nil, fmt.Errorf("report: event %d (%s): %d bytes are alive by the events before it, %d by the device's count: want Recording.Held to be what was alive before the first event", e.Seq, e.Act, live, e.Live)
		}
	}
	return list, nil
}

// update takes over what a SetKind or Describe event says.
func (t *Tensor) update(i int, e *memory.Event) {
	t.Spec, t.Site = e.Spec, e.Site
	t.explain(i, e.Why)
	if last := t.Kinds[len(t.Kinds)-1]; last.Kind != e.Kind {
		t.Kinds = append(t.Kinds, KindAt{i, e.Kind})
	}
}

// explain adds a reason that is not the last one again.
func (t *Tensor) explain(at int, why string) {
	if why != "" && (len(t.Why) == 0 || t.Why[len(t.Why)-1].Text != why) {
		t.Why = append(t.Why, Reason{at, why})
	}
}

// Peak is the most bytes alive at once, and the index of the first event after which they were; -1: before the first.
func (r *Recording) Peak() (bytes int64, at int) {
	at = -1
	for _, h := range r.Held {
		bytes += h.Bytes
	}
	for i := range r.Events {
		if e := &r.Events[i]; e.Live > bytes {
			bytes, at = e.Live, i
		}
	}
	return bytes, at
}

// ArenaPeak is the highest end of the arena, in bytes.
func (r *Recording) ArenaPeak() (bytes int64) {
	for _, h := range r.Held {
		bytes = max(bytes, rounded(h.Addr+h.Bytes))
	}
	for i := range r.Events {
		bytes = max(bytes, r.Events[i].Arena)
	}
	return bytes
}

// rounded is where the unit of the arena ends, of 64 bytes, that byte end is in.
func rounded(end int64) int64 { return (end + 63) &^ 63 }

// LiveAt gives what is alive just after the event with that index (-1: before the first), by address, as
// memory.Device.Holders would have then. Why is the last reason known then.
func (r *Recording) LiveAt(at int) ([]memory.Holder, error) {
	if at < -1 || at >= len(r.Events) {
		return nil, fmt.Errorf("report: event %d: want -1 (before the first) to %d", at, len(r.Events)-1)
	}
	if _, err := r.Tensors(); err != nil {
		return nil, err
	}
	held := map[uint64]memory.Holder{}
	for _, h := range r.Held {
		held[h.ID] = h
	}
	for i := range r.Events[:at+1] {
		apply(held, &r.Events[i])
	}
	var list []memory.Holder
	for _, h := range held {
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b memory.Holder) int { return cmp.Compare(a.Addr, b.Addr) })
	return list, nil
}

// AtPeak is LiveAt the peak.
func (r *Recording) AtPeak() ([]memory.Holder, error) {
	_, at := r.Peak()
	return r.LiveAt(at)
}

// split gives the live bytes by kind after each event, and before the first in front of them.
func split(tensors []Tensor, events int) [][memory.NumKinds]int64 {
	by := make([][memory.NumKinds]int64, events+1)
	for i := range tensors {
		t := &tensors[i]
		for k, c := range t.Kinds {
			by[c.At+1][c.Kind] += t.Bytes
			if k > 0 {
				by[c.At+1][t.Kinds[k-1].Kind] -= t.Bytes
			}
		}
		if t.Died < events {
			by[t.Died+1][t.Kinds[len(t.Kinds)-1].Kind] -= t.Bytes
		}
	}
	for i := 1; i < len(by); i++ {
		for k := range by[i] {
			by[i][k] += by[i-1][k]
		}
	}
	return by
}

// reason says why memory of that kind is alive where nobody did.
func reason(k memory.Kind, at memory.Site) string {
	switch k {
	case memory.Param:
		return "parameter " + at.Scope
	case memory.Grad:
		return "gradient of a parameter"
	case memory.OptState:
		return "state of " + at.Op + " for " + at.Scope
	case memory.Activation:
		return "backward reads it"
	case memory.Temporary:
		return "until its scope ends"
	case memory.Scratch:
		return "work area of one call"
	case memory.Input:
		return "came from outside"
	case memory.Staging:
		return "ring of a store"
	case memory.CastCopy:
		return "rounded to another dtype for one op"
	}
	return "kept outside the step"
}

// reasons are Why, or what its kind says.
func (t *Tensor) reasons() []Reason {
	if len(t.Why) > 0 {
		return t.Why
	}
	return []Reason{{t.Born, reason(t.Kinds[len(t.Kinds)-1].Kind, t.Site)}}
}
