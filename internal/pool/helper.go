package pool

import "sync/atomic"

// helper is a worker other than the caller: what others need to wake its goroutine.
type helper struct {
	parked atomic.Bool // set by the helper; whoever clears it owes one token, unless it is the helper itself
	wake   chan struct{}
	_      [48]byte // a cache line each
}

// unpark wakes the helper if it is parked or about to be.
func (h *helper) unpark() {
	if h.parked.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}

// park sleeps until unpark, unless ready says that there is no reason to.
func (h *helper) park(ready func() bool) {
	h.parked.Store(true)
	// Who published something before it saw parked set did not wake this helper, but is seen here.
	if ready() && h.parked.CompareAndSwap(true, false) {
		return
	}
	<-h.wake
}

// help is the life of a helper's goroutine. last is the job that it was in last.
func (p *Pool) help(h *helper, last uint64) {
	over := false
	defer func() {
		if !over { // Goexit in f: the goroutine cannot be kept, the helper can
			p.ended.Add(1)
			go p.help(h, last)
		}
		p.ended.Done()
	}()
	for !p.closed.Load() {
		lane, now, ok := p.lookOut(last)
		if ok {
			last = now
			p.assist(lane)
			continue
		}
		h.park(func() bool { return p.closed.Load() || may(p.job.gate.word.Load(), last) })
	}
	over = true
}

// lookOut spins for a while and joins a job if there is one.
func (p *Pool) lookOut(last uint64) (lane int, now uint64, ok bool) {
	for s := newSpin(); ; {
		if lane, now, ok = p.job.gate.join(last); ok || p.closed.Load() || !s.on() {
			return lane, now, ok
		}
	}
}

// assist takes part in the job that was joined.
func (p *Pool) assist(lane int) {
	chunk, done := 0, false
	defer func() {
		if !done {
			v := recover()
			if v == nil { // f called Goexit, which goes on when this function returns
				v = &GoexitError{Lane: lane, Chunk: chunk}
			}
			p.job.fail(v)
		}
		p.job.leave()
	}()
	p.job.work(lane, &chunk)
	done = true
}
