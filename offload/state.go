package offload

import (
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Slot is room for one tensor of an optimizer's state: optim.Slot, where its methods are described.
type Slot = interface {
	Read(dst tensor.Tensor, at int64) error
	Write(src tensor.Tensor, at int64) error
	Ahead(at, n int64)
	Flush() error
	Certain() bool
	Close() error
}

// state is a Slot of a Store.
type state struct {
	st   *Store
	name string
	spec tensor.Spec
	e    *extent
}

// Open makes room for a tensor of an optimizer's state, its content undefined; nil if Place or its size leave it on the
// device: see optim.StateStore.
func (st *Store) Open(name string, s tensor.Spec) (Slot, error) {
	if err := st.usable(); err != nil {
		return nil, err
	}
	if st.dev.Forked() {
		return nil, fmt.Errorf("offload: %s is opened within a dry run, which keeps nothing", name)
	}
	tier, err := st.cfg.place(Item{Role: State, Name: name, Kind: memory.OptState, Spec: s})
	if err != nil || tier == Keep {
		return nil, err
	}
	e, err := st.newExtent(tier, State, s.Bytes(), memory.Site{Op: "state", Scope: name})
	if err != nil {
		return nil, err
	}
	return &state{st, name, s, e}, nil
}

// check finds the bytes of a tile.
func (s *state) check(what string, t *tensor.Tensor, at int64) (off int64, err error) {
	switch {
	case s.st.closed || s.e == nil:
		return 0, fmt.Errorf("offload: %s of %s: it is closed", what, s.name)
	case t.DType() != s.spec.DType || !t.IsContiguous():
		return 0, fmt.Errorf("offload: %s of %s: the tile is %s: want contiguous %s", what, s.name, t.Spec(), s.spec.DType)
	case at < 0 || at+int64(t.Elems()) > int64(s.spec.Elems()):
		return 0, fmt.Errorf("offload: %s of %s: elements %d to %d: want 0 to %d", what, s.name, at, at+int64(t.Elems()), s.spec.Elems())
	}
	return at * int64(s.spec.DType.Size()), nil
}

// Read fills dst from element at.
func (s *state) Read(dst tensor.Tensor, at int64) error {
	off, err := s.check("Read", &dst, at)
	if err != nil {
		return err
	}
	s.st.unhint(part{s.e, off, dst.Bytes()})
	if err := s.st.fillTo(&dst, s.e, off, s.st.hinted); err != nil {
		return fmt.Errorf("%w: %s", err, s.name)
	}
	return nil
}

// Write puts src at element at. It may return before the bytes are in place.
func (s *state) Write(src tensor.Tensor, at int64) error {
	off, err := s.check("Write", &src, at)
	if err != nil {
		return err
	}
	if err := s.st.fillFrom(s.e, &src, off); err != nil {
		return fmt.Errorf("%w: %s", err, s.name)
	}
	return nil
}

// Ahead says that n elements from at will be read soon.
func (s *state) Ahead(at, n int64) {
	if s.st.closed || s.e == nil || s.st.dev.Virtual() || n <= 0 {
		return
	}
	size := int64(s.spec.DType.Size())
	s.st.hints = append(s.st.hints, part{s.e, at * size, n * size})
	s.st.ahead(State, nil, part{}, s.st.hinted)
}

// Flush waits until all that was written is in place, and gives the error of the first write that failed.
func (s *state) Flush() error {
	if s.st.closed || s.e == nil {
		return fmt.Errorf("offload: Flush of %s: it is closed", s.name)
	}
	s.st.hints = slices.DeleteFunc(s.st.hints, func(p part) bool { return p.e == s.e })
	if err := s.e.flush(); err != nil {
		return fmt.Errorf("%w: %s", err, s.name)
	}
	return nil
}

// Certain tells whether reads and writes cannot fail: in memory.
func (s *state) Certain() bool { return s.e != nil && s.e.buf != nil }

// Close gives the room back. A second Close does nothing.
func (s *state) Close() error {
	if e := s.e; e != nil {
		s.e = nil
		s.st.hints = slices.DeleteFunc(s.st.hints, func(p part) bool { return p.e == e })
		e.free()
	}
	return nil
}

// hinted is what Ahead announced.
func (st *Store) hinted(yield func(part) bool) {
	for _, p := range st.hints {
		if !yield(p) {
			return
		}
	}
}

// unhint takes a part out of what Ahead announced.
func (st *Store) unhint(p part) {
	if i := slices.Index(st.hints, p); i >= 0 {
		st.hints = slices.Delete(st.hints, i, i+1)
	}
}
