package optim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// StateStore keeps the state of optimizers away from the device: in files, in other memory. Package offload has one. An
// optimizer is given it in its config, opens slots for its moments when it is made, and passes through them tile by tile in
// each Step (ZeRO-Infinity, Rajbhandari et al., 2021, does so with NVMe), so that the device holds one tile of each moment.
//
// A Step with stored state happens wholly or not at all, as any other: new moments are written beside the old ones, what a
// parameter held is logged in the store before it is changed, and the step ends by switching over. That takes room for every
// stored moment twice, and for the parameters once; not in a store that is certain (see Slot).
type StateStore interface {
	// Open makes room for a tensor, its content undefined. A nil Slot leaves the tensor on the device. name is for errors.
	Open(name string, s tensor.Spec) (Slot, error)
}

// Slot is room for one tensor in a StateStore. Tiles are contiguous and of the tensor's dtype, at counts elements in
// row-major order. It is an alias of a literal, so that a store need not import this package. In a dry run tiles have no
// data, and a Slot changes nothing that lasts.
type Slot = interface {
	// Read fills dst with the elements from at on.
	Read(dst tensor.Tensor, at int64) error
	// Write puts src at element at. It keeps nothing of src, and may return before the bytes are in place.
	Write(src tensor.Tensor, at int64) error
	// Ahead says that n elements from at will be read soon.
	Ahead(at, n int64)
	// Flush waits until all that was written is in place, and gives the error of the first Write that failed since the last
	// Flush. What was announced to be read is forgotten.
	Flush() error
	// Certain tells whether reads and writes cannot fail, because they are copies in memory.
	Certain() bool
	// Close gives the room back.
	Close() error
}

// room is where the state of a parameter is.
type room struct {
	state  []tensor.Tensor // on the device; empty where it is stored
	stored []*stored       // nil where it is on the device; nil if all is
	undo   Slot            // the parameter's value before the running Step; nil: none needed so far
	direct bool            // Steps write over the stored state
}

// stored is a tensor of state in a StateStore. A Step reads slots[now] and writes the other one, or the same if there is
// only one.
type stored struct {
	name  string
	spec  tensor.Spec
	slots [2]Slot
	now   int
}

func (st *stored) old() Slot { return st.slots[st.now] }

func (st *stored) next() Slot {
	if st.slots[1] == nil {
		return st.slots[0]
	}
	return st.slots[1-st.now]
}

// flip makes what was written the content.
func (st *stored) flip() {
	if st.slots[1] != nil {
		st.now = 1 - st.now
	}
}

// any tells whether some of the state is stored.
func (r *room) any() bool { return r.stored != nil }

// flush waits for what was written to next.
func (r *room) flush() error {
	for _, st := range r.stored {
		if st == nil {
			continue
		}
		if err := st.next().Flush(); err != nil {
			return err
		}
	}
	return nil
}

// slots are all that are open.
func (r *room) slots() []Slot {
	list := []Slot{r.undo}
	for _, st := range r.stored {
		if st != nil {
			list = append(list, st.slots[0], st.slots[1])
		}
	}
	return slices.DeleteFunc(list, func(s Slot) bool { return s == nil })
}

// giveUp waits for what a Step that failed has begun, and forgets it.
func (r *room) giveUp() {
	for _, s := range r.slots() {
		_ = s.Flush()
	}
}

func (r *room) flip() {
	for _, st := range r.stored {
		if st != nil {
			st.flip()
		}
	}
}

// release gives everything back.
func (r *room) release() {
	releaseAll(r.state)
	for _, s := range r.slots() {
		_ = s.Close()
	}
	*r = room{}
}

// newRoom makes the state of p under cfg: zero on the device, undefined in a store, where it counts as zero until the first
// Step.
func (c *core) newRoom(p *autograd.Param, cfg config) (r room, err error) {
	defer func() {
		if err != nil {
			r.release()
		}
	}()
	list := kept(cfg, p.Spec())
	r.state, r.stored = make([]tensor.Tensor, len(list)), make([]*stored, len(list))
	stay := 0
	for k, m := range list {
		if r.stored[k], err = openState(cfg.store(), p, m); err != nil {
			return r, err
		}
		if r.stored[k] != nil {
			continue
		}
		stay++
		if r.state[k], err = c.newTensor(p, m); err != nil {
			return r, err
		}
	}
	if stay == len(list) {
		r.stored = nil
	}
	return r, c.prepare(&r, p, cfg)
}

// openState gives nil if the moment stays on the device.
func openState(store StateStore, p *autograd.Param, m moment) (*stored, error) {
	if store == nil {
		return nil, nil
	}
	st := &stored{name: p.Name() + "." + m.name, spec: m.spec}
	s, err := store.Open(st.name, m.spec)
	if err != nil {
		return nil, fmt.Errorf("%s of parameter %s in its store: %w", m.name, p.Name(), err)
	}
	if s == nil {
		return nil, nil
	}
	st.slots[0] = s
	return st, nil
}

// prepare opens what a Step needs so that it can be taken back: it depends on where the parameter lives.
func (c *core) prepare(r *room, p *autograd.Param, cfg config) error {
	if !r.any() {
		return nil
	}
	_, wholes := cfg.(whole)
	r.direct = !wholes && certainHome(p.Home())
	for _, st := range r.stored {
		r.direct = r.direct && (st == nil || st.old().Certain())
	}
	if r.direct || c.ss.Device().Forked() {
		return nil
	}
	open := func(to *Slot, name string, spec tensor.Spec) error {
		if *to != nil {
			return nil
		}
		s, err := cfg.store().Open(name, spec)
		if err == nil && s == nil {
			err = errors.New("the store keeps it on the device: want it where the moments are")
		}
		if err != nil {
			return fmt.Errorf("%s in its store: %w", name, err)
		}
		*to = s
		return nil
	}
	for _, st := range r.stored {
		if st == nil {
			continue
		}
		if err := open(&st.slots[1-st.now], st.name+" (next)", st.spec); err != nil {
			return err
		}
	}
	if p.Home() != nil {
		return nil
	}
	return open(&r.undo, p.Name()+" (undo)", p.Spec())
}

// certainHome tells whether a value that a Step has changed is sure to reach its place.
func certainHome(h autograd.Home) bool {
	if h == nil {
		return true
	}
	c, ok := h.(interface{ Certain() bool })
	return ok && c.Certain()
}
