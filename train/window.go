package train

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/optim"
)

// Window is gradient accumulation: it takes the place of Backward, Step and ZeroGrad in a loop over micro-batches.
// Accumulating takes no memory beyond the gradients, which live for the whole window instead of for one step.
//
// What depends on the batch as a whole is not the same as with the large batch: dropout masks, batch norm's statistics,
// losses over pairs of samples. Where micro-batches differ in the number n of samples or tokens that count, a mean over
// each would weigh the small ones too much: give Backward the sum times Micro/N instead, N being the n of the whole
// window added up.
type Window struct {
	opt    optim.Optimizer
	cfg    WindowConfig
	pos    int    // micro-batches whose gradients are in
	closed uint64 // windows that ended, by update or Discard; failed steps do not lower it
}

// WindowConfig says how a Window accumulates.
type WindowConfig struct {
	// Micro is the number of micro-batches an update, 1 or more. Required.
	Micro int
	// BeforeStep, if set, runs before each update, on the gradients of the whole window: the place for ClipGradNorm.
	// Its error is Backward's.
	BeforeStep func(s *autograd.Scope) error
}

// NewWindow makes a window over the parameters of opt, at position 0.
func NewWindow(opt optim.Optimizer, cfg WindowConfig) (*Window, error) {
	switch {
	case opt == nil:
		return nil, errors.New("train: NewWindow: the optimizer is nil")
	case cfg.Micro <= 0:
		return nil, fmt.Errorf("train: NewWindow: Micro is %d: want 1 or more micro-batches an update", cfg.Micro)
	}
	for _, p := range opt.Params() {
		if p.Consumed() && (cfg.Micro > 1 || cfg.BeforeStep != nil) {
			return nil, fmt.Errorf("train: NewWindow: the gradient of %s is released inside backward: nothing can be accumulated or clipped", p.Name())
		}
	}
	for _, p := range opt.Params() {
		p.SetAccumulated(cfg.Micro > 1)
	}
	return &Window{opt: opt, cfg: cfg}, nil
}

// Micro is the number of micro-batches an update.
func (w *Window) Micro() int { return w.cfg.Micro }

// Position is how many micro-batches of the running window are in, from 0 to Micro-1 between steps. Where it is not 0
// when the data ends, the rest is less than a window: Discard it, or go on with the next epoch's data.
func (w *Window) Position() int { return w.pos }

// Backward adds the gradient of loss/Micro, a mean over one micro-batch, to the parameters'. With the last micro-batch
// of a window it runs BeforeStep, steps the optimizer, clears the gradients and reports updated: the time to step a
// schedule. It needs the gradients to be its own and whole, and says what to do when they are not.
func (w *Window) Backward(s *autograd.Scope, loss *autograd.Value) (updated bool, err error) {
	if err := w.ready(loss); err != nil {
		return false, fmt.Errorf("train: Window.Backward: micro-batch %d of %d: %w", w.pos+1, w.cfg.Micro, err)
	}
	w.journal(s.Session())
	loss.Backward(s, autograd.WithScale(1/float64(w.cfg.Micro)))
	w.pos++
	if w.pos < w.cfg.Micro {
		return false, nil
	}
	if w.cfg.BeforeStep != nil {
		if err := w.cfg.BeforeStep(s); err != nil {
			return false, fmt.Errorf("train: Window.Backward: BeforeStep: %w", err)
		}
	}
	if err := w.opt.Step(s); err != nil {
		return false, fmt.Errorf("train: Window.Backward: %w", err)
	}
	w.end(s)
	return true, nil
}

// Discard clears the gradients and begins the window anew: after a step that failed within a window, or for the rest of
// the data that does not fill one.
func (w *Window) Discard(s *autograd.Scope) {
	w.journal(s.Session())
	w.end(s)
}

// end closes the window.
func (w *Window) end(s *autograd.Scope) {
	w.opt.ZeroGrad(s)
	w.pos = 0
	w.closed++
}

// ready checks the gradients (W3, W5).
func (w *Window) ready(loss *autograd.Value) error {
	switch {
	case loss == nil:
		return errors.New("the loss is nil")
	case w.pos == w.cfg.Micro: // an error of the update was not returned from the step
		return errors.New("the window is full, its update failed: call Discard")
	}
	for _, p := range w.opt.Params() {
		switch {
		case p.Consumed() && w.cfg.Micro > 1:
			return fmt.Errorf("the gradient of %s is released inside backward: nothing can be accumulated", p.Name())
		case p.Stale():
			return fmt.Errorf("the gradient of %s was left half added by a failed step: call Discard and begin the window anew", p.Name())
		case w.pos == 0 && p.HasGrad():
			return fmt.Errorf("%s has a gradient that this window did not make: call ZeroGrad, or Discard, before the first micro-batch", p.Name())
		}
	}
	return nil
}

// journal registers how the position is put back (W4). Of the calls in a step the first is undone last, so what it saw
// decides.
func (w *Window) journal(ss *autograd.Session) {
	pos, closed := w.pos, w.closed
	ss.OnRollback(func() {
		w.pos = 0
		if w.closed == closed {
			w.pos = pos
		}
	})
	ss.OnPlanEnd(func() { w.pos, w.closed = pos, closed })
}
