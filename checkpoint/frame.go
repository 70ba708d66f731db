package checkpoint

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// frame is one call of a region. As the Saver of the first run it gives out places for what gradients read; it lives as
// long as one of them does.
type frame struct {
	config
	f      Func
	sess   *autograd.Session
	modes  autograd.Modes
	rand   tensor.Stream // where the random stream stood
	path   string
	outer  *autograd.Scope // where the region was called: by its saver the region keeps what it keeps (C1)
	inner  bool            // opened within another region's second run
	ins    []*autograd.Held
	inputs []input
	places []*place
	memo   *memo
	watch  *watcher // Explain's
	open   bool     // the first run is not over
	needs  int      // places that recomputation fills, not dropped
	runs   int      // second runs so far
}

// place is what backward will find in a frame for one saved storage.
type place struct {
	fr     *frame
	i      int
	action Action
	spec   tensor.Spec
	at     memory.Site // the reader
	sum    uint64
	ops    int // entries that the memo had

	t       tensor.Tensor // Recompute: what a second run brought, until it has been read
	version uint32
	held    *autograd.Held // Save
	handle  any            // Offload: the saver's
	dead    bool
}

func newFrame(s *autograd.Scope, f Func, c config) *frame {
	m := s.Modes()
	fr := &frame{config: c, f: f, sess: s.Session(), modes: m, rand: *m.Rand, path: s.Path(), outer: s, inner: m.Replay, open: true}
	fr.watch = watcherOf(m.Memo)
	if fr.policy != nil {
		fr.memo = &memo{fr: fr, makers: map[*memory.Buffer]maker{}, kept: map[*memory.Buffer]bool{}}
	}
	return fr
}

// Replays lets a region within another one's second run have its own frame.
func (fr *frame) Replays() {}

// Pack gives a place for t. It keeps or offloads t if the policy says so.
func (fr *frame) Pack(t *tensor.Tensor, at memory.Site) (any, error) {
	p := &place{fr: fr, i: len(fr.places), spec: t.Spec(), at: at}
	if fr.memo != nil {
		p.action, p.ops = fr.memo.reads(t, at), len(fr.memo.entries)
	}
	if p.action == Offload {
		if err := fr.offload(p, t, at); err != nil {
			return nil, err
		}
	}
	switch p.action {
	case Save:
		done := fr.watch.keeping(at)
		p.held = fr.outer.SaveTensor(t, "checkpoint")
		done()
	case Recompute:
		p.sum = fr.check.sum(t.Buffer().Bytes())
		fr.needs++
	}
	fr.places = append(fr.places, p)
	fr.watch.saved(fr, p, t.Buffer())
	return p, nil
}

// offload gives t to the region's saver; what that leaves in memory is saved.
func (fr *frame) offload(p *place, t *tensor.Tensor, at memory.Site) (err error) {
	if p.handle, err = fr.pack(t, at); err == nil && p.handle == nil {
		p.action = Save
	}
	return err
}

// pack packs t by the region's saver.
func (fr *frame) pack(t *tensor.Tensor, at memory.Site) (any, error) {
	if fr.saver == nil {
		return nil, fr.errorf("the policy offloads %s of %s: give a saver with OffloadTo", t.Spec(), at)
	}
	return fr.saver.Pack(t, at)
}

// asActivation counts b as kept for backward.
func asActivation(b *memory.Buffer) {
	if b.Kind() == memory.Temporary {
		b.SetKind(memory.Activation)
	}
}

// Unpack gives what place h stands for, after a second run if need be.
func (fr *frame) Unpack(d *memory.Device, h any) (tensor.Tensor, error) {
	p := h.(*place)
	switch p.action {
	case Save:
		return p.held.Get()
	case Offload:
		return fr.saver.Unpack(d, p.handle)
	}
	if p.t.Empty() {
		if err := fr.recompute(); err != nil {
			return tensor.Tensor{}, err
		}
	}
	return p.get()
}

// get gives what a second run brought, with a reference for the caller.
func (p *place) get() (tensor.Tensor, error) {
	switch {
	case p.t.Empty():
		return tensor.Tensor{}, p.fr.errorf("recomputation did not reach saved tensor %d, %s of %s", p.i, p.spec, p.at)
	case p.t.Version() != p.version:
		return tensor.Tensor{}, p.fr.errorf("saved tensor %d, %s of %s, has been modified by an inplace operation: it is at version %d; expected version %d instead: use the op that makes a new value", p.i, p.spec, p.at, p.t.Version(), p.version)
	}
	return *p.t.Retain(), nil
}

// Rest lets what was recomputed go: nobody reads it any more in this pass (C2).
func (fr *frame) Rest(h any) {
	switch p := h.(*place); p.action {
	case Save:
		p.held.Rest()
	case Recompute:
		drop(&p.t)
	}
}

// Drop ends a place.
func (fr *frame) Drop(h any) {
	p := h.(*place)
	p.dead = true
	switch p.action {
	case Save:
		p.held.Drop()
	case Offload:
		fr.saver.Drop(p.handle)
	case Recompute:
		drop(&p.t)
		fr.needs--
	}
	fr.settle()
}

// close ends the first run, however it ended.
func (fr *frame) close() {
	fr.open = false
	if fr.memo != nil {
		fr.memo.close()
	}
	fr.settle()
}

// settle lets go of what only a second run would read when there will be none (C7).
func (fr *frame) settle() {
	if fr.open || fr.needs > 0 {
		return
	}
	for _, in := range fr.ins {
		in.Drop()
	}
	fr.ins = nil
	if fr.memo != nil {
		fr.memo.drop(0)
	}
}
