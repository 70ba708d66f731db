package autograd_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func TestPlanEqualsTheRealRun(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2, 3, 4}, 4)
	x := r.tensor([]float64{1, 2, 3, 4}, 4)
	defer x.Release()
	steps := 0
	f := func(s *autograd.Scope) error {
		autograd.Journal(s.Session(), &steps)
		steps++
		a, b := halves(s, mul(s, w.Value(), s.Input(x)))
		h := addInPlace(s, add(s, a, b), b)
		loss := sum(s, mul(s, h, h))
		loss.Backward(s)
		require.Equal(t, s.Dry(), loss.Item() == 0)
		require.Equal(t, s.Dry(), tensor.Data[float64](loss.Tensor()) == nil)
		require.NotNil(t, w.Grad())
		return nil
	}
	plan := plantest.Compare(t, r.sess, f)
	require.Equal(t, 2, steps, "only the real steps count")
	require.Equal(t, []memory.Site{{Op: "testsum"}, {Op: "testsum"}}, plan.Reads)
	require.Equal(t, plan.Peak(), plan.Steps[1].Peak)
}

func TestPlanPutsEverythingBack(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2}, 2)
	loss := func(s *autograd.Scope) *autograd.Value { return sum(s, mul(s, w.Value(), w.Value())) }
	r.ok(func(s *autograd.Scope) { loss(s).Backward(s) })
	want := append([]float64(nil), grad(w)...)
	mine := errors.New("mine")
	for _, end := range []func() error{
		func() error { return nil },
		func() error { return mine },
		func() error { panic("mine") },
	} {
		before := r.dev.Stats()
		func() {
			defer func() { _ = recover() }()
			_, err := r.sess.Plan(func(s *autograd.Scope) error {
				loss(s).Backward(s)
				w.ZeroGrad()
				loss(s).Backward(s)
				require.NoError(t, tensor.Fill(w.Tensor(), 7))
				return end()
			}, autograd.PlanConfig{})
			if err != nil {
				require.ErrorIs(t, err, mine)
			}
		}()
		require.Equal(t, before, r.dev.Stats())
		require.Equal(t, want, grad(w))
		require.Equal(t, []float64{1, 2}, tensor.Data[float64](w.Tensor()))
		require.False(t, w.Stale())
	}
	r.ok(func(s *autograd.Scope) { loss(s).Backward(s) })
	require.Equal(t, []float64{4, 8}, grad(w))
}

func TestPlanSaysWhatDoesNotFit(t *testing.T) {
	r := newRig(t, memory.Config{Limit: 1 << 10})
	defer r.close()
	w := r.param("w", make([]float64, 64), 64)
	f := func(s *autograd.Scope) error {
		h := mul(s, w.Value(), w.Value())
		sum(s, mul(s, h, h)).Backward(s)
		return nil
	}
	plan, err := r.sess.Plan(f, autograd.PlanConfig{Steps: 1})
	require.NoError(t, err)
	require.Positive(t, plan.Steps[0].OverBy)
	err = r.sess.Step(context.Background(), f)
	var oom *memory.OOMError
	require.ErrorAs(t, err, &oom)
	require.EqualValues(t, 512, r.dev.Stats().Live)
}

func TestPlanListsSlack(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	x := r.tensor([]float64{1, 2}, 2)
	defer x.Release()
	slack := func(free bool) []autograd.Slack {
		plan, err := r.sess.Plan(func(s *autograd.Scope) error {
			h := s.Named("first").Input(x)
			a := mul(s.Named("held"), h, h)
			b := mul(s, a, a)
			if free {
				s.Free(a)
			}
			mul(s, b, b)
			return nil
		}, autograd.PlanConfig{})
		require.NoError(t, err)
		return plan.Slack
	}
	require.Equal(t, []autograd.Slack{{Bytes: 16, Site: memory.Site{Op: "testmul", Scope: "held"}, Spec: "float64[2]", Allocs: 1}}, slack(false))
	require.Empty(t, slack(true))
}

func TestVirtualDevice(t *testing.T) {
	r := newRig(t, memory.Config{Virtual: true})
	defer r.close()
	w, err := r.sess.NewParam("w", tensor.Of(tensor.Float64, 1<<20, 1<<14), nil) // 128 GiB
	require.NoError(t, err)
	f := func(s *autograd.Scope) error {
		loss := sum(s, mul(s, w.Value(), w.Value()))
		loss.Backward(s)
		require.Zero(t, loss.Item())
		return nil
	}
	plantest.Compare(t, r.sess, f)
	require.EqualValues(t, 2<<37, r.dev.Stats().Live)
	require.EqualValues(t, 4<<37+8+8, r.dev.Stats().Peak, "w, its square and the gradients of both")
}
