package pool

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Pool is a fixed set of workers. One goroutine at a time gets them; see Run.
type Pool struct {
	workers int
	helpers []helper
	ended   sync.WaitGroup

	busy   atomic.Bool // somebody's Run has the workers
	closed atomic.Bool

	job job
}

// Most is the most workers that a pool can have.
const Most = maxLanes

// New makes a pool of the given number of workers, of which one is the caller of Run: workers-1 goroutines are started,
// which live until Close. It panics if workers is less than 1 or more than Most.
func New(workers int) *Pool {
	if workers < 1 || workers > Most {
		panic(fmt.Sprintf("pool: New(%d): want 1 to %d workers", workers, Most))
	}
	p := &Pool{workers: workers, helpers: make([]helper, workers-1)}
	p.job.finished = make(chan struct{}, 1)
	for i := range p.helpers {
		p.helpers[i].wake = make(chan struct{}, 1)
		p.ended.Add(1)
		go p.help(&p.helpers[i], 0)
	}
	return p
}

// Workers is the number that New was given.
func (p *Pool) Workers() int { return p.workers }

// Run calls f once for each chunk in [0, chunks), in the caller's goroutine and in workers, and returns when all calls
// have. Chunks are handed out in ascending order, each to whoever is free. At most min(Workers, lanes, chunks) calls
// run at once; lane is less than that number, and no two calls that run at once have the same. The caller has lane 0.
//
// With one worker, lane or chunk all calls run inline: in the caller's goroutine, in order, on lane 0. So they do when
// the pool's workers are taken, that is in a Run from inside f and in a Run by a second goroutine. (Inside an f that
// itself runs inline, because it was the only chunk, the workers are free, and a nested Run gets them.)
//
// If f panics no more chunks are handed out, those begun are waited for, and Run panics with the very same value; the
// first one, if several did. If f calls runtime.Goexit (as testing's FailNow does) in the caller's goroutine, Run waits
// likewise and the goroutine ends; in a worker, it becomes a panic of Run with a *GoexitError. The pool stays usable.
//
// Run panics if there are chunks but no lane, or the pool is closed.
func (p *Pool) Run(lanes, chunks int, f func(lane, chunk int)) {
	if lanes < 1 && chunks > 0 {
		panic(fmt.Sprintf("pool: Run of %d chunks on %d lanes: want at least 1", chunks, lanes))
	}
	if p.closed.Load() {
		panic("pool: Run after Close")
	}
	n := min(p.workers, lanes, chunks)
	if n > 1 && p.busy.CompareAndSwap(false, true) {
		p.share(n, chunks, f)
		return
	}
	for c := range chunks {
		f(0, c)
	}
}

// Close ends the workers and waits for them. A second Close does nothing. It panics if a Run is under way.
func (p *Pool) Close() {
	if !p.busy.CompareAndSwap(false, true) {
		panic("pool: Close during Run")
	}
	defer p.busy.Store(false)
	if p.closed.Swap(true) {
		return
	}
	for i := range p.helpers {
		p.helpers[i].unpark()
	}
	p.ended.Wait()
}

// share runs f on n lanes.
func (p *Pool) share(n, chunks int, f func(lane, chunk int)) {
	j := &p.job
	j.open(n, chunks, f)
	p.call(n - 1)
	at, done := 0, false
	defer func() {
		// Where f panicked or called Goexit, this is what stops and waits for the others.
		var own any
		if !done {
			own = recover() // nil means Goexit, which goes on when this function returns
			j.stop()
		}
		theirs, failed := j.close()
		p.busy.Store(false)
		switch {
		case own != nil:
			panic(own)
		case failed:
			panic(theirs)
		}
	}()
	j.work(0, &at)
	done = true
}

// call sees to it that n helpers look at the job. Those that are awake do anyway.
func (p *Pool) call(n int) {
	for i := range p.helpers[:n] {
		p.helpers[i].unpark()
	}
}

// GoexitError is what Run panics with when f called runtime.Goexit in a worker.
type GoexitError struct{ Lane, Chunk int }

// Error says what happened and what to do instead.
func (e *GoexitError) Error() string {
	return fmt.Sprintf("pool: runtime.Goexit in chunk %d on lane %d, which is a worker's goroutine "+
		"(t.FailNow, t.Fatal and require call it): report the failure to the caller instead", e.Chunk, e.Lane)
}

// procs is how many goroutines really run at once.
func procs() int { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) }
