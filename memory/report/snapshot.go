package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/thimble-ml/thimble/memory"
)

// snapshot has the field names of torch.cuda.memory._snapshot (PyTorch, torch/cuda/memory.py). What it adds: category and
// phase, and user_metadata with who holds the buffer for what.
type snapshot struct {
	Segments     []segment      `json:"segments"`
	DeviceTraces [][]traceEntry `json:"device_traces"` // one list a device
}

type segment struct {
	Device        int     `json:"device"`
	Address       int64   `json:"address"`
	TotalSize     int64   `json:"total_size"`
	AllocatedSize int64   `json:"allocated_size"`
	ActiveSize    int64   `json:"active_size"`
	RequestedSize int64   `json:"requested_size"`
	Stream        int     `json:"stream"`
	SegmentType   string  `json:"segment_type"`
	SegmentPoolID []int   `json:"segment_pool_id"`
	IsExpandable  bool    `json:"is_expandable"`
	Frames        []frame `json:"frames"`
	Blocks        []block `json:"blocks"`
}

type block struct {
	Address       int64   `json:"address"`
	Size          int64   `json:"size"`
	RequestedSize int64   `json:"requested_size"`
	State         string  `json:"state"`
	Frames        []frame `json:"frames"`
	Category      string  `json:"category,omitempty"`
}

type frame struct {
	Filename string `json:"filename"`
	Line     int64  `json:"line"`
	Name     string `json:"name"`
}

type traceEntry struct {
	Action   string  `json:"action"`
	Addr     int64   `json:"addr"`
	Size     int64   `json:"size"`
	Stream   int     `json:"stream"`
	TimeUS   int64   `json:"time_us"`
	Frames   []frame `json:"frames"`
	Category string  `json:"category,omitempty"`
	Phase    string  `json:"phase,omitempty"`
	Seq      int64   `json:"seq,omitempty"`
	Metadata string  `json:"user_metadata,omitempty"`
}

// WriteSnapshot writes the recording as JSON in the field names of PyTorch's memory snapshot: the arena as one segment of
// blocks as they are after the last event, and device_traces with alloc, free_requested and free_completed. A frame is the
// scope, the number of the operation for a line, and the op.
func (r *Recording) WriteSnapshot(w io.Writer) error {
	s, err := r.snapshot()
	if err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(s); err != nil {
		return fmt.Errorf("report: snapshot: %w", err)
	}
	return nil
}

// WriteSnapshotPickle is WriteSnapshot as a Python pickle, which is the form that PyTorch's viewer opens
// (pytorch.org/memory_viz: drag the file there; nothing is uploaded), and that Python reads with pickle.load.
func (r *Recording) WriteSnapshotPickle(w io.Writer) error {
	s, err := r.snapshot()
	if err != nil {
		return err
	}
	if err := pickle(w, s); err != nil {
		return fmt.Errorf("report: snapshot: %w", err)
	}
	return nil
}

func (r *Recording) snapshot() (*snapshot, error) {
	last, err := r.LiveAt(len(r.Events) - 1)
	if err != nil {
		return nil, err
	}
	trace := []traceEntry{}
	for i := range r.Events {
		e := &r.Events[i]
		var at time.Duration
		if len(r.Times) == len(r.Events) {
			at = r.Times[i]
		}
		for _, action := range actions(e.Act) {
			trace = append(trace, traceEntry{Action: action, Addr: e.Addr, Size: occupied(e.Bytes), TimeUS: at.Microseconds(), Frames: stack(e.Site, int64(e.Op)),
				Category: e.Kind.String(), Phase: e.Phase, Seq: int64(e.Seq), Metadata: strings.TrimSpace(e.Spec + " " + cmp.Or(e.Why, reason(e.Kind, e.Site)))})
		}
	}
	// The viewer wants the category "unknown" among the others.
	trace = append(trace, traceEntry{Action: "snapshot", Frames: []frame{}, Category: "unknown"})
	return &snapshot{Segments: []segment{r.segment(last)}, DeviceTraces: [][]traceEntry{trace}}, nil
}

func actions(a memory.Act) []string {
	switch a {
	case memory.Alloc:
		return []string{"alloc"}
	case memory.Free:
		return []string{"free_requested", "free_completed"}
	}
	return nil
}

func stack(at memory.Site, op int64) []frame {
	return []frame{{Filename: at.Scope, Line: op, Name: at.Op}}
}

// occupied is what a buffer takes of the arena, a multiple of 64 bytes.
func occupied(bytes int64) int64 { return max(64, rounded(bytes)) }

// segment is the arena: live blocks by address and the holes between them.
func (r *Recording) segment(live []memory.Holder) segment {
	s := segment{TotalSize: r.ArenaPeak(), SegmentType: "large", SegmentPoolID: []int{0, 0}, Frames: []frame{}, Blocks: []block{}}
	var at int64
	hole := func(end int64) {
		if end > at {
			s.Blocks = append(s.Blocks, block{Address: at, Size: end - at, State: "inactive", Frames: []frame{}})
		}
	}
	for i := range live {
		h := &live[i]
		hole(h.Addr)
		n := occupied(h.Bytes)
		s.Blocks = append(s.Blocks, block{Address: h.Addr, Size: n, RequestedSize: h.Bytes, State: "active_allocated", Frames: stack(h.Site, 0), Category: h.Kind.String()})
		s.AllocatedSize += n
		s.RequestedSize += h.Bytes
		at = h.Addr + n
	}
	s.ActiveSize = s.AllocatedSize
	hole(s.TotalSize)
	return s
}
