package autograd_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
)

// A gradient knows its loss scale, and gradients of two do not mix.
func TestLossScale(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{2, 3}, 2)
	back := func(opts ...autograd.BackwardOption) func(*autograd.Scope) error {
		return func(s *autograd.Scope) error {
			sum(s, mul(s, w.Value(), w.Value())).Backward(s, opts...)
			return nil
		}
	}
	step := func(f func(*autograd.Scope) error) error { return r.sess.Step(context.Background(), f) }
	require.Equal(t, 1.0, w.GradScale())
	require.NoError(t, step(back(autograd.WithScale(0.5), autograd.WithLossScale(8), autograd.WithScale(0.5))))
	require.Equal(t, []float64{8, 12}, grad(w))
	require.Equal(t, 8.0, w.GradScale())
	version := w.GradVersion()

	live := r.dev.Stats().Live
	for _, opts := range [][]autograd.BackwardOption{nil, {autograd.WithLossScale(4)}} {
		require.ErrorContains(t, step(back(opts...)), "the gradient of w was made with a loss scale of 8, this pass has ")
		require.Equal(t, live, r.dev.Stats().Live)
		require.Equal(t, []float64{8, 12}, grad(w))
		require.False(t, w.Stale())
		require.Equal(t, version, w.GradVersion(), "nothing was written")
	}
	_, err := r.sess.Plan(func(s *autograd.Scope) error {
		require.NoError(t, back(autograd.WithLossScale(8))(s))
		w.SetGradScale(1)
		w.ZeroGrad()
		return back()(s)
	}, autograd.PlanConfig{Steps: 1})
	require.NoError(t, err)
	require.Equal(t, 8.0, w.GradScale(), "a dry run leaves no trace")
	require.Equal(t, version, w.GradVersion())

	require.NoError(t, step(back(autograd.WithLossScale(8))))
	require.Greater(t, w.GradVersion(), version)
	version = w.GradVersion()
	w.SetGradScale(1)
	require.NoError(t, step(back()))
	w.ZeroGrad()
	require.Greater(t, w.GradVersion(), version)
	require.NoError(t, step(back(autograd.WithLossScale(4))), "no gradient, no scale")
	w.ZeroGrad()
	mine := errors.New("mine")
	require.ErrorIs(t, step(func(s *autograd.Scope) error { require.NoError(t, back(autograd.WithLossScale(2))(s)); return mine }), mine)
	require.NoError(t, step(back()), "what a failed step made is gone, its scale too")
	require.Equal(t, 1.0, w.GradScale())
	w.ZeroGrad()

	w.SetConsumed()
	require.ErrorContains(t, step(back(autograd.WithLossScale(2))), "the gradient of w is released inside backward, where a loss scale of 2 cannot be divided out")
}
