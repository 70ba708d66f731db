package train

import (
	"errors"
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/optim"
)

// Window is gradient accumulation: it takes the place of Backward, Step and ZeroGrad in a loop over micro-batches.
// Accumulating takes no memory beyond the gradients, which live for the whole window instead of for one step.
//
// # What it averages
//
// By default losses are means over micro-batches of one size. Where the micro-batches differ in the number of samples or
// tokens that count, a mean of means would weigh the small ones too much: set ByCount, and tell Begin the count of the
// whole window before its first micro-batch, whose gradient is divided by it already. That means reading the targets of
// the window ahead.
//
// # What stays different
//
// What depends on the batch as a whole is not the same as with the large batch: dropout masks, losses over pairs of
// samples, and batch norm, which takes mean and variance of each micro-batch by itself and moves its running statistics k
// times as often. Group norm and layer norm look at one sample at a time and do not notice: nn.NewGroupNorm is the way
// out for convolutional networks in small micro-batches (Wu and He, 2018).
type Window struct {
	opt optim.Optimizer
	cfg WindowConfig
	counters
	closed uint64 // windows that ended, by update or Discard; failed steps do not lower it
}

// counters are where a window stands: what a failed step puts back.
type counters struct {
	pos   int     // micro-batches whose gradients are in
	micro int     // of this window
	begun bool    // Begin was called
	count float64 // of this window, ByCount
	seen  float64 // of it, by BackwardMean
	sums  bool    // some came by Backward, which does not tell how many they are
	scale float64 // the Scaler's, since the first micro-batch
	loss  float64 // of the window so far
	last  float64 // of the window that ended last
	norm  float64 // of its gradients
}

// WindowConfig says how a Window accumulates.
type WindowConfig struct {
	// Micro is the number of micro-batches an update, 1 or more. Required.
	Micro int
	// ByCount weighs micro-batches by the samples or tokens that count in them. Backward then takes sums of losses,
	// BackwardMean means with their count, and Begin must announce the count of each window.
	ByCount bool
	// ClipNorm bounds the norm of the gradients of the whole window, as optim.ClipGradNorm does; 0: no bound. With a Scaler
	// it takes no pass of its own over them.
	ClipNorm float64
	// BeforeStep, if set, runs before each update, on the gradients of the whole window, before they are clipped. Its error
	// is Backward's.
	BeforeStep func(s *autograd.Scope) error
	// Schedule, if set, is stepped once after each update, not after each micro-batch, and not when Scaler skipped one.
	Schedule optim.Schedule
	// Scaler, if set, multiplies the losses and guards the updates.
	Scaler Scaler
}

// Scaler is what a window asks of a loss scaler, as half types need one: gradients too small for the type are lifted by a
// factor, and an update whose gradients have overflowed is skipped.
type Scaler interface {
	// Scale is the factor of losses. It stays the same from the first micro-batch of a window to the last.
	Scale() float64
	// Unscale divides the gradients of opt by Scale, before BeforeStep sees them. It is not called if there is none.
	Unscale(s *autograd.Scope, opt optim.Optimizer) error
	// ClipGradNorm has Step bound the norm of opt's gradients, and gives it as it is without Scale.
	ClipGradNorm(s *autograd.Scope, opt optim.Optimizer, maxNorm float64) (norm float64, err error)
	// Step steps opt by gradients divided by Scale, unless one is not finite; then stepped is false, and the window ends
	// without an update.
	Step(s *autograd.Scope, opt optim.Optimizer) (stepped bool, err error)
	// Update chooses the factor of the next window. It is called once a window, after Step.
	Update(s *autograd.Scope) error
	// Discard forgets a window that ends without Step.
	Discard(s *autograd.Scope)
}

// NewWindow makes a window over the parameters of opt, at position 0.
func NewWindow(opt optim.Optimizer, cfg WindowConfig) (*Window, error) {
	switch {
	case opt == nil:
		return nil, errors.New("train: NewWindow: the optimizer is nil")
	case cfg.Micro <= 0:
		return nil, fmt.Errorf("train: NewWindow: Micro is %d: want 1 or more micro-batches an update", cfg.Micro)
	case !(cfg.ClipNorm >= 0):
		return nil, fmt.Errorf("train: NewWindow: ClipNorm is %v: want 0, no bound, or more", cfg.ClipNorm)
	}
	for _, p := range opt.Params() {
		if p.Consumed() && (cfg.Micro > 1 || cfg.BeforeStep != nil || cfg.Scaler != nil || cfg.ClipNorm > 0) {
			return nil, fmt.Errorf("train: NewWindow: the gradient of %s is released inside backward: nothing can be accumulated, scaled or clipped", p.Name())
		}
	}
	for _, p := range opt.Params() {
		p.SetAccumulated(cfg.Micro > 1)
	}
	return &Window{opt: opt, cfg: cfg, counters: counters{micro: cfg.Micro, last: math.NaN(), norm: math.NaN()}}, nil
}

// Micro is the number of micro-batches of the running window: the config's, unless Begin said another.
func (w *Window) Micro() int { return w.micro }

// Position is how many micro-batches of the running window are in, from 0 to Micro-1 between steps. Where it is not 0
// when the data ends, the rest is less than a window: Flush or Discard it, or go on with the next epoch's data.
func (w *Window) Position() int { return w.pos }

// Loss is the loss of the window that ended last, averaged as its gradient is: what a run with the whole batch would have
// reported. NaN before the first, and where nothing counted; 0 in a dry run.
func (w *Window) Loss() float64 { return w.last }

// Norm is the norm of the gradients of the window that ended last, before they were clipped. NaN before the first, and
// without ClipNorm; 0 in a dry run. A window that a Scaler skipped has one that is not finite.
func (w *Window) Norm() float64 { return w.norm }

// Begin announces the window that begins: how many micro-batches it has, such as what is left at the end of an epoch, and,
// ByCount, how many samples or tokens count in all of them together. Call it before the first micro-batch. ByCount it
// must be called for each window, otherwise where one is shorter than the config says. A window in which nothing counts
// (count 0) ends without an update.
func (w *Window) Begin(s *autograd.Scope, micro int, count float64) error {
	if err := w.mayBegin(micro, count); err != nil {
		return fmt.Errorf("train: Window.Begin: %w", err)
	}
	w.journal(s.Session())
	w.micro, w.count, w.begun = micro, count, true
	return nil
}

func (w *Window) mayBegin(micro int, count float64) error {
	switch {
	case w.pos > 0:
		return fmt.Errorf("the window has %d of %d micro-batches: want Begin before the first", w.pos, w.micro)
	case micro <= 0:
		return fmt.Errorf("%d micro-batches: want 1 or more", micro)
	case micro > 1 && w.cfg.Micro == 1:
		return fmt.Errorf("%d micro-batches of a window whose Micro is 1: want a Micro that says that gradients are accumulated", micro)
	case !w.cfg.ByCount && count != 0:
		return fmt.Errorf("count %v of a window that does not weigh by it: want WindowConfig.ByCount, or 0", count)
	case !(count >= 0) || math.IsInf(count, 0):
		return fmt.Errorf("count is %v: want 0 or more", count)
	}
	return nil
}

// Backward adds the gradient of one micro-batch to the parameters': of loss/Micro, where loss is a mean over it, or
// ByCount of loss/count, where loss is a sum. With the last micro-batch of a window it runs BeforeStep, steps the optimizer
// and the schedule, clears the gradients and reports updated. It needs the gradients to be its own and whole, and says what
// to do when they are not. It reads the loss, for Loss.
func (w *Window) Backward(s *autograd.Scope, loss *autograd.Value) (updated bool, err error) {
	weight := 1 / float64(w.micro)
	if w.cfg.ByCount {
		weight = 1 / w.count
	}
	updated, err = w.add(s, loss, weight, func() { w.sums = true })
	if err != nil {
		return updated, fmt.Errorf("train: Window.Backward: %w", err)
	}
	return updated, nil
}

// BackwardMean is Backward, ByCount, of a loss that is a mean over n samples or tokens. Where n is 0 the mean is NaN, and
// is left out. The n of a window must add up to what Begin announced.
func (w *Window) BackwardMean(s *autograd.Scope, loss *autograd.Value, n float64) (updated bool, err error) {
	if err = w.mayCount(n); err == nil {
		updated, err = w.add(s, loss, n/w.count, func() { w.seen += n })
	}
	if err != nil {
		return updated, fmt.Errorf("train: Window.BackwardMean: %w", err)
	}
	return updated, nil
}

// mayCount checks what the count of a micro-batch makes of the window's.
func (w *Window) mayCount(n float64) error {
	all := w.seen + n
	switch {
	case !w.cfg.ByCount:
		return errors.New("the window does not weigh by count: want WindowConfig.ByCount, or Backward")
	case !(n >= 0):
		return fmt.Errorf("a mean over %v: want 0 or more", n)
	case !w.begun || w.pos >= w.micro: // ready tells
		return nil
	case all > w.count:
		return fmt.Errorf("%v samples or tokens so far: want no more than the %v that Begin announced", all, w.count)
	case w.pos == w.micro-1 && !w.sums && all != w.count:
		return fmt.Errorf("%v samples or tokens in all: want the %v that Begin announced, by which the gradient was divided", all, w.count)
	}
	return nil
}

// add is a micro-batch whose loss has this weight; counted notes it.
func (w *Window) add(s *autograd.Scope, loss *autograd.Value, weight float64, counted func()) (updated bool, err error) {
	if err := w.ready(loss); err != nil {
		return false, fmt.Errorf("micro-batch %d of %d: %w", w.pos+1, w.micro, err)
	}
	w.journal(s.Session())
	if w.pos == 0 {
		w.scale = w.factor()
	}
	if weight > 0 && (!w.cfg.ByCount || w.count > 0) {
		if err := w.note(s, loss, weight); err != nil {
			return false, err
		}
		opts := []autograd.BackwardOption{autograd.WithScale(weight), autograd.WithLossScale(w.scale)}
		if w.pos == w.micro-1 && (w.cfg.Scaler != nil || w.cfg.ClipNorm > 0) {
			opts = append(opts, autograd.WithGradNorms())
		}
		loss.Backward(s, opts...)
	}
	counted()
	w.pos++
	if w.pos < w.micro {
		return false, nil
	}
	return w.update(s)
}

// note adds the loss up. It decides nothing, so that it is not one of a Plan's Reads, as Value.Item would be.
func (w *Window) note(s *autograd.Scope, loss *autograd.Value, weight float64) error {
	if s.Dry() || loss.Spec().Elems() != 1 { // Backward refuses what is not one number
		return nil
	}
	x, err := loss.Tensor().Item()
	w.loss += weight * x
	return err
}

// factor is the scaler's.
func (w *Window) factor() float64 {
	if w.cfg.Scaler == nil {
		return 1
	}
	return w.cfg.Scaler.Scale()
}

// update ends a window whose gradients are all in.
func (w *Window) update(s *autograd.Scope) (updated bool, err error) {
	if w.cfg.ByCount && w.count == 0 {
		w.end(s, math.NaN())
		return false, nil
	}
	if err := w.prepare(s); err != nil {
		return false, err
	}
	if updated, err = w.step(s); err != nil {
		return false, err
	}
	w.end(s, w.loss)
	if updated && w.cfg.Schedule != nil {
		return updated, w.cfg.Schedule.Step()
	}
	return updated, nil
}

// prepare shows the gradients to BeforeStep and bounds their norm.
func (w *Window) prepare(s *autograd.Scope) (err error) {
	if w.cfg.BeforeStep != nil {
		if w.cfg.Scaler != nil {
			if err := w.cfg.Scaler.Unscale(s, w.opt); err != nil {
				return err
			}
		}
		if err := w.cfg.BeforeStep(s); err != nil {
			return fmt.Errorf("BeforeStep: %w", err)
		}
	}
	switch {
	case w.cfg.ClipNorm == 0:
		return nil
	case w.cfg.Scaler != nil:
		w.norm, err = w.cfg.Scaler.ClipGradNorm(s, w.opt, w.cfg.ClipNorm)
	default:
		w.norm, err = optim.ClipGradNorm(s, w.opt.Params(), w.cfg.ClipNorm)
	}
	return err
}

// step steps the optimizer, by the scaler if there is one.
func (w *Window) step(s *autograd.Scope) (stepped bool, err error) {
	if w.cfg.Scaler == nil {
		return true, w.opt.Step(s)
	}
	if stepped, err = w.cfg.Scaler.Step(s, w.opt); err != nil {
		return false, err
	}
	return stepped, w.cfg.Scaler.Update(s)
}

// Flush ends a window that the data left unfilled: its gradient, divided for all micro-batches, is scaled up to the mean
// over those that came, and the optimizer steps as after a full one. At position 0 it does nothing. ByCount it wants
// micro-batches given to BackwardMean, since sums do not tell how many they are.
//
// Begin with the number of micro-batches that are left does the same without the scaling, and to the last bit what a
// window of that size does.
func (w *Window) Flush(s *autograd.Scope) (updated bool, err error) {
	if w.pos == 0 {
		return false, nil
	}
	pos := w.pos
	if updated, err = w.flush(s); err != nil {
		return false, fmt.Errorf("train: Window.Flush: after %d of %d micro-batches: %w", pos, w.micro, err)
	}
	return updated, nil
}

func (w *Window) flush(s *autograd.Scope) (bool, error) {
	if err := w.whole(); err != nil {
		return false, err
	}
	w.journal(s.Session())
	k := float64(w.micro) / float64(w.pos)
	switch {
	case w.cfg.ByCount && w.sums:
		return false, errors.New("some losses were sums of unknown count: want BackwardMean for all, or Begin with what is left")
	case w.cfg.ByCount && w.seen == 0:
		w.end(s, math.NaN())
		return false, nil
	case w.cfg.ByCount:
		k = w.count / w.seen
	}
	if err := optim.ScaleGrad(s, w.opt.Params(), k); err != nil {
		return false, err
	}
	w.loss *= k
	return w.update(s)
}

// Discard clears the gradients and begins the window anew: after a step that failed within a window, or for the rest of
// the data that does not fill one. What Begin announced is forgotten.
func (w *Window) Discard(s *autograd.Scope) {
	w.journal(s.Session())
	if w.cfg.Scaler != nil {
		w.cfg.Scaler.Discard(s)
	}
	w.end(s, w.last)
}

// end closes the window.
func (w *Window) end(s *autograd.Scope, loss float64) {
	w.opt.ZeroGrad(s)
	w.counters = counters{micro: w.cfg.Micro, last: loss, norm: w.norm}
	w.closed++
}

// ready checks the gradients (W3, W5) and what the window was told (W6, W7).
func (w *Window) ready(loss *autograd.Value) error {
	switch {
	case loss == nil:
		return errors.New("the loss is nil")
	case w.pos == w.micro: // an error of the update was not returned from the step
		return errors.New("the window is full, its update failed: call Discard")
	case w.cfg.ByCount && !w.begun:
		return errors.New("the count of this window is not known: call Begin before the first micro-batch")
	case w.pos > 0 && w.factor() != w.scale:
		return fmt.Errorf("the scaler's factor changed from %v to %v within a window: update it between windows", w.scale, w.factor())
	}
	if err := w.whole(); err != nil || w.pos > 0 {
		return err
	}
	for _, p := range w.opt.Params() {
		if p.HasGrad() {
			return fmt.Errorf("%s has a gradient that this window did not make: call ZeroGrad, or Discard, before the first micro-batch", p.Name())
		}
	}
	return nil
}

// whole refuses gradients that cannot be accumulated.
func (w *Window) whole() error {
	for _, p := range w.opt.Params() {
		switch {
		case p.Consumed() && w.micro > 1:
			return fmt.Errorf("the gradient of %s is released inside backward: nothing can be accumulated", p.Name())
		case p.Stale():
			return fmt.Errorf("the gradient of %s was left half added by a failed step: call Discard and begin the window anew", p.Name())
		}
	}
	return nil
}

// journal registers how the counters are put back (W4). Of the calls in a step the first is undone last, so what it saw
// decides.
func (w *Window) journal(ss *autograd.Session) {
	was, closed := w.counters, w.closed
	ss.OnRollback(func() {
		if w.closed == closed {
			w.counters = was
			return
		}
		w.counters = counters{micro: w.cfg.Micro, last: w.last, norm: w.norm}
	})
	ss.OnPlanEnd(func() { w.counters, w.closed = was, closed })
}
