package report

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/thimble-ml/thimble/memory"
)

// Watch writes a line to w every second until stop is called: seconds since it began, live bytes, the end of the arena, the
// limit if there is one, the phase.
//
//	3 s  live 412.1 MiB  arena 423.1 MiB of 512.0 MiB (82.6 %)  backward
//
// every is the time between lines; 0: a second. Lines are written by a goroutine that stop ends, after a last line. Watch
// takes d's trace as Record does: who records or watches one device several times stops the last first.
func Watch(d *memory.Device, w io.Writer, every time.Duration) (stop func()) {
	if every <= 0 {
		every = time.Second
	}
	s := d.Stats()
	t := &watch{w: w, start: time.Now(), limit: s.Limit, live: s.Live, arena: s.Arena}
	forked := d.Forked()
	var old func(memory.Event)
	old = d.SetTrace(func(e memory.Event) {
		if d.Forked() == forked {
			t.see(&e)
		}
		if old != nil {
			old(e)
		}
	})
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t.run(every, ended)
	}()
	return sync.OnceFunc(func() {
		d.SetTrace(old)
		close(ended)
		<-done
	})
}

type watch struct {
	w     io.Writer
	start time.Time
	limit int64

	mu          sync.Mutex // the trace is called by the device's goroutine, lines are written by another
	live, arena int64
	phase       string
}

func (t *watch) see(e *memory.Event) {
	t.mu.Lock()
	t.live, t.arena, t.phase = e.Live, e.Arena, e.Phase
	t.mu.Unlock()
}

// run writes until ended is closed.
func (t *watch) run(every time.Duration, ended chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			io.WriteString(t.w, t.line())
		case <-ended:
			io.WriteString(t.w, t.line())
			return
		}
	}
}

func (t *watch) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := fmt.Sprintf("%3.0f s  live %s  arena %s", time.Since(t.start).Seconds(), size(t.live), size(t.arena))
	if t.limit > 0 {
		s += fmt.Sprintf(" of %s (%s)", size(t.limit), percent(t.arena, t.limit))
	}
	return strings.TrimRight(s+"  "+t.phase, " ") + "\n"
}
