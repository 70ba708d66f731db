package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/thimble-ml/thimble/memory"
)

// traceEvent is one of the Trace Event Format (Google, 2016): "X" a piece of time, "C" counters, "M" a name.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Time  float64        `json:"ts"` // microseconds
	Dur   *float64       `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

const (
	phasesThread = iota + 1
	opsThread
)

// WriteTrace writes the recording as Chrome trace JSON, for ui.perfetto.dev, chrome://tracing and the like: live bytes by
// kind and the arena as counters, phases and operations as pieces of time. Where times are not known, an event is a
// microsecond.
func (r *Recording) WriteTrace(w io.Writer) error {
	tensors, err := r.Tensors()
	if err != nil {
		return err
	}
	t := &tracer{r: r, w: bufio.NewWriter(w)}
	t.w.WriteString(`{"displayTimeUnit":"ms","traceEvents":[`)
	t.put(traceEvent{Name: "process_name", Phase: "M", Args: map[string]any{"name": "memory of device " + r.Device}})
	t.put(traceEvent{Name: "thread_name", Phase: "M", TID: phasesThread, Args: map[string]any{"name": "phases"}})
	t.put(traceEvent{Name: "thread_name", Phase: "M", TID: opsThread, Args: map[string]any{"name": "operations"}})
	t.counters(tensors)
	for _, s := range r.spans(func(e *memory.Event) string { return e.Phase }) {
		t.span(s, phasesThread, nil)
	}
	for _, s := range r.spans(func(e *memory.Event) string { return fmt.Sprint(e.Op) }) {
		e := &r.Events[s.from]
		s.name = e.By.Op
		t.span(s, opsThread, map[string]any{"scope": e.By.Scope, "op": e.Op})
	}
	t.w.WriteString("]}\n")
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err != nil {
		return fmt.Errorf("report: trace: %w", t.err)
	}
	return nil
}

// span is a run of events, from and up to, not including, to.
type span struct {
	name     string
	from, to int
}

// spans are the runs of events of one name.
func (r *Recording) spans(name func(*memory.Event) string) (list []span) {
	for i := range r.Events {
		n := name(&r.Events[i])
		if k := len(list); k == 0 || list[k-1].name != n {
			list = append(list, span{n, i, i})
		}
		list[len(list)-1].to = i + 1
	}
	return list
}

type tracer struct {
	r    *Recording
	w    *bufio.Writer
	some bool
	err  error
}

func (t *tracer) put(e traceEvent) {
	e.PID = 1
	b, err := json.Marshal(e)
	if err != nil && t.err == nil {
		t.err = err
	}
	if t.some {
		t.w.WriteByte(',')
	}
	t.some = true
	t.w.WriteByte('\n')
	t.w.Write(b)
}

// at is the time of event i, or of the end of the last one.
func (t *tracer) at(i int) float64 {
	switch {
	case len(t.r.Times) != len(t.r.Events):
		return float64(i)
	case i == len(t.r.Times):
		return float64(t.r.Times[i-1].Nanoseconds()) / 1e3
	}
	return float64(t.r.Times[i].Nanoseconds()) / 1e3
}

// counters puts live bytes by kind and the arena wherever they change.
func (t *tracer) counters(tensors []Tensor) {
	by := split(tensors, len(t.r.Events))
	for i := range t.r.Events {
		if act := t.r.Events[i].Act; act == memory.Mark || act == memory.Describe {
			continue
		}
		kinds := map[string]any{}
		for k, n := range by[i+1] {
			kinds[memory.Kind(k).String()] = n
		}
		t.put(traceEvent{Name: "live", Phase: "C", Time: t.at(i), Args: kinds})
		t.put(traceEvent{Name: "arena", Phase: "C", Time: t.at(i), Args: map[string]any{"bytes": t.r.Events[i].Arena}})
	}
}

func (t *tracer) span(s span, thread int, args map[string]any) {
	if s.name == "" {
		return
	}
	d := t.at(s.to) - t.at(s.from)
	t.put(traceEvent{Name: s.name, Phase: "X", Time: t.at(s.from), Dur: &d, TID: thread, Args: args})
}
