package offload

import (
	"fmt"
	"iter"

	"github.com/thimble-ml/thimble/memory"
)

// extent is bytes at rest: a buffer of the host device, or a place in a file, cut into blocks that move one by one.
type extent struct {
	st   *Store
	role Role
	n    int64
	buf  *memory.Buffer // on Host

	file  *file // on Disk
	at    int64
	sums  []uint32
	has   []bool  // blocks that were written
	slots []place // where blocks are in the ring
	err   error   // of the first write that failed
}

// newExtent makes room for n bytes of a role.
func (st *Store) newExtent(t Tier, r Role, n int64, at memory.Site) (*extent, error) {
	e := &extent{st: st, role: r, n: n}
	if t == Host {
		buf, err := st.host.Alloc(n, hostKinds[r], at)
		if err != nil {
			return nil, fmt.Errorf("offload: %w", err)
		}
		e.buf, st.onHost[buf] = buf, true
		return e, nil
	}
	f, err := st.openFile(r)
	if err != nil {
		return nil, err
	}
	blocks := (n + st.cfg.BlockBytes - 1) / st.cfg.BlockBytes
	e.file, e.at = f, f.space.take(n)
	e.sums, e.has, e.slots = make([]uint32, blocks), make([]bool, blocks), make([]place, blocks)
	f.index(e)
	st.stats.Disk += pages(n)
	st.stats.DiskPeak = max(st.stats.DiskPeak, st.stats.Disk)
	return e, nil
}

var hostKinds = [...]memory.Kind{memory.Activation, memory.Param, memory.Grad, memory.OptState}

// free gives the room back. What is still being written there is waited for, so that the place is quiet.
func (e *extent) free() {
	if e.st.closed {
		return
	}
	if e.buf != nil {
		delete(e.st.onHost, e.buf)
		e.buf.Release()
		return
	}
	for b := len(e.slots) - 1; b >= 0; b-- {
		e.st.ring.drop(e, b)
	}
	e.file.forget(e)
	e.file.space.give(e.at, e.n)
	e.st.stats.Disk -= pages(e.n)
}

// write puts src at byte off. The source may change as soon as write returns; a transfer that fails later is reported by
// flush and read.
func (e *extent) write(src []byte, off int64) error {
	if e.buf != nil {
		copy(e.buf.Bytes()[off:], src)
		return nil
	}
	size := e.st.cfg.BlockBytes
	for len(src) > 0 {
		b, in := int(off/size), off%size
		k := min(int64(len(src)), e.length(b)-in)
		if err := e.writeBlock(b, in, src[:k]); err != nil {
			return err
		}
		src, off = src[k:], off+k
	}
	return nil
}

// length is the bytes of block b.
func (e *extent) length(b int) int64 {
	size := e.st.cfg.BlockBytes
	return min(size, e.n-int64(b)*size)
}

// offset is where block b begins in the file.
func (e *extent) offset(b int) int64 { return e.at + int64(b)*e.st.cfg.BlockBytes }

// writeBlock puts src into block b, from byte in on. What it leaves out of the block is read first.
func (e *extent) writeBlock(b int, in int64, src []byte) error {
	r := e.st.ring
	whole := int64(len(src)) == e.length(b)
	if p := e.slots[b]; p.slot != nil && (whole || p.write) {
		r.leave(e, b)
	}
	if !whole && e.has[b] {
		if _, err := e.arrive(b); err != nil {
			return err
		}
		sl := r.seize(e, b)
		copy(sl.block[in:], src)
		r.submit(sl)
		return nil
	}
	sl := r.room(e, b)
	dst := sl.add(e, b)
	if !whole {
		clear(dst)
	}
	copy(dst[in:], src)
	e.has[b] = true
	if sl.size() >= r.line {
		r.send()
	}
	return nil
}

// flush waits for all writes, and gives the error of the first that failed since the last flush. Blocks that failed count as
// never written. What was read ahead is given up.
func (e *extent) flush() error {
	for b := range e.slots {
		e.st.ring.leave(e, b)
	}
	err := e.err
	e.err = nil
	return err
}

// read fills dst from byte off. While it waits, blocks of what next gives are read ahead.
func (e *extent) read(dst []byte, off int64, next iter.Seq[part]) error {
	if e.buf != nil {
		copy(dst, e.buf.Bytes()[off:])
		return nil
	}
	size := e.st.cfg.BlockBytes
	for len(dst) > 0 {
		b, in := int(off/size), off%size
		k := min(int64(len(dst)), e.length(b)-in)
		if p := e.slots[b]; p.slot != nil && p.write && e.err == nil {
			copy(dst[:k], p.bytes()[in:]) // on its way out: the ring still has it
			e.st.stats.Hits++
			dst, off = dst[k:], off+k
			e.st.ahead(e.role, nil, part{e, off, int64(len(dst))}, next)
			continue
		}
		if err := e.start(b); err != nil {
			return err
		}
		e.st.ahead(e.role, e.slots[b].slot, part{e, off + k, int64(len(dst)) - k}, next)
		p, err := e.arrive(b)
		if err != nil {
			return err
		}
		copy(dst[:k], p.bytes()[in:])
		dst, off = dst[k:], off+k
	}
	return nil
}

// start has block b come, if it is not on its way.
func (e *extent) start(b int) error {
	r := e.st.ring
	if p := e.slots[b]; p.slot != nil && p.write {
		r.finish(p.slot)
	}
	switch p := e.slots[b]; {
	case e.err != nil:
		return e.err
	case !e.has[b]:
		return fmt.Errorf("offload: bytes of the %s were asked for that nobody wrote", e.role)
	case p.slot == nil:
		e.load(r.take(), b, false)
		e.st.stats.Misses++
	default:
		r.use(p.slot)
		e.st.stats.Hits++
	}
	return nil
}

// load begins to read block b into sl, with its neighbours unless it is to come alone.
func (e *extent) load(sl *slot, b int, alone bool) {
	r := e.st.ring
	if pages(e.length(b)) >= r.line || alone {
		r.run = append(r.run[:0], block{e, b})
	} else {
		r.run = e.file.around(e, b, r.line, r.run)
	}
	sl.begin(e.file, e.role, r.run[0].e.offset(r.run[0].b), false)
	for _, x := range r.run {
		sl.add(x.e, x.b)
	}
	r.submit(sl)
}

// arrive gives block b, which it has come if need be. Should it fail together with others, it is read again by itself: it may
// be theirs that went wrong.
func (e *extent) arrive(b int) (place, error) {
	r := e.st.ring
	if e.slots[b].slot == nil {
		if err := e.start(b); err != nil {
			return place{}, err
		}
	}
	for {
		p := e.slots[b]
		r.wait(p.slot)
		err, shared := p.piece().err, len(p.pieces) > 1
		if err == nil {
			return p, nil
		}
		r.giveUpReads()
		if !shared {
			return place{}, err
		}
		e.load(r.take(), b, true)
	}
}

// part is a piece of an extent that will be asked for.
type part struct {
	e      *extent
	off, n int64
}

// ahead starts reading what will be asked for next of a role, in that order, as far as the ring allows: first, the rest of what
// is being read (in slot now, which has to stay), then next.
func (st *Store) ahead(r Role, now *slot, first part, next iter.Seq[part]) {
	left := st.cfg.Ahead
	if left <= 0 || st.ring == nil {
		return
	}
	walk := &st.ring.walks[stream(r)]
	*walk++
	if now != nil {
		now.walk = *walk
	}
	if !st.aheadOf(first, *walk, &left) || next == nil {
		return
	}
	for p := range next {
		if !st.aheadOf(p, *walk, &left) {
			return
		}
	}
}

// aheadOf starts the blocks of p, and tells whether there is room for more. left counts down the slots in the window.
func (st *Store) aheadOf(p part, walk uint64, left *int) bool {
	if p.n <= 0 || p.e.file == nil || p.e.err != nil {
		return true
	}
	r, size := st.ring, st.cfg.BlockBytes
	for b := int(p.off / size); b <= int((p.off+p.n-1)/size); b++ {
		at := p.e.slots[b]
		if at.slot != nil && at.walk == walk {
			continue // came with a neighbour
		}
		if *left == 0 {
			return false
		}
		*left--
		switch {
		case at.slot != nil && !at.write:
			r.use(at.slot)
		case at.slot == nil && p.e.has[b]:
			if at.slot = r.spare(); at.slot == nil {
				return false
			}
			p.e.load(at.slot, b, false)
		}
		if at.slot != nil {
			at.walk = walk
		}
	}
	return true
}
