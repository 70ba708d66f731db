package offload

import (
	"fmt"
	"iter"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// saved is an activation in the store. Those that live form a list in the order of packing, which backward follows in
// reverse.
type saved struct {
	spec         tensor.Spec
	site         memory.Site
	at           *extent // nil: packed in a dry run
	older, newer *saved
}

// Pack takes the storage of an activation, if Place or size do not leave it on the device: see autograd.Saver. The bytes
// are copied out of t before Pack returns.
func (st *Store) Pack(t *tensor.Tensor, at memory.Site) (handle any, err error) {
	if err := st.usable(); err != nil {
		return nil, err
	}
	tier, err := st.cfg.place(Item{Role: Activation, Name: at.Scope, Op: at.Op, Kind: t.Buffer().Kind(), Spec: t.Spec()})
	if err != nil || tier == Keep {
		return nil, err
	}
	sv := &saved{spec: t.Spec(), site: at}
	if st.dev.Forked() {
		return sv, nil
	}
	if sv.at, err = st.newExtent(tier, Activation, t.Bytes(), at); err != nil {
		return nil, err
	}
	if err := st.fillFrom(sv.at, t, 0); err != nil {
		sv.at.free()
		return nil, err
	}
	st.link(sv)
	return sv, nil
}

// fillFrom writes a contiguous tensor at byte off, unless it has no data.
func (st *Store) fillFrom(e *extent, t *tensor.Tensor, off int64) error {
	if b := contents(t); b != nil {
		return e.write(b, off)
	}
	return nil
}

// fillTo reads a contiguous tensor from byte off, unless it has no room for data.
func (st *Store) fillTo(t *tensor.Tensor, e *extent, off int64, next iter.Seq[part]) error {
	if b := contents(t); b != nil {
		return e.read(b, off, next)
	}
	return nil
}

// contents is the bytes of a contiguous tensor, nil if it is on a virtual device or a dry run is on.
func contents(t *tensor.Tensor) []byte {
	b := t.Buffer()
	if b.Device().Virtual() || t.Elems() == 0 {
		return nil
	}
	from := int64(t.Offset() * t.DType().Size())
	return b.Bytes()[from : from+t.Bytes()]
}

// Unpack brings an activation back: see autograd.Saver. Those packed before it are read ahead.
func (st *Store) Unpack(d *memory.Device, handle any) (tensor.Tensor, error) {
	sv, ok := handle.(*saved)
	if !ok || d != st.dev {
		return tensor.Tensor{}, fmt.Errorf("offload: Unpack of a %T on device %q: want what Pack gave, on %q", handle, d.Name(), st.dev.Name())
	}
	if err := st.usable(); err != nil {
		return tensor.Tensor{}, err
	}
	t, err := tensor.Make(d, memory.Activation, memory.Site{Op: "unpack", Scope: sv.site.Scope}, sv.spec)
	if err != nil || sv.at == nil {
		return t, err
	}
	if err := st.fillTo(&t, sv.at, 0, sv.next); err != nil {
		t.Release()
		return tensor.Tensor{}, fmt.Errorf("%w: what %s saved", err, sv.site)
	}
	return t, nil
}

// next is what is likely to be unpacked after sv: what its op saved after it, then what the ops before it saved. Backward
// goes through the ops in reverse, and through what each saved in the order of saving.
func (sv *saved) next(yield func(part) bool) {
	for p := sv.newer; p != nil && p.site == sv.site; p = p.newer {
		if !yield(p.part()) {
			return
		}
	}
	for last := sv.first().older; last != nil; last = last.first().older {
		for p := last.first(); p != last.newer; p = p.newer {
			if !yield(p.part()) {
				return
			}
		}
	}
}

// first is what the op that saved sv saved first.
func (sv *saved) first() *saved {
	for sv.older != nil && sv.older.site == sv.site {
		sv = sv.older
	}
	return sv
}

func (sv *saved) part() part { return part{sv.at, 0, sv.at.n} }

// Drop ends an activation: see autograd.Saver.
func (st *Store) Drop(handle any) {
	sv := handle.(*saved)
	if sv.at == nil || st.closed {
		return
	}
	st.unlink(sv)
	sv.at.free()
}

func (st *Store) link(sv *saved) {
	sv.older = st.newest
	if sv.older != nil {
		sv.older.newer = sv
	}
	st.newest = sv
}

func (st *Store) unlink(sv *saved) {
	if sv.older != nil {
		sv.older.newer = sv.newer
	}
	if sv.newer != nil {
		sv.newer.older = sv.older
	} else {
		st.newest = sv.older
	}
}
