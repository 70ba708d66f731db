package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/thimble-ml/thimble/memory"
)

// Recording is what happened to a device between two instants. Record makes one of a running program; one of a dry run is
// written down directly: Held is Device.Holders just before Session.Plan, Events are those of the plan's steps, one after
// the other.
type Recording struct {
	Device string
	Limit  int64           // of the arena, bytes; 0: none
	Held   []memory.Holder // what was alive before the first event
	Events []memory.Event
	Times  []time.Duration // since the recording began, one an event; nil: not known

	// Dropped is how many older events the bound has pushed out. What they left is in Held.
	Dropped uint64

	// Predicted is the peak that a dry run foretold, in bytes: a line in pictures; 0: none.
	Predicted int64
}

// RecordConfig of Record.
type RecordConfig struct {
	// Max is how many events are kept, the latest; 0: 131,072, which take 25 MB of Go's heap. A step of a 12-layer GPT has
	// about 2,000.
	Max int
}

const (
	defaultMax = 1 << 17
	chunkLen   = 1 << 8
)

// Recorder listens to a device.
type Recorder struct {
	dev   *memory.Device
	old   func(memory.Event)
	start time.Time
	max   int
	on    bool

	held    map[uint64]memory.Holder // alive before the first event that is kept
	chunks  []*chunk
	dropped uint64
}

// chunk is what is dropped at once.
type chunk struct {
	events []memory.Event
	times  []time.Duration
}

// Record begins to record d. It takes d's trace (memory.Device.SetTrace) until Stop and hands events on to who had it
// before; who records or watches one device several times stops the last first. A dry run that the device forks is left
// out. Nothing is recorded that nobody asked for: a device without a recorder makes no events.
func Record(d *memory.Device, c RecordConfig) (*Recorder, error) {
	if c.Max < 0 {
		return nil, fmt.Errorf("report: RecordConfig.Max is %d events: want 0 (%d) or more", c.Max, defaultMax)
	}
	if c.Max == 0 {
		c.Max = defaultMax
	}
	r := &Recorder{dev: d, start: time.Now(), max: c.Max, on: true, held: map[uint64]memory.Holder{}}
	for _, h := range d.Holders() {
		r.held[h.ID] = h
	}
	forked := d.Forked()
	r.old = d.SetTrace(func(e memory.Event) {
		if r.on && d.Forked() == forked {
			r.add(e)
		}
		if r.old != nil {
			r.old(e)
		}
	})
	return r, nil
}

// Stop ends the recording and gives it. A second Stop gives it again.
func (r *Recorder) Stop() *Recording {
	if r.on {
		r.on = false
		r.dev.SetTrace(r.old)
	}
	return r.Recording()
}

// Recording gives what has been recorded so far; the recorder goes on.
func (r *Recorder) Recording() *Recording {
	rec := &Recording{Device: r.dev.Name(), Limit: r.dev.Stats().Limit, Dropped: r.dropped}
	for _, h := range r.held {
		rec.Held = append(rec.Held, h)
	}
	slices.SortFunc(rec.Held, func(a, b memory.Holder) int { return cmp.Compare(a.ID, b.ID) })
	for _, c := range r.chunks {
		rec.Events = append(rec.Events, c.events...)
		rec.Times = append(rec.Times, c.times...)
	}
	return rec
}

func (r *Recorder) add(e memory.Event) {
	n := len(r.chunks)
	if n == 0 || len(r.chunks[n-1].events) == min(chunkLen, r.max) {
		r.grow()
		n = len(r.chunks)
	}
	c := r.chunks[n-1]
	c.events = append(c.events, e)
	c.times = append(c.times, time.Since(r.start))
}

// grow adds an empty chunk, the oldest one's if there are enough: its events become what they left alive.
func (r *Recorder) grow() {
	size := min(chunkLen, r.max)
	if len(r.chunks)*size < r.max {
		r.chunks = append(r.chunks, &chunk{make([]memory.Event, 0, size), make([]time.Duration, 0, size)})
		return
	}
	c := r.chunks[0]
	for i := range c.events {
		apply(r.held, &c.events[i])
	}
	r.dropped += uint64(len(c.events))
	c.events, c.times = c.events[:0], c.times[:0]
	r.chunks = append(append(r.chunks[:0], r.chunks[1:]...), c)
}

// apply brings held up to date with e.
func apply(held map[uint64]memory.Holder, e *memory.Event) {
	switch e.Act {
	case memory.Mark:
	case memory.Free:
		delete(held, e.ID)
	default:
		held[e.ID] = memory.Holder{ID: e.ID, Addr: e.Addr, Bytes: e.Bytes, Kind: e.Kind, Site: e.Site, Refs: 1, Spec: e.Spec, Why: e.Why}
	}
}
