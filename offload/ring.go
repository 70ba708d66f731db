package offload

import (
	"cmp"
	"slices"
	"time"

	"github.com/thimble-ml/thimble/memory"
)

// longestLine is how many bytes are moved at once for the sake of neighbours: about what a disk moves in the time that it
// takes to begin.
const longestLine = 128 << 10

// slot is a block of the ring, and the pieces of extents in it. They lie side by side in a file and move as one: a large
// block alone, small ones with their neighbours. A slot is free, or taking what is written (filling), or being written, or
// being or having been read. The fields of ring say which.
type slot struct {
	job
	block []byte // nil on a virtual device
	done  chan struct{}
	ended bool   // the session's goroutine knows that the job has ended
	walk  uint64 // of ahead, that wanted it last
}

// begin makes the slot one for pieces of a file from off on.
func (sl *slot) begin(f *file, role Role, off int64, write bool) {
	sl.job = job{write: write, file: f.File, path: f.path, role: role, off: off, pieces: sl.pieces[:0]}
	sl.ended, sl.walk = false, 0
}

// add puts block b of e behind what is in the slot, and gives its place there.
func (sl *slot) add(e *extent, b int) []byte {
	n := e.length(b)
	at := sl.size()
	e.slots[b] = place{sl, len(sl.pieces)}
	sl.pieces = append(sl.pieces, piece{own: e, index: b, at: at, n: n, sum: e.sums[b]})
	return sl.block[at : at+n]
}

// place is where a block of an extent is in the ring.
type place struct {
	*slot // nil: nowhere
	k     int
}

func (p place) piece() *piece { return &p.pieces[p.k] }

func (p place) bytes() []byte {
	x := p.piece()
	return p.block[x.at : x.at+x.n]
}

// ring is the staging memory of a store, of fixed size, and what happens in it.
type ring struct {
	buf     *memory.Buffer
	movers  *movers
	line    int64                  // bytes of small blocks that move as one
	filling *slot                  // takes what is written, as long as it goes on where that ends; nil: none
	free    []*slot                //
	writing []*slot                // oldest first
	reading []*slot                // by last use
	run     []block                // of load, used again
	walks   [len(roleNames)]uint64 // of ahead, so far, by stream
	stats   *Stats
	trace   func(Transfer)
}

// openRing takes the ring from the device.
func (st *Store) openRing() error {
	c := &st.cfg
	buf, err := c.Device.Alloc(c.BlockBytes*int64(c.Blocks)+page, memory.Staging, memory.Site{Op: "offload", Scope: "ring"})
	if err != nil {
		return err
	}
	r := &ring{buf: buf, line: min(c.BlockBytes, longestLine), stats: &st.stats, trace: c.Trace}
	mem := buf.Bytes()
	skip := -buf.Addr() & (page - 1)
	for i := range int64(c.Blocks) {
		sl := &slot{done: make(chan struct{}, 1)}
		if mem != nil {
			from := skip + i*c.BlockBytes
			sl.block = mem[from : from+c.BlockBytes : from+c.BlockBytes]
		}
		r.free = append(r.free, sl)
	}
	if mem != nil {
		r.movers = startMovers(c.Workers, c.Blocks)
	}
	st.ring = r
	return nil
}

// close waits for what is under way and gives the memory back.
func (r *ring) close() {
	if r.movers != nil {
		r.movers.stop()
	}
	r.buf.Release()
}

// submit has a mover run the slot's job.
func (r *ring) submit(sl *slot) {
	if sl.write {
		r.writing = append(r.writing, sl)
	} else {
		r.reading = append(r.reading, sl)
	}
	sl.mem = sl.block[:sl.size()]
	r.movers.jobs <- sl // never blocks: the channel has room for all slots
}

// send submits what is filling.
func (r *ring) send() {
	if sl := r.filling; sl != nil {
		r.filling = nil
		r.submit(sl)
	}
}

// spare gives a slot that is free or can be without waiting, nil if there is none at this moment.
func (r *ring) spare() *slot {
	if len(r.free) == 0 {
		r.reap()
	}
	if len(r.free) == 0 {
		if i := slices.IndexFunc(r.reading, r.spent); i >= 0 {
			r.finish(r.reading[i])
		}
	}
	n := len(r.free)
	if n == 0 {
		return nil
	}
	sl := r.free[n-1]
	r.free = r.free[:n-1]
	return sl
}

// spent tells whether what was read is of no use any more, as far as one knows: it is not what the last walk of its stream
// wanted to have at hand.
func (r *ring) spent(sl *slot) bool {
	if sl.walk == r.walks[stream(sl.role)] {
		return false
	}
	select {
	case <-sl.done:
		r.ended(sl)
	default:
	}
	return sl.ended
}

// stream is what a role is predicted with: values and gradients are asked for in one order.
func stream(r Role) Role {
	if r == Grad {
		return Param
	}
	return r
}

// take gives a free slot. It waits for the oldest write, or else gives up what was read ahead first.
func (r *ring) take() *slot {
	for {
		if sl := r.spare(); sl != nil {
			return sl
		}
		switch {
		case len(r.writing) > 0:
			r.finish(r.writing[0])
		case len(r.reading) > 0:
			r.finish(r.reading[0])
		default:
			r.finish(r.filling)
		}
	}
}

// room gives the slot into which block b of e is to be written: what is filling, if the block goes on where that ends.
func (r *ring) room(e *extent, b int) *slot {
	off, n := e.offset(b), pages(e.length(b))
	if f := r.filling; f != nil && (f.file != e.file.File || f.off+f.size() != off || f.size()+n > r.line) {
		r.send()
	}
	if r.filling == nil {
		sl := r.take()
		sl.begin(e.file, e.role, off, true)
		r.filling = sl
	}
	return r.filling
}

// reap frees the slots of writes that have ended.
func (r *ring) reap() {
	for i := 0; i < len(r.writing); {
		sl := r.writing[i]
		select {
		case <-sl.done:
			r.ended(sl)
			r.finish(sl)
		default:
			i++
		}
	}
}

// wait returns when the slot's job has ended.
func (r *ring) wait(sl *slot) {
	if sl.ended {
		return
	}
	select {
	case <-sl.done:
	default:
		start := time.Now()
		<-sl.done
		end := time.Now()
		r.stats.Stall += end.Sub(start)
		r.traced(Transfer{Move: Wait, Role: sl.role, Bytes: sl.bytes(), Start: start, End: end})
	}
	r.ended(sl)
}

// ended takes note of a job that has ended.
func (r *ring) ended(sl *slot) {
	sl.ended = true
	move, n := Read, sl.bytes()
	if sl.write {
		move = Write
		r.stats.Written += n
	} else {
		r.stats.Read += n
	}
	r.traced(Transfer{Move: move, Role: sl.role, Bytes: n, Start: sl.start, End: sl.end})
}

func (r *ring) traced(t Transfer) {
	if r.trace != nil {
		r.trace(t)
	}
}

// use notes that a slot that was read is of use now.
func (r *ring) use(sl *slot) { r.reading = append(without(r.reading, sl), sl) }

// leave takes block b of an extent out of the ring. What is being written there has arrived then.
func (r *ring) leave(e *extent, b int) {
	p := e.slots[b]
	switch {
	case p.slot == nil:
		return
	case p.write:
		r.finish(p.slot)
		return
	}
	r.wait(p.slot)
	p.piece().own = nil
	e.slots[b] = place{}
	if !slices.ContainsFunc(p.pieces, func(x piece) bool { return x.own != nil }) {
		r.finish(p.slot)
	}
}

// drop is leave for a block that nobody wants any more: if it was the last to come to what is filling, it need not be written.
func (r *ring) drop(e *extent, b int) {
	p := e.slots[b]
	if p.slot == nil || p.slot != r.filling || p.k != len(p.pieces)-1 {
		r.leave(e, b)
		return
	}
	e.slots[b] = place{}
	p.pieces = p.pieces[:p.k]
	if p.k == 0 {
		r.filling = nil
		r.free = append(r.free, p.slot)
	}
}

// finish waits for a job and frees its slot: of a write, or of a read whose data have been taken or are given up.
func (r *ring) finish(sl *slot) {
	if sl == r.filling {
		r.send()
	}
	r.wait(sl)
	for i := range sl.pieces {
		p := &sl.pieces[i]
		if e := p.own; e != nil {
			e.slots[p.index] = place{}
			if sl.write {
				e.sums[p.index], e.has[p.index], e.err = p.sum, p.err == nil, cmp.Or(e.err, p.err)
			}
		}
		*p = piece{}
	}
	if sl.write {
		r.writing = without(r.writing, sl)
	} else {
		r.reading = without(r.reading, sl)
	}
	r.free = append(r.free, sl)
}

// seize makes the slot of a block that was read one in which it is written again, alone and at the begin. The job is to be
// submitted.
func (r *ring) seize(e *extent, b int) *slot {
	p := e.slots[b]
	sl := p.slot
	r.reading = without(r.reading, sl)
	copy(sl.block, p.bytes())
	for _, x := range sl.pieces {
		if x.own != nil {
			x.own.slots[x.index] = place{}
		}
	}
	sl.begin(e.file, e.role, e.offset(b), true)
	sl.add(e, b)
	return sl
}

// giveUpReads forgets all that was read and not asked for: after an error, of which the rest may have its share, and since
// nobody goes on where it stopped.
func (r *ring) giveUpReads() {
	for len(r.reading) > 0 {
		r.finish(r.reading[0])
	}
}

func without(list []*slot, sl *slot) []*slot {
	i := slices.Index(list, sl)
	return slices.Delete(list, i, i+1)
}
