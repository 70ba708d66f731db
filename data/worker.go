package data

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// job is a batch that is being read. The queue's lock guards all but slot and items, which do not change.
type job struct {
	slot  *slot
	batch int
	items []int32

	next  int // first row that no worker took
	left  int // rows that are not finished
	err   error
	at    int           // row of err
	ready chan struct{} // closed when no row is left
}

// queue holds the jobs with rows to take, in the order of their batches. Workers take rows in order too: all help with the
// batch that is due first, and rows before one that fails have been taken before it, so that the error of a batch is that
// of its first bad item whatever the workers do.
type queue struct {
	mu     sync.Mutex
	more   *sync.Cond
	jobs   []*job
	closed bool
}

func newQueue() *queue {
	q := &queue{}
	q.more = sync.NewCond(&q.mu)
	return q
}

func (q *queue) push(j *job) {
	q.mu.Lock()
	q.jobs = append(q.jobs, j)
	q.mu.Unlock()
	q.more.Broadcast()
}

// close has take say no from now on.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.more.Broadcast()
}

// take gives a row to read, when there is one; ok is false when there will be none.
func (q *queue) take() (j *job, row int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && len(q.jobs) == 0 {
		q.more.Wait()
	}
	if q.closed {
		return nil, 0, false
	}
	j = q.jobs[0]
	row = j.next
	if j.next++; j.next == len(j.items) {
		q.drop(j)
	}
	return j, row, true
}

// drop takes a job off the queue, if it is there.
func (q *queue) drop(j *job) {
	if len(q.jobs) > 0 && q.jobs[0] == j {
		q.jobs[0] = nil
		q.jobs = q.jobs[1:]
	}
}

// finish says how reading a row went. After an error nobody takes further rows of that batch.
func (q *queue) finish(j *job, row int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.left--
	if err != nil {
		if j.err == nil || row < j.at {
			j.err, j.at = err, row
		}
		j.left -= len(j.items) - j.next
		j.next = len(j.items)
		q.drop(j)
	}
	if j.left == 0 {
		close(j.ready)
	}
}

// work is a worker: it reads rows until the epoch closes.
func (e *Epoch) work() {
	it := newItem()
	for {
		j, row, ok := e.queue.take()
		if !ok {
			return
		}
		e.get(it, j, row)
	}
}

// errExit is what a call of runtime.Goexit in Get becomes (a test's FailNow, for instance).
var errExit = errors.New("Get ended its goroutine (runtime.Goexit)")

// get reads one item and reports. It is one of the places that recover (law E1): a panic in a worker becomes the error of
// the batch, for the program would end otherwise, and the loop could not clean up.
func (e *Epoch) get(it *Item, j *job, row int) {
	i := j.items[row]
	err := errExit
	returned := false
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		} else if returned && err != nil {
			err = fmt.Errorf("caught %T in worker: %w", err, err)
		}
		if err != nil {
			err = fmt.Errorf("item %d: %w", i, err)
		}
		e.queue.finish(j, row, err)
	}()
	e.place(it, j.slot, row, i)
	err = e.l.ds.Get(e.ctx, it)
	returned = true
}

// PanicError is a panic in a worker, as the loop over the batches sees it.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // of the worker
}

// Error gives the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("caught panic in worker: %v\n%s", e.Value, e.Stack)
}

// Unwrap gives the value, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
