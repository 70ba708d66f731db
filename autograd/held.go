package autograd

import (
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Held is a value that a technique keeps from forward to backward, as an op keeps what its gradient reads: by the scope's
// saver, so that what is held inside an outer recomputation is recomputed and what is held under offload is offloaded.
// Recomputation holds the inputs of its regions so.
type Held struct {
	sl   slot
	spec tensor.Spec
	grad bool
	site memory.Site // who made the value
}

// Save holds v until Drop. who names the holder in errors. A parameter is not handed to a saver: what is held is the
// parameter and its version (R3).
func (s *Scope) Save(v *Value, who string) *Held {
	s.live(who)
	v.use(who, s.path)
	return s.hold(&v.t, v.par, who, Held{grad: v.RequiresGrad(), site: v.site})
}

// SaveTensor is Save for a tensor behind a value, as a Saver or Memo sees it.
func (s *Scope) SaveTensor(t *tensor.Tensor, who string) *Held {
	s.live(who)
	return s.hold(t, nil, who, Held{site: t.Buffer().Site()})
}

func (s *Scope) hold(t *tensor.Tensor, par *Param, who string, h Held) *Held {
	ss := s.o.ss
	ss.enter(who, s.path)
	defer ss.leave()
	h.spec = t.Spec()
	if err := s.save(&h.sl, t, par, memory.Site{Op: who, Scope: s.path}); err != nil {
		raise(who, s.path, []tensor.Spec{h.spec}, err)
	}
	if b := h.sl.saved(); b != nil && h.sl.pk == nil {
		b.Describe("", "held for backward by "+memory.Site{Op: who, Scope: s.path}.String())
	}
	return &h
}

// Spec is that of the value.
func (h *Held) Spec() tensor.Spec { return h.spec }

// RequiresGrad tells whether the value required a gradient when it was saved.
func (h *Held) RequiresGrad() bool { return h.grad }

// Param is the parameter that the value stands for, nil for other values.
func (h *Held) Param() *Param { return h.sl.par }

// Get gives the value's tensor as it was, with one reference for the caller. It may be called several times until Drop. It
// is an error if the value was written over meanwhile.
func (h *Held) Get() (tensor.Tensor, error) {
	sl := &h.sl
	switch {
	case sl.par != nil:
		if err := h.check(sl.par.version()); err != nil {
			return tensor.Tensor{}, err
		}
		return sl.par.Fetch()
	case sl.pk != nil:
		sl.ss.enter("held", "")
		t, err := sl.unpack()
		sl.ss.leave()
		return t, err
	case sl.t.Empty():
		return tensor.Tensor{}, fmt.Errorf("%s made by %s was dropped", h.spec, h.site)
	}
	if err := h.check(sl.t.Version()); err != nil {
		return tensor.Tensor{}, err
	}
	return *sl.t.Retain(), nil
}

// check is R6 for what is held.
func (h *Held) check(version uint32) error {
	if version == h.sl.version {
		return nil
	}
	what := "made by " + h.site.String()
	if h.sl.par != nil {
		what = "parameter " + h.sl.par.name
	}
	return fmt.Errorf("%s, %s, has been modified by an inplace operation: it is at version %d; expected version %d instead: use the op that makes a new value, or move the write after Backward", h.spec, what, version, h.sl.version)
}

// Rest says that nobody will call Get again in the running pass (see PassSaver).
func (h *Held) Rest() {
	if h.sl.pk != nil {
		h.sl.pk.read(h.sl.ss.pass)
	}
}

// Drop ends the hold; a second Drop does nothing.
func (h *Held) Drop() { h.sl.drop() }

// PassScope is a scope of the innermost running Backward, with path for its path, or nil if none runs: where a Saver that
// computes in Unpack does so. What it leaves there lives until that pass has ended, and OnClose runs then. retain tells
// whether the pass keeps the graph for another.
func (ss *Session) PassScope(path string) (s *Scope, retain bool) {
	p := ss.pass
	if p == nil {
		return nil, false
	}
	c := *p.s
	c.path = path
	return &c, p.retain
}

// PassSaver is a Saver that is told when a running pass has read a handle for the last time, for what Unpack gives it
// without copying. Where the pass retains the graph, or leaves some of it out, Drop comes much later, or in another pass.
// What some reader in the graph has not asked for in this pass is not reported.
type PassSaver interface {
	Saver
	Rest(handle any)
}

// read notes that one of pk's readers has had its turn in p.
func (pk *packed) read(p *pass) {
	if p == nil || pk.refs == 0 {
		return
	}
	if pk.pass != p.id {
		pk.pass, pk.left = p.id, pk.refs
	}
	if pk.left--; pk.left != 0 {
		return
	}
	if sv, ok := pk.key.saver.(PassSaver); ok {
		sv.Rest(pk.handle)
	}
}
