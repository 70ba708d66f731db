package amp_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// windowed is a training in windows of 3 micro-batches.
type windowed struct {
	*rig
	w, v   *autograd.Param
	opt    *optim.AdamW
	sched  *optim.CosineAnnealing
	ema    *nn.EMA
	scaler *amp.GradScaler
	win    *train.Window
	seen   []bool // updated, of each micro-batch
}

func newWindowed(t *testing.T, cfg train.WindowConfig) *windowed {
	t.Helper()
	r := &windowed{rig: newRig(t)}
	var err error
	r.w, r.v = r.param(tensor.Float32, 3), r.param(tensor.Float32, 1)
	nn.Params([]*autograd.Param{r.w, r.v}) // which names them
	r.opt = adamw(t, r.w, r.v)
	r.sched, err = optim.NewCosineAnnealing(r.opt, optim.CosineConfig{TMax: 10})
	require.NoError(t, err)
	r.ema, err = nn.NewEMA([]*autograd.Param{r.w, r.v}, 0.5)
	require.NoError(t, err)
	r.scaler = scaler(t, amp.GradScalerConfig{GrowthInterval: 3})
	cfg.Micro, cfg.Scaler, cfg.Schedule = 3, r.scaler, r.sched
	r.win, err = train.NewWindow(r.opt, cfg)
	require.NoError(t, err)
	return r
}

// micro is a micro-batch with these gradients. v gets its own in the first one of a window alone.
func (r *windowed) micro(s scope, x float64) error {
	loss := r.linearLoss(s, r.w, x, x*x, 1)
	updated, err := r.win.Backward(s, loss)
	if err != nil {
		return err
	}
	r.seen = append(r.seen, updated)
	if updated {
		r.ema.Update(s)
	}
	return nil
}

func (r *windowed) run(t *testing.T, xs ...float64) {
	t.Helper()
	for _, x := range xs {
		require.NoError(t, r.sess.Step(context.Background(), func(s scope) error { return r.micro(s, x) }))
	}
}

func (r *windowed) look(t *testing.T) []any {
	t.Helper()
	avg := append([]float32(nil), tensor.Data[float32](r.ema.State()[0].Tensor)...)
	return []any{look(t, r.opt), r.sched.State(), avg, r.win.Position()}
}

// Inf in one micro-batch drops the whole window: nothing has moved, nothing is left, and the next window is the one of a run
// that never saw it, to the bit; in one step or in one for each micro-batch, clipped, looked at, or neither.
func TestInfInAWindow(t *testing.T) {
	for name, cfg := range map[string]train.WindowConfig{
		"plain":       {},
		"clipped":     {ClipNorm: 0.5},
		"before step": {BeforeStep: func(scope) error { return nil }},
		"both":        {ClipNorm: 0.5, BeforeStep: func(scope) error { return nil }},
	} {
		for at, bad := range []float64{inf, nan, -inf} {
			clean, r := newWindowed(t, cfg), newWindowed(t, cfg)
			for _, x := range []*windowed{clean, r} {
				x.run(t, 1, 2, 3)
			}
			before, live := r.look(t), r.dev.Stats().Live
			window := []float64{4, 5, 6}
			window[at] = bad
			r.run(t, window...)
			require.Equal(t, before, r.look(t), name)
			require.Equal(t, live, r.dev.Stats().Live, name)
			require.Equal(t, 32768.0, r.scaler.Scale())
			require.Equal(t, []bool{false, false, true, false, false, false}, r.seen)
			if cfg.ClipNorm > 0 {
				require.False(t, math.Abs(r.win.Norm()) <= math.MaxFloat64)
			}
			r.run(t, window...) // and again
			for _, x := range []*windowed{clean, r} {
				x.run(t, 7, 8, 9, -1, -2, -3)
			}
			require.Equal(t, clean.look(t), r.look(t), name)
			if cfg.ClipNorm > 0 {
				require.InEpsilon(t, clean.win.Norm(), r.win.Norm(), 1e-12)
			}
		}
	}
}

// Law M3 for a window, whichever way its gradients are divided.
func TestWindowDryRun(t *testing.T) {
	for _, cfg := range []train.WindowConfig{{}, {ClipNorm: 1}, {BeforeStep: func(scope) error { return nil }}} {
		r := newWindowed(t, cfg)
		plantest.Compare(t, r.sess, func(s scope) error {
			for _, x := range []float64{1, 2, 3} {
				if err := r.micro(s, x); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// Clipping and dividing neither write to the gradients of a window, as their versions tell, nor read them.
func TestWindowDoesNotUnscale(t *testing.T) {
	r := newWindowed(t, train.WindowConfig{ClipNorm: 1})
	r.run(t, 1, 2)
	version := r.w.GradVersion()
	var ops []string
	r.dev.SetTrace(func(e memory.Event) {
		if e.Act == memory.Alloc && e.Kind == memory.Scratch {
			ops = append(ops, e.Site.Op)
		}
	})
	r.run(t, 3)
	r.dev.SetTrace(nil)
	require.EqualValues(t, 2, r.w.GradVersion()-version, "the third share, and the clearing")
	require.Contains(t, ops, "gradnorm", "taken when the gradient was whole")
	require.NotContains(t, ops, "clipgradnorm", "and not again")
}

// An error of an update that is not returned leaves a full window; Discard begins anew, for the scaler too.
func TestDiscardOfAScaledWindow(t *testing.T) {
	fail := true
	r := newWindowed(t, train.WindowConfig{BeforeStep: func(scope) error {
		if fail {
			return errMine
		}
		return nil
	}})
	r.run(t, 1, 2)
	r.ok(func(s scope) {
		_, err := r.win.Backward(s, r.linearLoss(s, r.w, 3, 3, 3))
		require.ErrorIs(t, err, errMine)
		r.win.Discard(s)
	})
	fail = false
	clean := newWindowed(t, train.WindowConfig{})
	for _, x := range []*windowed{clean, r} {
		x.run(t, 7, 8, 9)
	}
	require.Equal(t, clean.look(t), r.look(t))
}

// A training that is saved in the middle of a window, with the loss scale in its gradients, goes on to the same bits.
func TestScalerIsSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	state := func(r *windowed) train.State {
		return train.State{
			Model: []*autograd.Param{r.w, r.v}, Optimizer: r.opt, Schedule: r.sched, EMA: r.ema,
			Scaler: train.Of(r.scaler), Window: r.win,
		}
	}
	r, again := newWindowed(t, train.WindowConfig{ClipNorm: 1}), newWindowed(t, train.WindowConfig{ClipNorm: 1})
	r.run(t, 1, 2, 3, 4, 5, inf, 7, 8, 9, 1, 2)
	require.NoError(t, train.Save(path, state(r)))
	_, err := train.Load(path, state(again))
	require.NoError(t, err)
	require.Equal(t, r.scaler.State(), again.scaler.State())
	require.Equal(t, 32768.0, again.w.GradScale())
	for _, x := range []*windowed{r, again} {
		x.run(t, 3, 4, 5, 6, 7, 8, nan, 1, 1, 1)
	}
	require.Equal(t, r.look(t), again.look(t))
	require.Equal(t, r.scaler.State(), again.scaler.State())

	// as State and Load do it
	third := newWindowed(t, train.WindowConfig{ClipNorm: 1})
	r.run(t, 5)
	st, err := r.win.State()
	require.NoError(t, err)
	require.NoError(t, third.scaler.Load(r.scaler.State()))
	require.NoError(t, third.win.Load(st))
	require.Equal(t, r.w.GradScale(), third.w.GradScale())
	third.run(t, 6)
}
