package autograd

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Saver decides what becomes of tensors between forward and backward: the seam of offload, recomputation and compressed
// storage. The engine hands over storages, each once (R4); views, shapes and offsets stay with the engine. It is called
// by the session's goroutine only.
type Saver interface {
	// Pack takes the storage t, a flat contiguous tensor that it may keep only by Retain and must not write to. A nil
	// handle leaves the storage in memory.
	Pack(t *tensor.Tensor, at memory.Site) (handle any, err error)
	// Unpack gives a tensor of the packed spec on d, with one reference for the caller. It may be called several times.
	Unpack(d *memory.Device, handle any) (tensor.Tensor, error)
	// Drop ends a handle: exactly once for each handle that Pack gave, also after errors.
	Drop(handle any)
}

// packKey finds a storage that the same saver holds already.
type packKey struct {
	saver   Saver
	buf     *memory.Buffer
	version uint32
}

// packed is a storage in a saver's hands, shared by the entries that read it.
type packed struct {
	key    packKey
	handle any
	spec   tensor.Spec
	refs   int    // entries and Helds
	pass   uint64 // the pass that left counts in
	left   int    // readers whose turn is to come in that pass
}

// slot is one entry of a node's saved set: something that a gradient reads. Its tensor is in memory, in a saver's hands
// (then t is only geometry), or a parameter's.
type slot struct {
	ref     Ref
	ss      *Session
	t       tensor.Tensor
	pk      *packed
	par     *Param
	version uint32
}

// save fills sl with t, which is par's if that is not nil. sl stays empty if it fails.
func (s *Scope) save(sl *slot, t *tensor.Tensor, par *Param, site memory.Site) error {
	ss := s.o.ss
	entry := slot{ref: sl.ref, ss: ss, t: *t, par: par, version: t.Version()}
	if par != nil {
		entry.t, entry.version = tensor.Tensor{}, par.version()
		*sl = entry
		return nil
	}
	b := t.Buffer()
	if s.m.Saver != nil && b.Kind() != memory.Param {
		pk, err := ss.pack(s.m.Saver, t, site)
		if err != nil {
			return err
		}
		if pk != nil {
			entry.pk = pk
			*sl = entry
			return nil
		}
	}
	if b.Kind() == memory.Temporary {
		b.SetKind(memory.Activation)
	}
	entry.t.Retain()
	*sl = entry
	return nil
}

// pack hands the storage of t to sv, unless it has it already. nil: sv leaves it in memory.
func (ss *Session) pack(sv Saver, t *tensor.Tensor, site memory.Site) (*packed, error) {
	key := packKey{sv, t.Buffer(), t.Version()}
	if pk := ss.packed[key]; pk != nil {
		pk.refs++
		return pk, nil
	}
	spec := tensor.Of(t.DType(), int(t.Buffer().Size())/t.DType().Size())
	flat := tensor.Over(t.Buffer(), spec)
	ss.leave()
	h, err := sv.Pack(&flat, site)
	ss.enter(site.Op, site.Scope)
	if errors.Is(err, ErrStop) {
		ss.stopReplay(sv)
	}
	if err != nil || h == nil {
		return nil, err
	}
	if t.Version() != key.version {
		ss.leave()
		sv.Drop(h)
		ss.enter(site.Op, site.Scope)
		return nil, fmt.Errorf("the saver modified the tensor it was given to pack")
	}
	pk := &packed{key: key, handle: h, spec: spec, refs: 1}
	ss.packed[key] = pk
	return pk, nil
}

// drop ends the entry.
func (sl *slot) drop() {
	switch {
	case sl.par != nil:
	case sl.pk != nil:
		sl.pk.unref(sl.ss)
	case !sl.t.Empty():
		sl.ss.plan.touch(sl.t.Buffer())
		sl.t.Release()
	}
	*sl = slot{}
}

func (pk *packed) unref(ss *Session) {
	if pk.refs--; pk.refs == 0 {
		delete(ss.packed, pk.key)
		pk.key.saver.Drop(pk.handle)
	}
}

// load gives what was saved, with a reference for the caller. what names it in errors.
func (sl *slot) load(n *node) (tensor.Tensor, error) {
	switch {
	case sl.par != nil:
		if err := sl.check(n, sl.par.version()); err != nil {
			return tensor.Tensor{}, err
		}
		return sl.par.Fetch()
	case sl.pk != nil:
		return sl.unpack()
	}
	if err := sl.check(n, sl.t.Version()); err != nil {
		return tensor.Tensor{}, err
	}
	return *sl.t.Retain(), nil
}

// check is R6 at backward.
func (sl *slot) check(n *node, version uint32) error {
	if version == sl.version {
		return nil
	}
	spec := n.refSpec(sl.ref)
	what := fmt.Sprintf("%s, which is output %d of %s", spec, int(^sl.ref), n.site)
	if sl.ref >= 0 {
		what = fmt.Sprintf("%s, which is input %d of %s", spec, int(sl.ref), n.site)
		if e := &n.in[sl.ref]; e.par != nil {
			what = fmt.Sprintf("parameter %s %s, which is input %d of %s", e.par.name, spec, int(sl.ref), n.site)
		} else if e.node != nil {
			what = fmt.Sprintf("%s, which is output %d of %s and input %d of %s", spec, e.out, e.node.site, int(sl.ref), n.site)
		}
	}
	return fmt.Errorf("one of the values needed for gradient computation has been modified by an inplace operation: %s, is at version %d; expected version %d instead: use the op that makes a new value, or move the write after Backward", what, version, sl.version)
}

func (sl *slot) unpack() (tensor.Tensor, error) {
	ss := sl.ss
	ss.leave()
	t, err := sl.pk.key.saver.Unpack(ss.dev, sl.pk.handle)
	ss.enter("unpack", "")
	if err != nil {
		return tensor.Tensor{}, err
	}
	if t.Empty() || !t.Spec().Equal(sl.pk.spec) || t.Buffer().Device() != ss.dev {
		got := "nothing"
		if !t.Empty() {
			got = fmt.Sprintf("%s on device %q", t.Spec(), t.Buffer().Device().Name())
			t.Release()
		}
		return tensor.Tensor{}, fmt.Errorf("the saver packed %s and unpacked %s: want the same spec on the session's device %q", sl.pk.spec, got, ss.dev.Name())
	}
	return sl.t.On(t.Buffer()), nil
}
