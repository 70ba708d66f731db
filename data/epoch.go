package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Batch is what a loader gives. Its tensors are the loader's: they are valid until the next batch is asked for, and nobody
// writes to them in between. A copy (tensor.Contiguous) lasts.
type Batch struct {
	Index  int              // number in its epoch
	Items  []int32          // numbers of its items
	X, Y   *tensor.Tensor   // fields 0 and 1; nil if the data set has fewer
	Fields []*tensor.Tensor // all of them, [batch ...]
}

// Epoch is one pass through the data that is open. Most loops need [Loader.Epoch] only; it is for those that ask for
// batches from the inside, as a step over several micro-batches does.
type Epoch struct {
	l       *Loader
	epoch   int
	ctx     context.Context
	batches [][]int32
	order   uint64 // hash of batches; 0: not yet known

	ring  []*slot
	given int // batches that the user had, those before the resumption included
	sent  int // batches that workers were told to read
	inUse bool

	cancel  context.CancelFunc
	queue   *queue // nil without workers
	workers sync.WaitGroup
	item    *Item // of the caller, without workers
	err     error // once it has failed or ended

	locked  int64
	lockErr error
}

// slot is the memory of one batch.
type slot struct {
	tensors []*tensor.Tensor
	fields  []field
	batch   Batch
	job     *job
}

// Open opens an epoch, which begins with its first batch, or where a loaded state says. It takes the memory for the batch
// in use and those ahead. The caller closes it. In a dry run it is refused: open the epoch before, and what it holds is
// counted.
func (l *Loader) Open(ctx context.Context, epoch int) (*Epoch, error) {
	e, err := l.opened(ctx, epoch)
	if err != nil {
		return nil, fmt.Errorf("data: open epoch %d: %w", epoch, err)
	}
	l.open, l.loaded, l.state = e, false, l.at(epoch, e.given)
	for range e.ring {
		e.send()
	}
	return e, nil
}

func (l *Loader) opened(ctx context.Context, epoch int) (*Epoch, error) {
	switch {
	case ctx == nil:
		return nil, errors.New("the context is nil: want context.Background()")
	case epoch < 0 || uint64(epoch) >= 1<<32:
		return nil, errors.New("want 0 to 2^32-1")
	case l.open != nil:
		return nil, fmt.Errorf("epoch %d is open: close it first, or make another loader", l.open.epoch)
	case l.dev.Forked():
		return nil, errors.New("within a dry run: open it before Plan")
	case l.loaded && epoch != l.state.Epoch:
		return nil, fmt.Errorf("the loaded state is at batch %d of epoch %d: begin with State().Epoch", l.state.Batch, l.state.Epoch)
	}
	batches, err := l.plan(epoch)
	if err != nil {
		return nil, err
	}
	e := &Epoch{l: l, epoch: epoch, batches: batches}
	if l.loaded {
		if err := e.resume(l.state); err != nil {
			return nil, err
		}
	}
	if err := e.allocate(); err != nil {
		e.release()
		return nil, err
	}
	e.ctx, e.cancel = context.WithCancel(ctx)
	e.start()
	return e, nil
}

// resume goes to the position of a loaded state.
func (e *Epoch) resume(st LoaderState) error {
	if st.Batch > len(e.batches) {
		return fmt.Errorf("the loaded state is at batch %d: want at most %d, the batches of the epoch", st.Batch, len(e.batches))
	}
	if st.Order != 0 && st.Order != e.hash() {
		return errors.New("the items come in another order than when the state was taken: the sampler must depend on the epoch alone")
	}
	e.given, e.sent = st.Batch, st.Batch
	return nil
}

// allocate takes the ring: a batch in use and those ahead, of the size of the largest.
func (e *Epoch) allocate() error {
	rows := 0
	for _, b := range e.batches[e.given:] {
		rows = max(rows, len(b))
	}
	n, err := e.l.ahead(rows)
	if err != nil {
		return err
	}
	for range min(n+1, len(e.batches)-e.given) {
		s := &slot{}
		e.ring = append(e.ring, s)
		for k, spec := range e.l.fields {
			t, err := e.l.batchTensor(spec, rows)
			if err != nil {
				return fmt.Errorf("field %d of %d batches: %w (fewer Workers, a lower Prefetch or QueueBytes take less)", k, n+1, err)
			}
			s.tensors = append(s.tensors, t)
			if !t.Buffer().Virtual() {
				s.fields = append(s.fields, newField(spec, t))
			}
			e.lock(t.Buffer())
		}
	}
	return nil
}

// ahead is how many batches of so many items are read before they are asked for.
func (l *Loader) ahead(rows int) (int, error) {
	n := l.cfg.Workers * l.cfg.Prefetch
	if l.cfg.QueueBytes == 0 || rows == 0 {
		return n, nil
	}
	each := int64(0)
	for _, spec := range l.fields {
		each += spec.Bytes() * int64(rows)
	}
	if each > l.cfg.QueueBytes {
		return 0, fmt.Errorf("QueueBytes is %d: want %d or more, the bytes of a batch", l.cfg.QueueBytes, each)
	}
	if each > 0 {
		n = int(min(int64(n), l.cfg.QueueBytes/each))
	}
	return n, nil
}

func (l *Loader) batchTensor(spec tensor.Spec, rows int) (*tensor.Tensor, error) {
	shape := append([]int{rows}, spec.Shape...)
	return tensor.New(l.dev, memory.Input, memory.Site{Op: "batch", Scope: "loader"}, tensor.Spec{DType: spec.DType, Shape: shape})
}

// lock keeps a buffer in RAM if that was asked for, and notes what stands against it.
func (e *Epoch) lock(b *memory.Buffer) {
	if !e.l.cfg.PageLock {
		return
	}
	n, err := b.Lock()
	e.locked += n
	if e.lockErr == nil {
		e.lockErr = err
	}
}

// Locked is how many bytes of the batches are locked in RAM, and why not all, if PageLock was asked for and refused.
func (e *Epoch) Locked() (int64, error) { return e.locked, e.lockErr }

// start starts the workers.
func (e *Epoch) start() {
	if e.l.cfg.Workers == 0 {
		e.item = newItem()
		return
	}
	e.queue = newQueue()
	for range e.l.cfg.Workers {
		e.workers.Go(e.work)
	}
}

// send has the workers read the next batch into the slot that is free.
func (e *Epoch) send() {
	if e.queue == nil || e.sent == len(e.batches) {
		return
	}
	s := e.slot(e.sent)
	s.job = &job{slot: s, batch: e.sent, items: e.batches[e.sent], ready: make(chan struct{})}
	s.job.left = len(s.job.items)
	e.sent++
	if e.l.dev.Virtual() { // no bytes, nothing to read
		close(s.job.ready)
		return
	}
	e.queue.push(s.job)
}

func (e *Epoch) slot(batch int) *slot { return e.ring[batch%len(e.ring)] }

// Len is the number of batches of the whole epoch.
func (e *Epoch) Len() int { return len(e.batches) }

// Next gives the next batch, and ends the use of the one before it. After the last it is [io.EOF], and the epoch is
// closed. After any other error the epoch is closed too. In a dry run it gives a batch to plan with, and stays where it is.
func (e *Epoch) Next() (*Batch, error) {
	if e.err != nil {
		return nil, e.err
	}
	if e.l.dev.Forked() {
		return e.dryBatch()
	}
	if e.inUse {
		e.inUse = false
		for _, t := range e.slot(e.given - 1).tensors {
			t.Bump() // whoever saved it for a backward pass is told
		}
		e.send()
	}
	if e.given == len(e.batches) {
		e.end(io.EOF)
		e.l.state = e.l.at(e.epoch+1, 0)
		return nil, io.EOF
	}
	s := e.slot(e.given)
	if err := e.await(s); err != nil {
		err = fmt.Errorf("data: epoch %d, batch %d: %w", e.epoch, e.given, err)
		e.end(err)
		return nil, err
	}
	s.show(e.given, e.batches[e.given])
	e.given++
	e.inUse = true
	e.l.state = e.l.at(e.epoch, e.given)
	return &s.batch, nil
}

// dryBatch is a batch of the size of the next, of which nothing is read.
func (e *Epoch) dryBatch() (*Batch, error) {
	at := min(e.given, len(e.batches)-1)
	if at < 0 || len(e.ring) == 0 {
		return nil, errors.New("data: an epoch without batches has none to plan with")
	}
	s := &slot{tensors: e.slot(at).tensors}
	s.show(at, e.batches[at])
	return &s.batch, nil
}

// await returns when the batch is in s.
func (e *Epoch) await(s *slot) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	if e.queue == nil {
		return e.read(s)
	}
	var late <-chan time.Time
	if e.l.cfg.Timeout > 0 {
		timer := time.NewTimer(e.l.cfg.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-s.job.ready:
		return s.job.err
	case <-e.ctx.Done():
		return e.ctx.Err()
	case <-late:
		return fmt.Errorf("it was not there after Timeout, %v: %w", e.l.cfg.Timeout, context.DeadlineExceeded)
	}
}

// read reads a batch in the caller's goroutine.
func (e *Epoch) read(s *slot) error {
	if e.l.dev.Virtual() {
		return nil
	}
	for row, i := range e.batches[e.given] {
		e.place(e.item, s, row, i)
		if err := e.l.ds.Get(e.ctx, e.item); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

// place points it at row of s, which it makes zero, for item i.
func (e *Epoch) place(it *Item, s *slot, row int, i int32) {
	it.index, it.epoch, it.seed, it.fields, it.row, it.drawn = int(i), e.epoch, e.l.cfg.Seed, s.fields, row, false
	for k := range s.fields {
		s.fields[k].clear(row)
	}
}

// show makes the batch that the user sees.
func (s *slot) show(index int, items []int32) {
	b := &s.batch
	b.Index, b.Items, b.Fields = index, items, b.Fields[:0]
	for _, t := range s.tensors {
		if t.Dim(0) > len(items) {
			v, _ := t.Slice(0, 0, len(items)) // within bounds
			t = &v
		}
		b.Fields = append(b.Fields, t)
	}
	b.X, b.Y = b.Fields[0], nil
	if len(b.Fields) > 1 {
		b.Y = b.Fields[1]
	}
}

// end closes the epoch for a reason.
func (e *Epoch) end(err error) {
	if e.err != nil {
		return
	}
	e.err = err
	e.cancel()
	if e.queue != nil {
		e.queue.close()
		e.workers.Wait()
	}
	e.l.state.Order = e.hash()
	e.release()
	e.l.open = nil
}

func (e *Epoch) release() {
	for _, s := range e.ring {
		for _, t := range s.tensors {
			t.Release()
		}
	}
	e.ring = nil
}

// errClosed is what Next gives after Close.
var errClosed = errors.New("data: the epoch is closed")

// Close ends the workers, waits for them, and gives the memory back: the batch in use too, whose tensors must not be used
// any more. A second Close does nothing.
func (e *Epoch) Close() { e.end(errClosed) }
