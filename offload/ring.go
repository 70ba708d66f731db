package offload

import (
	"cmp"
	"slices"
	"time"

	"github.com/thimble-ml/thimble/memory"
)

// slot is a block of the ring. It is free, or being written to a file, or being or having been read from one for an
// extent that has not asked for it yet. The lists of ring say which.
type slot struct {
	job
	block []byte // nil on a virtual device
	done  chan struct{}
	own   *extent
	index int  // which block of own
	ended bool // the session's goroutine knows that the job has ended
}

// ring is the staging memory of a store, of fixed size, and what happens in it.
type ring struct {
	buf     *memory.Buffer
	movers  *movers
	free    []*slot
	writing []*slot // oldest first
	reading []*slot // oldest first
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
	r := &ring{buf: buf, stats: &st.stats, trace: c.Trace}
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
	r.movers.jobs <- sl // never blocks: the channel has room for all slots
}

// spare gives a free slot, nil if there is none at this moment.
func (r *ring) spare() *slot {
	if len(r.free) == 0 {
		r.reap()
	}
	n := len(r.free)
	if n == 0 {
		return nil
	}
	sl := r.free[n-1]
	r.free = r.free[:n-1]
	return sl
}

// take gives a free slot. It waits for the oldest write, or else gives up what was read ahead first.
func (r *ring) take() *slot {
	for {
		if sl := r.spare(); sl != nil {
			return sl
		}
		if len(r.writing) > 0 {
			r.finish(r.writing[0])
		} else {
			r.finish(r.reading[0])
		}
	}
}

// reap frees the slots of writes that have ended.
func (r *ring) reap() {
	for _, sl := range slices.Clone(r.writing) {
		select {
		case <-sl.done:
			r.ended(sl)
			r.finish(sl)
		default:
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
		r.traced(Transfer{Move: Wait, Role: sl.own.role, Bytes: sl.n, Start: start, End: end})
	}
	r.ended(sl)
}

// ended takes note of a job that has ended.
func (r *ring) ended(sl *slot) {
	sl.ended = true
	move := Read
	if sl.write {
		move = Write
		r.stats.Written += sl.n
	} else {
		r.stats.Read += sl.n
	}
	r.traced(Transfer{Move: move, Role: sl.own.role, Bytes: sl.n, Start: sl.start, End: sl.end})
}

func (r *ring) traced(t Transfer) {
	if r.trace != nil {
		r.trace(t)
	}
}

// finish waits for a job and frees its slot: of a write, or of a read whose data have been taken or are given up.
func (r *ring) finish(sl *slot) {
	r.wait(sl)
	e := sl.own
	e.slots[sl.index] = nil
	if sl.write {
		e.sums[sl.index], e.has[sl.index], e.err = sl.sum, sl.err == nil, cmp.Or(e.err, sl.err)
		r.writing = without(r.writing, sl)
	} else {
		r.reading = without(r.reading, sl)
	}
	sl.own, sl.ended, sl.err = nil, false, nil
	r.free = append(r.free, sl)
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
