package optim

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// A Step with stored state goes through tiles of the parameters. While one is computed, the next is read, the one before
// is written, and what the parameter holds in the next is logged:
//
//	read i   ahead i+1   wait for the log of i   log i+1   compute i   write i
//
// Rules that want whole parameters (Adafactor) have tiles of whole parameters; their state is small.

// tileElems is the elements of a tile: whole chunks, so that a tile is cut into the chunks that the whole would be.
const tileElems = 16 * kernel.ChunkSize

// tile is elements [lo, hi) of a parameter.
type tile struct {
	sl     *slot
	lo, hi int
}

// tiler passes through the tiles of some parameters.
type tiler struct {
	c     *core
	s     *autograd.Scope
	list  []*slot
	bufs  []*memory.Buffer // one for each moment
	tiles []tile
	begun int // tiles whose update has begun
}

// newTiler takes the buffers for parameters with stored state: nothing can run out of memory later.
func (c *core) newTiler(s *autograd.Scope, list []*slot) (*tiler, error) {
	t := &tiler{c: c, s: s, list: list}
	var sizes []int64
	for _, sl := range list {
		if err := c.prepare(&sl.room, sl.par, c.groups[sl.group]); err != nil {
			return nil, err
		}
		for k, st := range sl.stored {
			if len(sizes) <= k {
				sizes = append(sizes, 0)
			}
			if st != nil {
				sizes[k] = max(sizes[k], int64(min(st.spec.Elems(), c.tileOf(sl)))*int64(st.spec.DType.Size()))
			}
		}
	}
	for _, n := range sizes {
		if n == 0 {
			t.bufs = append(t.bufs, nil)
			continue
		}
		b, err := c.ss.Device().Alloc(n, memory.Staging, memory.Site{Op: c.op, Scope: "tiles"})
		if err != nil {
			t.release()
			return nil, err
		}
		t.bufs = append(t.bufs, b)
	}
	return t, nil
}

func (t *tiler) release() {
	for _, b := range t.bufs {
		if b != nil {
			b.Release()
		}
	}
	t.bufs = nil
}

// tileOf is the elements in a tile of sl.
func (c *core) tileOf(sl *slot) int {
	if _, wholes := c.groups[sl.group].(whole); wholes {
		return max(1, sl.par.Spec().Elems())
	}
	return tileElems
}

// cut lists the tiles of the parameters that are updated in place, or of the others.
func (t *tiler) cut(direct bool) {
	t.tiles, t.begun = t.tiles[:0], 0
	for _, sl := range t.list {
		n, size := sl.par.Spec().Elems(), t.c.tileOf(sl)
		for lo := 0; lo < n && sl.direct == direct; lo += size {
			t.tiles = append(t.tiles, tile{sl, lo, min(n, lo+size)})
		}
	}
}

// run updates the parameters: first those whose update can fail and be taken back, then what the caller does in between,
// which may fail too, then those whose update cannot fail. With an error, or a panic of between, nothing has changed.
func (t *tiler) run(between func() error) (err error) {
	kept := false
	t.cut(false)
	defer func() {
		if !kept {
			err = errors.Join(err, t.putBack())
		}
	}()
	if err := t.pass(); err != nil {
		return err
	}
	for _, sl := range t.list {
		if err := sl.flush(); err != nil {
			return err
		}
	}
	if err := between(); err != nil {
		return err
	}
	kept = true
	t.cut(true)
	if err := t.pass(); err != nil {
		return fmt.Errorf("a store that says that it is certain failed, and the step is half done: %w", err)
	}
	for _, sl := range t.list {
		if !t.c.ss.Device().Forked() {
			sl.flip()
		}
		sl.steps++
	}
	return nil
}

// pass goes through the tiles.
func (t *tiler) pass() error {
	if len(t.tiles) > 0 {
		if err := t.log(0); err != nil {
			return err
		}
	}
	for i := range t.tiles {
		x := &t.tiles[i]
		part := t.part(x)
		if err := t.read(x, &part); err != nil {
			return err
		}
		t.ahead(i + 1)
		if err := t.logged(i); err != nil {
			return err
		}
		if err := t.log(i + 1); err != nil {
			return err
		}
		t.begun = i + 1
		t.compute(x, &part)
		if err := t.write(x, &part); err != nil {
			return err
		}
	}
	return nil
}

// part is a tile as the rules see it: a parameter that is the tile.
func (t *tiler) part(x *tile) slot {
	part := slot{par: x.sl.par, group: x.sl.group, steps: x.sl.steps, w: x.sl.w, g: x.sl.g, factor: x.sl.factor, id: x.sl.id, base: x.lo}
	if _, wholes := t.c.groups[x.sl.group].(whole); !wholes {
		part.w, part.g = x.of(&x.sl.w), x.of(&x.sl.g)
	}
	for k, st := range x.sl.stored {
		switch {
		case st == nil && part.w.Elems() == x.sl.w.Elems():
			part.state = append(part.state, x.sl.state[k])
		case st == nil:
			part.state = append(part.state, x.of(&x.sl.state[k]))
		default:
			n := st.spec.Elems()
			if st.spec.SameShape(x.sl.par.Spec()) {
				n = x.hi - x.lo
			}
			part.state = append(part.state, tensor.Over(t.bufs[k], tensor.Of(st.spec.DType, n)))
		}
	}
	return part
}

// of is the tile of a tensor of the parameter's spec, flat.
func (x *tile) of(t *tensor.Tensor) tensor.Tensor {
	flat, err := t.Reshape(t.Elems())
	if err == nil {
		flat, err = flat.Slice(0, x.lo, x.hi)
	}
	if err != nil {
		panic(fmt.Sprintf("optim: a tile of %s: %v", x.sl.par.Name(), err)) // parameters, gradients and moments are contiguous
	}
	return flat
}

// read fills the moments of a tile. Before the first update they are zero.
func (t *tiler) read(x *tile, part *slot) error {
	for k, st := range x.sl.stored {
		var err error
		switch {
		case st == nil:
		case x.sl.steps == 0:
			err = tensor.Fill(&part.state[k], 0)
		default:
			err = st.old().Read(part.state[k], int64(x.lo))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ahead announces tile i.
func (t *tiler) ahead(i int) {
	if i >= len(t.tiles) || t.tiles[i].sl.steps == 0 {
		return
	}
	x := &t.tiles[i]
	for _, st := range x.sl.stored {
		if st != nil {
			st.old().Ahead(int64(x.lo), int64(min(x.hi, st.spec.Elems())-x.lo))
		}
	}
}

// log writes down what the parameter holds in tile i, if it is to be changed where it is.
func (t *tiler) log(i int) error {
	if i >= len(t.tiles) || t.tiles[i].undo() == nil {
		return nil
	}
	return t.tiles[i].undo().Write(t.tiles[i].value(), int64(t.tiles[i].lo))
}

// logged waits for it.
func (t *tiler) logged(i int) error {
	if t.tiles[i].undo() == nil {
		return nil
	}
	return t.tiles[i].undo().Flush()
}

// undo is where the tile is logged; nil for a parameter whose value is a copy from its Home.
func (x *tile) undo() Slot {
	if x.sl.direct || x.sl.par.Home() != nil {
		return nil
	}
	return x.sl.undo
}

func (x *tile) value() tensor.Tensor { return x.of(&x.sl.w) }

// compute applies the rule to a tile.
func (t *tiler) compute(x *tile, part *slot) {
	site := memory.Site{Op: t.c.op, Scope: t.s.Path()}
	w := autograd.Work{Scratch: t.c.halfWork([]*slot{x.sl}), Chunks: 1}
	if rule, wholes := t.c.groups[x.sl.group].(whole); wholes {
		w.Scratch += rule.scratch(x.sl.par.Spec())
		t.s.Run(site, w, func(r *autograd.Run) { r.Par(1, func(lane, _ int) { t.c.whole(part, lane, r.Lane(lane)) }) })
		return
	}
	n := x.hi - x.lo
	w.Chunks = kernel.Chunks(n)
	t.s.Run(site, w, func(r *autograd.Run) {
		r.Par(kernel.Chunks(n), func(lane, chunk int) {
			lo, hi := kernel.Range(n, chunk)
			t.c.update(part, lane, r.Lane(lane), lo, hi)
		})
	})
}

// write sends the moments of a tile to their place.
func (t *tiler) write(x *tile, part *slot) error {
	for k, st := range x.sl.stored {
		if st == nil {
			continue
		}
		if err := st.next().Write(part.state[k], int64(x.lo)); err != nil {
			return err
		}
	}
	return nil
}

const tries = 4 // at reading the log

// putBack gives the parameters what the log says they held. If the log cannot be read, the optimizer is broken.
func (t *tiler) putBack() error {
	for _, sl := range t.list {
		sl.giveUp()
	}
	for i := range t.tiles[:t.begun] {
		x := &t.tiles[i]
		if x.undo() == nil || t.c.ss.Device().Virtual() {
			continue
		}
		var err error
		for range tries {
			if err = x.undo().Read(x.value(), int64(x.lo)); err == nil {
				break
			}
		}
		if err != nil {
			t.c.broken = fmt.Errorf("elements %d to %d of %s hold what a failed step left, and its log cannot be read: load the parameters and the optimizer's state anew: %w", x.lo, x.hi, x.sl.par.Name(), err)
			return t.c.broken
		}
	}
	return nil
}
