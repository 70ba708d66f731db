package data

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"math"
	"time"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// LoaderConfig says how a Loader makes batches.
type LoaderConfig struct {
	// Batch is the items a batch. Required, unless there is a BatchSampler.
	Batch int
	// Shuffle takes the items in the order of [Shuffle], another one in each epoch; otherwise in theirs.
	Shuffle bool
	// Seed is of the orders and of the items' random streams.
	Seed uint64
	// DropLast leaves out the last batch of an epoch if it is not full. Otherwise it is shorter.
	DropLast bool
	// Sampler, in place of Shuffle, gives the items of an epoch, in order. It is called when the epoch opens, and must
	// depend on nothing but the epoch: resuming asks again.
	Sampler func(epoch int) []int32
	// BatchSampler, in place of Batch, Shuffle, DropLast and Sampler, gives the items of each batch of an epoch.
	BatchSampler func(epoch int) [][]int32

	// Workers is how many goroutines read items, all at the batch that is due first. 0: they are read within Next. No
	// value depends on it.
	Workers int
	// Prefetch is how many batches a worker, read or being read, are ahead of the one in use. Default 2 with Workers;
	// it must be 0 without.
	Prefetch int
	// QueueBytes bounds the bytes of the batches ahead, below what Prefetch asks for. 0: no further bound.
	QueueBytes int64
	// Timeout is how long Next waits for a batch before it gives up with context.DeadlineExceeded. 0: for ever.
	Timeout time.Duration
	// PageLock keeps the batches' memory in RAM (memory.Buffer.Lock), as far as the system allows; see Epoch.Locked.
	PageLock bool
}

// Loader goes through a data set in batches: torch's DataLoader. The batches' memory comes from a device, counted as
// memory.Input; it is taken when an epoch opens, used again and again, and given back when the epoch ends, so that a step
// of training allocates nothing for its data, and slow data cost time, never bytes. A loader belongs to one goroutine, that
// of the session, and has one open epoch at a time.
type Loader struct {
	dev *memory.Device
	ds  Dataset
	cfg LoaderConfig

	fields []tensor.Spec
	items  int
	open   *Epoch
	state  LoaderState
	loaded bool // state came from Load, and no epoch was opened since
}

// NewLoader makes a loader of batches of ds on dev.
func NewLoader(dev *memory.Device, ds Dataset, cfg LoaderConfig) (*Loader, error) {
	l := &Loader{dev: dev, ds: ds, cfg: cfg}
	err := errors.New("the device or the data set is nil")
	if dev != nil && ds != nil {
		l.items, l.fields = ds.Len(), ds.Fields()
		err = first(l.checkData(), l.checkOrder(), l.checkWorkers())
	}
	if err != nil {
		return nil, fmt.Errorf("data: NewLoader: %w", err)
	}
	if cfg.Workers > 0 && cfg.Prefetch == 0 {
		l.cfg.Prefetch = 2
	}
	l.state = l.at(0, 0)
	return l, nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Loader) checkData() error {
	if l.items < 1 || l.items > math.MaxInt32 {
		return fmt.Errorf("a data set of %d items: want 1 to %d", l.items, math.MaxInt32)
	}
	if len(l.fields) == 0 {
		return errors.New("the data set has no fields: want the dtype and shape of one or more")
	}
	for k, s := range l.fields {
		if err := s.Validate(); err != nil {
			return fmt.Errorf("field %d: %w", k, err)
		}
	}
	return nil
}

// checkOrder: of several ways to say the same only one may be taken, as in torch.
func (l *Loader) checkOrder() error {
	c := &l.cfg
	switch {
	case c.BatchSampler != nil:
		if c.Batch != 0 || c.Shuffle || c.DropLast || c.Sampler != nil {
			return errors.New("BatchSampler excludes Batch, Shuffle, DropLast and Sampler: it decides what they would")
		}
	case c.Batch < 1:
		return fmt.Errorf("the field Batch is %d: want 1 or more items, or a BatchSampler", c.Batch)
	case c.Sampler != nil && c.Shuffle:
		return errors.New("a Sampler excludes Shuffle: a sampler gives the order itself")
	case c.DropLast && c.Sampler == nil && c.Batch > l.items:
		return fmt.Errorf("the field Batch is %d with DropLast: want at most %d, the items of the data set, or no batch is ever full", c.Batch, l.items)
	}
	return nil
}

func (l *Loader) checkWorkers() error {
	c := &l.cfg
	switch {
	case c.Workers < 0 || c.Prefetch < 0 || c.QueueBytes < 0 || c.Timeout < 0:
		return fmt.Errorf("fields Workers %d, Prefetch %d, QueueBytes %d, Timeout %v: want 0 or more", c.Workers, c.Prefetch, c.QueueBytes, c.Timeout)
	case c.Workers == 0 && (c.Prefetch > 0 || c.QueueBytes > 0 || c.Timeout > 0):
		return fmt.Errorf("fields Prefetch %d, QueueBytes %d, Timeout %v without Workers: nothing is read ahead or waited for", c.Prefetch, c.QueueBytes, c.Timeout)
	}
	return nil
}

// Epoch goes through the batches of an epoch: the loop that trainings are written in. It opens the epoch and, however the
// loop ends, closes it. An error comes with a nil batch, and is the last thing that comes. An epoch begins with its first
// batch, also when a loop over it was left early before; only Load has it begin further on.
//
//	for batch, err := range loader.Epoch(ctx, epoch) {
//		if err != nil {
//			return err
//		}
//		... batch.X, batch.Y
//	}
func (l *Loader) Epoch(ctx context.Context, epoch int) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		e, err := l.Open(ctx, epoch)
		if err != nil {
			yield(nil, err)
			return
		}
		defer e.Close()
		for {
			b, err := e.Next()
			if err == io.EOF || !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// LoaderState is where a loader stands, to be saved beside the model. The rest of it tells whether a loader that is to go
// on from there is the same.
type LoaderState struct {
	Epoch int // of the next batch
	Batch int // its number in the epoch: that many were given to the user

	Items    int    // of the data set
	Size     int    // LoaderConfig.Batch
	Shuffle  bool   // and the like
	DropLast bool   //
	Seed     uint64 //
	Order    uint64 // a hash of the epoch's order, 0 before the first epoch
}

// at is the state at a position.
func (l *Loader) at(epoch, batch int) LoaderState {
	return LoaderState{
		Epoch: epoch, Batch: batch,
		Items: l.items, Size: l.cfg.Batch, Shuffle: l.cfg.Shuffle, DropLast: l.cfg.DropLast, Seed: l.cfg.Seed,
	}
}

// State is the position behind the last batch that the user was given; what was read ahead does not count. A batch counts
// once it was given, so that the place to save is after its step.
func (l *Loader) State() LoaderState {
	st := l.state
	if l.open != nil {
		st.Order = l.open.hash()
	}
	return st
}

// Load goes on from st: the next epoch to open must be st.Epoch, and begins with batch st.Batch. The loader must be like
// the one that st was taken from, but for workers and what goes with them.
func (l *Loader) Load(st LoaderState) error {
	if err := l.accepts(st); err != nil {
		return fmt.Errorf("data: Loader.Load: %w", err)
	}
	l.state, l.loaded = st, true
	return nil
}

func (l *Loader) accepts(st LoaderState) error {
	want := l.at(st.Epoch, st.Batch)
	want.Order = st.Order
	switch {
	case l.open != nil:
		return fmt.Errorf("epoch %d is open: load between epochs", l.open.epoch)
	case st.Epoch < 0 || st.Batch < 0:
		return fmt.Errorf("the state is at batch %d of epoch %d: want 0 or more", st.Batch, st.Epoch)
	case st != want:
		return fmt.Errorf("the state is of another loader, %s: this one has %s", st.config(), want.config())
	}
	return nil
}

// config is what must be equal, for messages.
func (st LoaderState) config() string {
	return fmt.Sprintf("%d items, Batch %d, Shuffle %v, DropLast %v, Seed %d", st.Items, st.Size, st.Shuffle, st.DropLast, st.Seed)
}

// plan gives the items of each batch of an epoch.
func (l *Loader) plan(epoch int) ([][]int32, error) {
	c := &l.cfg
	if c.BatchSampler != nil {
		batches := c.BatchSampler(epoch)
		for i, b := range batches {
			if len(b) == 0 {
				return nil, fmt.Errorf("BatchSampler: batch %d is empty", i)
			}
			if err := l.inRange("BatchSampler", b); err != nil {
				return nil, err
			}
		}
		return batches, nil
	}
	order, err := l.order(epoch)
	if err != nil {
		return nil, err
	}
	var batches [][]int32
	for len(order) > 0 {
		n := min(c.Batch, len(order))
		if n < c.Batch && c.DropLast {
			break
		}
		batches, order = append(batches, order[:n:n]), order[n:]
	}
	return batches, nil
}

// order gives the items of an epoch.
func (l *Loader) order(epoch int) ([]int32, error) {
	switch {
	case l.cfg.Sampler != nil:
		order := l.cfg.Sampler(epoch)
		return order, l.inRange("Sampler", order)
	case l.cfg.Shuffle:
		return Shuffle(l.items, l.cfg.Seed, uint64(epoch)), nil
	}
	order := make([]int32, l.items)
	for i := range order {
		order[i] = int32(i)
	}
	return order, nil
}

func (l *Loader) inRange(who string, idx []int32) error {
	for k, i := range idx {
		if i < 0 || int(i) >= l.items {
			return fmt.Errorf("%s: item %d at %d: want 0 to %d", who, i, k, l.items-1)
		}
	}
	return nil
}

// hash is of the order of the epoch (FNV-1a), never 0.
func (e *Epoch) hash() uint64 {
	if e.order == 0 {
		h := fnv.New64a()
		var b []byte
		for _, batch := range e.batches {
			b = binary.LittleEndian.AppendUint32(b[:0], uint32(len(batch)))
			for _, i := range batch {
				b = binary.LittleEndian.AppendUint32(b, uint32(i))
			}
			h.Write(b)
		}
		e.order = h.Sum64() | 1
	}
	return e.order
}
