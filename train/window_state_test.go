package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// copyOf is what a file would hold of the state: copies of the gradients.
func (r *rig) copyOf(st train.WindowState) train.WindowState {
	grads := map[string]*tensor.Tensor{}
	for name, g := range st.Grads {
		c, err := g.To(tensor.Float64, memory.Other, site)
		require.NoError(r.t, err)
		grads[name] = c
	}
	st.Grads = grads
	return st
}

// N3: stopped at any micro-batch and gone on with, to the last bit what never stopped.
func TestResumeWithinAWindow(t *testing.T) {
	want := clean(t, 3, []int{0, 1, 2}, []int{3, 4, 5})
	for at := range 6 {
		r := newRig(t)
		win := r.window(train.WindowConfig{Micro: 3})
		for i := range at {
			require.NoError(t, r.adds(win, nil, i))
		}
		st, err := win.State()
		require.NoError(t, err)
		require.Equal(t, at%3, st.Position)
		require.Equal(t, at%3 == 0, len(st.Grads) == 0)
		saved := r.copyOf(st)
		live := r.dev.Stats().Live
		require.NoError(t, r.step(func(s *autograd.Scope) error { win.Discard(s); return nil })) // as a new process has it
		again := r.window(train.WindowConfig{Micro: 3})
		require.NoError(t, again.Load(saved))
		require.Equal(t, live, r.dev.Stats().Live)
		for _, g := range saved.Grads {
			g.Release()
		}
		for i := at; i < 6; i++ {
			require.NoError(t, r.adds(again, nil, i))
		}
		require.Equal(t, want, r.values(), "stopped at %d", at)
		if at > 0 {
			require.Greater(t, again.Loss(), 0.0)
		}
		r.close()
	}
}

func TestLoadRefuses(t *testing.T) {
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: 3})
	good := r.fixed64(features)
	defer good.Release()
	bad := r.fixed64(features + 1)
	defer bad.Release()
	live := r.dev.Stats().Live
	for _, c := range []struct {
		st   train.WindowState
		text string
	}{
		{train.WindowState{Position: 3, Micro: 3}, "train: Window.Load: position 3 of 3 micro-batches: want one from 0 to Micro-1"},
		{train.WindowState{Position: 1, Micro: 2}, "the state is of windows of 2 micro-batches: want 3, this window's"},
		{train.WindowState{Position: 1, Micro: 3}, "the factor of the scaler in this window is 0: want more than 0, 1 without one"},
		{train.WindowState{Micro: 3, Grads: map[string]*tensor.Tensor{"w": good}}, "1 gradients at position 0: want none"},
		{train.WindowState{Position: 1, Micro: 3, Scale: 1, Grads: map[string]*tensor.Tensor{"w": good, "x": good}}, `the state has a gradient of "x": no parameter of the optimizer is named so`},
		{train.WindowState{Position: 1, Micro: 3, Scale: 1, Grads: map[string]*tensor.Tensor{"w": bad}}, "assigned grad has data of a different type or size: got float64[6], want float64[5]"},
	} {
		require.ErrorContains(t, win.Load(c.st), c.text)
		require.Equal(t, live, r.dev.Stats().Live)
		require.Nil(t, r.w.Grad())
	}
	require.NoError(t, r.adds(win, nil, 0))
	require.ErrorContains(t, win.Load(train.WindowState{Micro: 3}), "the window has 1 of 3 micro-batches: want one at its beginning")
	require.ErrorContains(t, r.window(train.WindowConfig{Micro: 3}).Load(train.WindowState{Micro: 3}), "w has a gradient already: call ZeroGrad first")
	require.ErrorIs(t, r.adds(win, errMine, 1), errMine)
	_, err := win.State()
	require.ErrorContains(t, err, "train: Window.State: the gradient of w was left half added")
}

func (r *rig) fixed64(n int) *tensor.Tensor {
	x, err := tensor.Zeros(r.dev, memory.Other, site, tensor.Of(tensor.Float64, n))
	require.NoError(r.t, err)
	return x
}
