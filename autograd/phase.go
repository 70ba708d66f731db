package autograd

import (
	"strconv"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// What the events of a step carry beside addresses and sizes: the phase (Event.Phase), the operation (Event.By), and why a
// buffer is held (Event.Why), whose texts are made only while somebody listens.

// The phases of a step: forward from its begin on, and again from the first recorded op after a Backward (the next
// micro-batch); backward while a pass runs, and recompute where it runs a part of forward again; step from the first
// operation on that follows a pass and is not recorded: clipping, the optimizer, ZeroGrad. Between steps the phase is "".
const (
	inForward   = "forward"
	inBackward  = "backward"
	inRecompute = "recompute"
	inStep      = "step"
)

// mark begins a phase and gives the one before.
func (ss *Session) mark(phase string) (before string) {
	before, ss.phase = ss.phase, phase
	ss.dev.Mark(phase)
	return before
}

// begins tells the device that an operation runs. The first one after a backward pass begins the next phase: forward if it
// is recorded, step if not.
func (ss *Session) begins(site memory.Site, recorded bool) {
	if ss.passed && ss.pass == nil {
		switch {
		case recorded:
			ss.passed = false
			ss.mark(inForward)
		case ss.phase != inStep:
			ss.mark(inStep)
		}
	}
	ss.op = ss.dev.Begin(site)
}

// explainSaved says on whose behalf the storage that sl has just saved stays in memory: kept there, or by the saver of a
// replay.
func (n *node) explainSaved(s *Scope, sl *slot) {
	if b := sl.saved(); b != nil && (sl.pk == nil || s.m.Replay) {
		b.Describe("", "saved by "+n.site.String()+": "+n.why(sl.ref))
	}
}

// saved is the storage that sl has just saved, while somebody listens; nil for a parameter.
func (sl *slot) saved() *memory.Buffer {
	if !sl.ss.dev.Tracing() || sl.par != nil || sl.t.Buffer().Kind() == memory.Param {
		return nil
	}
	return sl.t.Buffer()
}

// explainGrad says whose gradient t is.
func (p *pass) explainGrad(t *tensor.Tensor, e *edge) {
	if !p.ss.dev.Tracing() {
		return
	}
	if e.par != nil {
		t.Buffer().Describe("", "gradient of "+e.par.name)
		return
	}
	t.Buffer().Describe("", "gradient of output "+strconv.Itoa(e.out)+" of "+e.node.site.String())
}
