package autograd_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

var errHalf = errors.New("half loaded")

// A session that refuses runs nothing, and says why, until it is told otherwise.
func TestRefuse(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	r.sess.Refuse(errHalf)
	require.ErrorIs(t, r.sess.Refused(), errHalf)
	require.ErrorIs(t, r.step(func(*autograd.Scope) { t.Error("ran") }), errHalf)
	_, err := r.sess.Plan(func(*autograd.Scope) error { t.Error("ran"); return nil }, autograd.PlanConfig{})
	require.ErrorIs(t, err, errHalf)
	require.ErrorContains(t, err, "autograd: Plan: ")
	r.sess.Refuse(nil)
	r.ok(func(*autograd.Scope) {})
}

func TestAdoptGrad(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	p := r.param("p", []float64{1, 2}, 2)
	live := r.dev.Stats().Live
	for _, v := range []float64{3, 4} {
		g := r.tensor([]float64{v, v}, 2)
		require.NoError(t, p.AdoptGrad(*g))
		require.Equal(t, []float64{v, v}, tensor.Data[float64](p.Grad()))
		require.Equal(t, live+16, r.dev.Stats().Live, "the one before is gone, nothing was copied")
		require.EqualValues(t, 16, r.dev.Stats().LiveByKind[memory.Grad])
	}
	bad := r.tensor([]float64{1}, 1)
	defer bad.Release()
	require.ErrorContains(t, p.AdoptGrad(*bad), "autograd: AdoptGrad of p: got float64[1]: want float64[2]")
	require.ErrorContains(t, p.AdoptGrad(tensor.Tensor{}), "want float64[2]")
	r.ok(func(*autograd.Scope) { require.ErrorContains(t, p.AdoptGrad(*bad), "a step is running") })
	require.Equal(t, []float64{4, 4}, tensor.Data[float64](p.Grad()))
	p.Release()
	require.ErrorContains(t, p.AdoptGrad(*bad), "it was released")
}
