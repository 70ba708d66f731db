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
	slots []*slot // blocks that are in the ring
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
	e.sums, e.has, e.slots = make([]uint32, blocks), make([]bool, blocks), make([]*slot, blocks)
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
	for _, sl := range e.slots {
		if sl != nil {
			e.st.ring.finish(sl)
		}
	}
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

// writeBlock puts src into block b, from byte in on. What it leaves out of the block is read first.
func (e *extent) writeBlock(b int, in int64, src []byte) error {
	r, n := e.st.ring, e.length(b)
	whole := int64(len(src)) == n
	if sl := e.slots[b]; sl != nil && (whole || sl.write) {
		r.finish(sl)
	}
	var sl *slot
	if whole || !e.has[b] {
		sl = r.take()
		if !whole {
			clear(sl.block[:n])
		}
	} else {
		var err error
		if sl, err = e.arrive(b); err != nil {
			return err
		}
		r.reading = without(r.reading, sl)
	}
	copy(sl.block[in:], src)
	e.send(sl, b, true)
	e.has[b] = true
	return nil
}

// send starts the transfer of block b by way of sl.
func (e *extent) send(sl *slot, b int, write bool) {
	sl.own, sl.index, sl.ended = e, b, false
	n := e.length(b)
	sl.job = job{
		write: write, file: e.file.File, path: e.file.path, off: e.at + int64(b)*e.st.cfg.BlockBytes,
		mem: sl.block[:pages(n)], n: n, sum: e.sums[b],
	}
	e.slots[b] = sl
	e.st.ring.submit(sl)
}

// flush waits for all writes, and gives the error of the first that failed since the last flush. Blocks that failed count as
// never written. What was read ahead is given up.
func (e *extent) flush() error {
	for _, sl := range e.slots {
		if sl != nil {
			e.st.ring.finish(sl)
		}
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
		if sl := e.slots[b]; sl != nil && sl.write && e.err == nil {
			copy(dst[:k], sl.block[in:]) // on its way out: the ring still has it
			e.st.stats.Hits++
			dst, off = dst[k:], off+k
			continue
		}
		if err := e.start(b); err != nil {
			return err
		}
		e.st.ahead(part{e, off + k, int64(len(dst)) - k}, next)
		sl, err := e.arrive(b)
		if err != nil {
			return err
		}
		copy(dst[:k], sl.block[in:in+k])
		if in+k == e.length(b) { // else the rest will be asked for next
			e.st.ring.finish(sl)
		}
		dst, off = dst[k:], off+k
	}
	return nil
}

// start has block b come, if it is not on its way.
func (e *extent) start(b int) error {
	r := e.st.ring
	if sl := e.slots[b]; sl != nil && sl.write {
		r.finish(sl)
	}
	switch {
	case e.err != nil:
		return e.err
	case !e.has[b]:
		return fmt.Errorf("offload: bytes of the %s were asked for that nobody wrote", e.role)
	case e.slots[b] == nil:
		e.send(r.take(), b, false)
		e.st.stats.Misses++
	default:
		e.st.stats.Hits++
	}
	return nil
}

// arrive gives block b, which it has come if need be.
func (e *extent) arrive(b int) (*slot, error) {
	if e.slots[b] == nil {
		if err := e.start(b); err != nil {
			return nil, err
		}
	}
	sl := e.slots[b]
	e.st.ring.wait(sl)
	if err := sl.err; err != nil {
		e.st.ring.giveUpReads()
		return nil, err
	}
	return sl, nil
}

// part is a piece of an extent that will be asked for.
type part struct {
	e      *extent
	off, n int64
}

// ahead starts reading what will be asked for next, in that order, as far as the ring allows: first, the rest of what is
// being read, then next.
func (st *Store) ahead(first part, next iter.Seq[part]) {
	left := st.cfg.Ahead
	if left <= 0 || !st.aheadOf(first, &left) || next == nil {
		return
	}
	for p := range next {
		if !st.aheadOf(p, &left) {
			return
		}
	}
}

// aheadOf starts the blocks of p, and tells whether there is room for more. left counts down the blocks in the window.
func (st *Store) aheadOf(p part, left *int) bool {
	if p.n <= 0 || p.e.file == nil || p.e.err != nil {
		return true
	}
	size := st.cfg.BlockBytes
	for b := int(p.off / size); b <= int((p.off+p.n-1)/size); b++ {
		if *left == 0 {
			return false
		}
		*left--
		if p.e.slots[b] != nil || !p.e.has[b] {
			continue
		}
		sl := st.ring.spare()
		if sl == nil {
			return false
		}
		p.e.send(sl, b, false)
	}
	return true
}
