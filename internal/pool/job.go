package pool

import (
	"sync/atomic"
	"time"
)

// job is the call of Run that the workers are at. There is one at a time, used again and again.
//
// A helper takes part in three steps: it joins, which gives it a lane; it works, taking chunks until there are none;
// it leaves. The caller opens the job, works itself, closes the job to further helpers, and waits for those that have
// joined and not left. Whoever wakes up too late to join is not waited for.
type job struct {
	gate gate
	_    [64]byte // gate and next are written by all workers, and not at the same moments
	next atomic.Int64
	_    [56]byte

	// Written by the caller while the gate is closed and nobody is inside, read by those who came in.
	chunks int
	f      func(lane, chunk int)

	failed   atomic.Bool
	failure  any           // the first panic of a helper, set by whoever set failed
	finished chan struct{} // the last helper has left, if the caller waits for that
}

// open publishes a job for n lanes, of which the caller has lane 0.
func (j *job) open(n, chunks int, f func(lane, chunk int)) {
	j.chunks, j.f = chunks, f
	j.next.Store(0)
	j.gate.open(n)
}

// work runs chunks until there are no more. at is the one that it is in, for who wants to know afterwards.
func (j *job) work(lane int, at *int) {
	f, chunks := j.f, int64(j.chunks)
	for {
		c := j.next.Add(1) - 1
		if c >= chunks {
			return
		}
		*at = int(c)
		f(lane, int(c))
	}
}

// stop lets no more chunks be handed out.
func (j *job) stop() { j.next.Store(int64(j.chunks)) }

// fail keeps the first panic.
func (j *job) fail(v any) {
	if j.failed.CompareAndSwap(false, true) {
		j.failure = v
	}
	j.stop()
}

// leave is a helper's last step. It must not touch the job after it.
func (j *job) leave() {
	if j.gate.leave() {
		j.finished <- struct{}{}
	}
}

// close lets nobody in any more, waits until all helpers have left, and gives the first panic of one of them.
func (j *job) close() (failure any, failed bool) {
	if !j.gate.close() && !j.emptied() && j.gate.wait() {
		<-j.finished
	}
	failure, failed = j.failure, j.failed.Load()
	j.f, j.failure = nil, nil
	j.failed.Store(false)
	return failure, failed
}

// emptied spins for a while and reports whether all helpers have left.
func (j *job) emptied() bool {
	for s := newSpin(); s.on(); {
		if j.gate.empty() {
			return true
		}
	}
	return false
}

// spinTime is how long a worker looks out before it parks: longer than the pieces of a training step that one worker computes
// alone, so that the others are awake when there is work again.
const spinTime = 100 * time.Microsecond

// spin is the clock of a loop that spins.
type spin struct {
	start time.Time
	idle  bool // never spin
}

func newSpin() spin {
	if procs() < 2 {
		return spin{idle: true}
	}
	return spin{start: time.Now()}
}

// on reports whether to go on spinning. Reading the clock, which takes some tens of nanoseconds and little else of the
// processor, is also the pause between two looks.
func (s *spin) on() bool { return !s.idle && time.Since(s.start) < spinTime }
