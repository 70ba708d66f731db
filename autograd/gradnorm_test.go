package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
)

// A pass that is asked to takes the sum of squares of each gradient, whole, and it is known until the gradient changes.
func TestGradSquares(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w, v := r.param("w", []float64{2, 3}, 2), r.param("v", []float64{1}, 1)
	squares := func(p *autograd.Param) float64 {
		t.Helper()
		sum, known := p.GradSquares()
		require.True(t, known)
		return sum
	}
	unknown := func(p *autograd.Param) {
		t.Helper()
		_, known := p.GradSquares()
		require.False(t, known)
	}
	unknown(w)
	back := func(s *autograd.Scope, opts ...autograd.BackwardOption) {
		a := mul(s, w.Value(), w.Value()) // three shares of one gradient: 3 w^2
		sum(s, mul(s, a, w.Value())).Backward(s, opts...)
	}
	plantest.Compare(t, r.sess, func(s *autograd.Scope) error {
		w.ZeroGrad()
		back(s, autograd.WithGradNorms())
		want := 12.*12 + 27*27
		if s.Dry() {
			want = 0
		}
		require.Equal(t, want, squares(w))
		unknown(v)
		return nil
	})
	require.Equal(t, 12.*12+27*27, squares(w))
	_, err := r.sess.Plan(func(s *autograd.Scope) error {
		back(s)
		unknown(w)
		back(s, autograd.WithGradNorms())
		require.Zero(t, squares(w))
		return nil
	}, autograd.PlanConfig{})
	require.NoError(t, err)
	require.Equal(t, 12.*12+27*27, squares(w), "a dry run leaves no trace")

	r.ok(func(s *autograd.Scope) {
		back(s, autograd.WithGradNorms())
		require.Equal(t, 24.*24+54*54, squares(w), "of what all passes added up")
		w.TouchGrad()
		unknown(w)
	})
	r.ok(func(s *autograd.Scope) { back(s, autograd.WithGradNorms()) })
	squares(w)
	w.ZeroGrad()
	unknown(w)

	w.OnGradReady(func(_ *autograd.Scope, p *autograd.Param) error {
		require.Equal(t, 12.*12+27*27, squares(p), "known to who takes the gradient")
		p.TouchGrad()
		return nil
	})
	r.ok(func(s *autograd.Scope) { back(s, autograd.WithGradNorms()) })
	unknown(w)

	live := r.dev.Stats().Live
	w.ZeroGrad()
	r.dev.FailAt(1)
	require.Error(t, r.sess.Step(t.Context(), func(s *autograd.Scope) error { back(s, autograd.WithGradNorms()); return nil }))
	r.dev.FailAt(0)
	require.Less(t, r.dev.Stats().Live, live)
	unknown(w)
}
