package checkpoint

import (
	"errors"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// replay is a second run of a region, and the Saver in it: it fills the frame's places.
type replay struct {
	fr   *frame
	path string // of its scope
	n    int    // places passed
	need int    // stop after so many
}

// recompute runs the region again and fills the places that are still needed.
func (fr *frame) recompute() error {
	s, retain := fr.sess.PassScope(fr.path)
	if s == nil {
		return fr.errorf("recomputation outside of Backward")
	}
	ins, err := fr.load() // may run an outer region again, before this one's scope opens
	defer func() {
		for i := range ins {
			drop(&ins[i])
		}
	}()
	if err != nil {
		return err
	}
	s.OnClose(fr.rest)
	r := &replay{fr: fr, need: fr.lastNeeded()}
	m := fr.modes
	rand := fr.rand
	m.Rand, m.Saver, m.Memo = &rand, r, fr.replayMemo(r, !retain && !fr.open)
	fr.runs++
	defer fr.watch.begin()()
	stopped := s.Replay("recompute", m, func(s *autograd.Scope) {
		r.path = s.Path()
		fr.f(s, fr.leaves(s, ins))
	})
	if !stopped && (r.n < r.need && r.need < math.MaxInt || !fr.open && r.n != len(fr.places)) {
		return fr.errorf("recomputation saved %d tensors, the forward pass %d: %s", r.n, len(fr.places), remedy)
	}
	return nil
}

// load gives the inputs with a reference for each; parameters stay empty.
func (fr *frame) load() (ts []tensor.Tensor, err error) {
	for i, in := range fr.ins {
		var t tensor.Tensor
		if in.Param() == nil {
			if t, err = in.Get(); err != nil {
				return ts, fr.errorf("input %d: %w", i, err)
			}
			in.Rest()
		}
		ts = append(ts, t)
		if in.Param() == nil && fr.check.sum(t.Buffer().Bytes()) != fr.inputs[i].sum {
			return ts, fr.errorf("input %d, %s, has other values than in the forward pass: nothing may write to it before Backward", i, in.Spec())
		}
	}
	return ts, nil
}

// leaves makes the values that the second run starts from, and gives the references in ts away.
func (fr *frame) leaves(s *autograd.Scope, ts []tensor.Tensor) (xs []*autograd.Value) {
	for i, in := range fr.ins {
		if p := in.Param(); p != nil {
			xs = append(xs, p.Value())
			continue
		}
		x := s.Input(&ts[i])
		drop(&ts[i])
		if in.RequiresGrad() {
			x.RequireGrad()
		}
		xs = append(xs, x)
	}
	return xs
}

func drop(t *tensor.Tensor) {
	if !t.Empty() {
		t.Release()
		*t = tensor.Tensor{}
	}
}

// lastNeeded is how many places a second run must pass. An open frame has no final count: its second run stops early
// always, or it would come to the Backward that asked for it.
func (fr *frame) lastNeeded() int {
	if fr.noStop && !fr.open {
		return math.MaxInt
	}
	for i := len(fr.places) - 1; i >= 0; i-- {
		if fr.places[i].wanted() {
			return i + 1
		}
	}
	return 0
}

// wanted tells whether a second run fills p.
func (p *place) wanted() bool { return p.action == Recompute && !p.dead && p.t.Empty() }

// rest ends what a pass has recomputed.
func (fr *frame) rest() {
	for _, p := range fr.places {
		drop(&p.t)
	}
}

// Replays marks the Saver of a second run.
func (r *replay) Replays() {}

// again is a handle within the second run: a place that holds the storage, or else the storage itself. A Backward inside
// the region reads it.
type again struct {
	p *place
	t tensor.Tensor
}

// Pack compares t with what the first run saved here and fills the place.
func (r *replay) Pack(t *tensor.Tensor, at memory.Site) (any, error) {
	fr := r.fr
	if r.n >= len(fr.places) {
		return nil, fr.errorf("recomputation saves more than the %d tensors of the forward pass, here %s of %s: %s", len(fr.places), t.Spec(), fr.relative(at, r.path), remedy)
	}
	p := fr.places[r.n]
	r.n++
	if err := r.compare(p, t, at); err != nil {
		return nil, err
	}
	if p.wanted() {
		asActivation(t.Buffer())
		p.t, p.version = *t.Retain(), t.Version()
	}
	if r.n >= r.need {
		return nil, autograd.ErrStop // C3
	}
	if p.dead || p.action != Recompute {
		return &again{t: *t.Retain()}, nil
	}
	return &again{p: p}, nil
}

func (r *replay) Unpack(_ *memory.Device, h any) (tensor.Tensor, error) {
	a := h.(*again)
	switch {
	case !a.t.Empty():
		return *a.t.Retain(), nil
	case a.p.t.Empty():
		return tensor.Tensor{}, errors.New("checkpoint: what was recomputed has been read already")
	}
	return a.p.get()
}

func (r *replay) Drop(h any) { drop(&h.(*again).t) }
