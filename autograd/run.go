package autograd

import (
	"runtime"

	"github.com/thimble-ml/thimble/internal/pool"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Work is what a kernel asks for: bytes of scratch for each lane, bytes shared by the whole call, and the largest number
// of chunks it gives to Par. All three must depend on specs and configuration only.
type Work struct {
	Scratch, Shared int64
	Chunks          int
}

// Run gives a kernel its scratch and the workers.
type Run struct {
	ss     *Session
	site   memory.Site
	specs  []tensor.Spec
	shared []byte
	lane   int64
	lanes  int
	serial bool             // chunks run one after the other: a tile's
	mem    []byte           // the lanes of a tile, or of lanes that are one buffer
	buf    *memory.Buffer   // lanes, unless they are apart, then what is shared; nil: there is neither
	apart  []*memory.Buffer // one a lane
}

// Lane is the scratch of one lane, 64-byte aligned, its content undefined.
func (r *Run) Lane(lane int) []byte {
	if r.apart != nil {
		return r.apart[lane].Bytes()
	}
	return r.mem[int64(lane)*r.lane : int64(lane+1)*r.lane : int64(lane+1)*r.lane]
}

// laneAt is where byte off of a lane is.
func (r *Run) laneAt(lane int, off int64) (*memory.Buffer, int64) {
	if r.apart != nil {
		return r.apart[lane], off
	}
	return r.buf, int64(lane)*r.lane + off
}

// sharedAt is where byte off of what is shared is.
func (r *Run) sharedAt(off int64) (*memory.Buffer, int64) {
	if r.apart != nil {
		return r.buf, off
	}
	return r.laneAt(r.lanes, off)
}

// Shared is the scratch of the whole call.
func (r *Run) Shared() []byte { return r.shared }

// Par calls f once for each chunk, on several workers at once if there are any. Two chunks never hold a lane at the same
// time. What f computes must not depend on lane.
func (r *Run) Par(chunks int, f func(lane, chunk int)) {
	if r.serial {
		for c := range chunks {
			f(0, c)
		}
		return
	}
	r.ss.workers.Run(r.lanes, chunks, f)
}

// Fail ends the operation with an error that names op, scope and specs: for what only the data can tell, such as an
// index out of range. It must be called by the kernel's own goroutine, not within Par.
func (r *Run) Fail(err error) { raise(r.site.Op, r.site.Scope, r.specs, err) }

// apartFrom is the size from which on each lane is a buffer of its own: a quarter of a megabyte finds room in holes where
// the two megabytes of eight lanes in one piece would raise the arena. Allocating them takes a microsecond, and a kernel that
// fills so much more than a hundred.
const apartFrom = 32 << 10

// open allocates what w asks for. Each lane is rounded to 64 bytes.
func (r *Run) open(ss *Session, site memory.Site, w Work) error {
	r.ss, r.site, r.mem, r.shared, r.buf, r.apart = ss, site, nil, nil, nil, nil
	r.lanes = min(ss.lanes, max(1, w.Chunks))
	r.lane = (w.Scratch + 63) &^ 63
	n := r.lane * int64(r.lanes)
	if r.lane >= apartFrom && r.lanes > 1 {
		if err := r.openApart(); err != nil {
			return err
		}
		n = 0
	}
	if n+w.Shared == 0 {
		return nil
	}
	b, err := ss.dev.Alloc(n+w.Shared, memory.Scratch, site)
	if err != nil {
		r.close()
		return err
	}
	r.buf = b
	if mem := b.Bytes(); mem != nil {
		r.mem, r.shared = mem[:n:n], mem[n:]
	}
	return nil
}

// openApart allocates a buffer for each lane.
func (r *Run) openApart() error {
	if k := len(r.ss.rooms) - 1; k >= 0 {
		r.apart, r.ss.rooms = r.ss.rooms[k], r.ss.rooms[:k]
	} else {
		r.apart = make([]*memory.Buffer, 0, r.lanes)
	}
	for range r.lanes {
		b, err := r.ss.dev.Alloc(r.lane, memory.Scratch, r.site)
		if err != nil {
			r.close()
			return err
		}
		r.apart = append(r.apart, b)
	}
	return nil
}

// close gives the scratch back; closing twice is fine.
func (r *Run) close() {
	if r.buf != nil {
		r.buf.Release()
		r.buf = nil
	}
	if r.apart == nil {
		return
	}
	for _, b := range r.apart {
		b.Release()
	}
	clear(r.apart)
	r.apart, r.ss.rooms = nil, append(r.ss.rooms, r.apart[:0])
}

// Run runs a kernel outside the graph, as optimizers do: it allocates what w asks for, calls f unless the run is dry,
// and gives the scratch back. site names it in events and errors.
func (s *Scope) Run(site memory.Site, w Work, f func(*Run)) {
	ss := s.live(site.Op)
	ss.enter(site.Op, s.path)
	defer ss.leave()
	ss.begins(site, false)
	var r Run
	if err := r.open(ss, site, w); err != nil {
		raise(site.Op, site.Scope, nil, err)
	}
	defer r.close()
	if !ss.Dry() {
		f(&r)
	}
}

func workersOr(n int) int {
	if n == 0 {
		return min(runtime.GOMAXPROCS(0), pool.Most)
	}
	return n
}
