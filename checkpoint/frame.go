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
	inner  bool // opened within another region's second run
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

	t       tensor.Tensor // Save: the storage; Recompute: what a second run brought, until it has been read
	version uint32
	handle  any // Offload: the saver's
	dead    bool
}

func newFrame(s *autograd.Scope, f Func, c config) *frame {
	m := s.Modes()
	fr := &frame{config: c, f: f, sess: s.Session(), modes: m, rand: *m.Rand, path: s.Path(), inner: m.Replay, open: true}
	fr.watch = watcherOf(m.Memo)
	if fr.policy != nil && !fr.inner { // in a second run nothing is worth keeping
		fr.memo = &memo{fr: fr, makers: map[*memory.Buffer]maker{}, kept: map[*memory.Buffer]int{}}
	}
	return fr
}

// Replays lets a region within another one's second run have its own frame.
func (fr *frame) Replays() {}

// Pack gives a place for t. It keeps or offloads t if the policy says so.
func (fr *frame) Pack(t *tensor.Tensor, at memory.Site) (any, error) {
	p := &place{fr: fr, i: len(fr.places), spec: t.Spec(), at: at, version: t.Version()}
	if fr.memo != nil {
		p.action, p.ops = fr.memo.reads(t, at), len(fr.memo.entries)
	}
	if p.action == Offload {
		h, err := fr.offload(t, at)
		if err != nil {
			return nil, err
		}
		if p.handle = h; h == nil {
			p.action = Save
		}
	}
	switch p.action {
	case Save:
		asActivation(t.Buffer())
		p.t = *t.Retain()
	case Recompute:
		p.sum = fr.check.sum(t.Buffer().Bytes())
		fr.needs++
	}
	fr.places = append(fr.places, p)
	fr.watch.saved(fr, p)
	return p, nil
}

// offload packs t by the region's saver; nil: it stays in memory.
func (fr *frame) offload(t *tensor.Tensor, at memory.Site) (any, error) {
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
	if p.action == Offload {
		return fr.saver.Unpack(d, p.handle)
	}
	if p.t.Empty() {
		if err := fr.recompute(); err != nil {
			return tensor.Tensor{}, err
		}
	}
	return p.get()
}

// get gives the storage that p holds, with a reference for the caller.
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
	if p := h.(*place); p.action == Recompute {
		p.clear()
	}
}

// Drop ends a place.
func (fr *frame) Drop(h any) {
	p := h.(*place)
	p.dead = true
	p.clear()
	switch p.action {
	case Offload:
		fr.saver.Drop(p.handle)
	case Recompute:
		fr.needs--
	}
	fr.settle()
}

func (p *place) clear() {
	if !p.t.Empty() {
		p.t.Release()
		p.t = tensor.Tensor{}
	}
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
