package train

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// WindowState is where a window stands, to be saved beside the optimizer's state. Between windows it holds no gradients.
// Within one it does, unless the caller drops them and Position with them and does the window again.
type WindowState struct {
	Position int     // micro-batches whose gradients are in
	Micro    int     // of this window
	Begun    bool    // Begin was called
	Count    float64 // what it said
	Seen     float64 // of it, by BackwardMean
	Sums     bool    // some came by Backward
	Scale    float64 // the scaler's factor in this window
	Loss     float64 // of the window so far
	Last     float64 // of the window that ended last
	Norm     float64 // of its gradients
	// Grads are the running gradients by parameter name: the parameters' own, not copies, so save them before the next
	// Backward. A parameter without gradient is not in it.
	Grads map[string]*tensor.Tensor
}

// State tells where the window stands. It refuses gradients that are stale, and parameters in a Home, whose gradients are
// there.
func (w *Window) State() (WindowState, error) {
	st := w.counters.state()
	if w.pos == 0 {
		return st, nil
	}
	if err := w.whole(); err != nil {
		return WindowState{}, fmt.Errorf("train: Window.State: %w", err)
	}
	st.Grads = map[string]*tensor.Tensor{}
	for _, p := range w.opt.Params() {
		switch {
		case p.Home() != nil:
			return WindowState{}, fmt.Errorf("train: Window.State: parameter %s and its gradient live in a Home: save at the end of a window", p.Name())
		case p.Grad() == nil:
		case st.Grads[p.Name()] != nil:
			return WindowState{}, fmt.Errorf("train: Window.State: two parameters are named %q: name them by walking the model (nn.NamedParams)", p.Name())
		default:
			st.Grads[p.Name()] = p.Grad()
		}
	}
	return st, nil
}

func (c counters) state() WindowState {
	return WindowState{
		Position: c.pos, Micro: c.micro, Begun: c.begun, Count: c.count, Seen: c.seen, Sums: c.sums, Scale: c.scale, Loss: c.loss, Last: c.last, Norm: c.norm,
	}
}

func (st WindowState) counters() counters {
	return counters{
		pos: st.Position, micro: st.Micro, begun: st.Begun, count: st.Count, seen: st.Seen, sums: st.Sums, scale: st.Scale, loss: st.Loss, last: st.Last, norm: st.Norm,
	}
}

// Load goes on from st, whose gradients are copied. The window and its parameters must be new, or discarded: at position
// 0 and without gradients. It is called between steps.
func (w *Window) Load(st WindowState) error {
	if err := w.load(st); err != nil {
		return fmt.Errorf("train: Window.Load: %w", err)
	}
	return nil
}

func (w *Window) load(st WindowState) error {
	if w.pos != 0 {
		return fmt.Errorf("the window has %d of %d micro-batches: want one at its beginning", w.pos, w.micro)
	}
	if err := w.fits(st); err != nil {
		return err
	}
	params := map[string]*autograd.Param{}
	for _, p := range w.opt.Params() {
		params[p.Name()] = p
		if p.HasGrad() {
			return fmt.Errorf("%s has a gradient already: call ZeroGrad first", p.Name())
		}
	}
	names := slices.Sorted(maps.Keys(st.Grads))
	for i, name := range names {
		p := params[name]
		err := fmt.Errorf("the state has a gradient of %q: no parameter of the optimizer is named so", name)
		if p != nil {
			err = p.SetGrad(st.Grads[name])
		}
		if err == nil {
			p.SetGradScale(st.Scale)
		}
		if err != nil {
			for _, made := range names[:i] {
				params[made].ZeroGrad()
			}
			return err
		}
	}
	w.counters = st.counters()
	return nil
}

// fits tells whether st is of a window like w.
func (w *Window) fits(st WindowState) error {
	switch {
	case st.Micro <= 0 || st.Position < 0 || st.Position >= st.Micro:
		return fmt.Errorf("position %d of %d micro-batches: want one from 0 to Micro-1", st.Position, st.Micro)
	case !st.Begun && st.Micro != w.cfg.Micro:
		return fmt.Errorf("the state is of windows of %d micro-batches: want %d, this window's", st.Micro, w.cfg.Micro)
	case st.Position > 0 && !(st.Scale > 0):
		return fmt.Errorf("the factor of the scaler in this window is %v: want more than 0, 1 without one", st.Scale)
	case st.Position == 0 && len(st.Grads) > 0:
		return fmt.Errorf("%d gradients at position 0: want none", len(st.Grads))
	case w.cfg.ByCount && st.Position > 0 && !st.Begun:
		return fmt.Errorf("the state is of a window that does not weigh by count")
	}
	return nil
}

// savedWindow is WindowState in a file: its gradients are saved with all others, and losses, which may be NaN, as their bits.
type savedWindow struct {
	State            WindowState
	Loss, Last, Norm uint64
}

func (w *Window) saved() savedWindow {
	st := w.counters.state()
	s := savedWindow{st, math.Float64bits(st.Loss), math.Float64bits(st.Last), math.Float64bits(st.Norm)}
	s.State.Loss, s.State.Last, s.State.Norm = 0, 0, 0
	return s
}

// resume goes to a saved position, wherever the window stands. That its gradients are there is the business of who loads
// them.
func (w *Window) resume(s savedWindow) error {
	s.State.Loss, s.State.Last, s.State.Norm = math.Float64frombits(s.Loss), math.Float64frombits(s.Last), math.Float64frombits(s.Norm)
	if err := w.fits(s.State); err != nil {
		return err
	}
	w.counters = s.State.counters()
	return nil
}
