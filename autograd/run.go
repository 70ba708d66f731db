package autograd

import (
	"runtime"

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
	ss      *Session
	site    memory.Site
	specs   []tensor.Spec
	scratch []byte
	shared  []byte
	lane    int64
	lanes   int
	serial  bool // chunks run one after the other: a tile's
	buf     *memory.Buffer
}

// Lane is the scratch of one lane, 64-byte aligned, its content undefined.
func (r *Run) Lane(lane int) []byte {
	return r.scratch[int64(lane)*r.lane : int64(lane+1)*r.lane : int64(lane+1)*r.lane]
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

// open allocates what w asks for. Scratch and Shared are one buffer, each lane rounded to 64 bytes.
func (r *Run) open(ss *Session, site memory.Site, w Work) error {
	r.ss, r.site, r.scratch, r.shared, r.buf = ss, site, nil, nil, nil
	r.lanes = min(ss.lanes, max(1, w.Chunks))
	r.lane = (w.Scratch + 63) &^ 63
	n := r.lane * int64(r.lanes)
	if n+w.Shared == 0 {
		return nil
	}
	b, err := ss.dev.Alloc(n+w.Shared, memory.Scratch, site)
	if err != nil {
		return err
	}
	r.buf = b
	if mem := b.Bytes(); mem != nil {
		r.scratch, r.shared = mem[:n:n], mem[n:]
	}
	return nil
}

// close gives the scratch back; closing twice is fine.
func (r *Run) close() {
	if r.buf != nil {
		r.buf.Release()
		r.buf = nil
	}
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
		return runtime.GOMAXPROCS(0)
	}
	return n
}
