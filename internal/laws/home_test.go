package laws

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// mapHome is the test double of the Home seam: values and gradients in Go slices.
type mapHome struct {
	values, grads map[string][]float32
	calls, failAt int
}

var errHome = errors.New("home")

func newMapHome() *mapHome {
	return &mapHome{values: map[string][]float32{}, grads: map[string][]float32{}}
}

func (h *mapHome) call() error {
	if h.calls++; h.calls == h.failAt {
		return errHome
	}
	return nil
}

func (h *mapHome) fetch(d *memory.Device, k memory.Kind, name string, s tensor.Spec, from map[string][]float32) (tensor.Tensor, error) {
	if err := h.call(); err != nil {
		return tensor.Tensor{}, err
	}
	t, err := tensor.Make(d, k, memory.Site{Op: "home", Scope: name}, s)
	if err == nil {
		copy(tensor.Data[float32](&t), from[name]) // no data in a dry run
	}
	return t, err
}

func (h *mapHome) Fetch(d *memory.Device, name string, s tensor.Spec) (tensor.Tensor, error) {
	return h.fetch(d, memory.Param, name, s, h.values)
}

func (h *mapHome) Grad(d *memory.Device, name string, s tensor.Spec) (tensor.Tensor, error) {
	return h.fetch(d, memory.Grad, name, s, h.grads)
}

func (h *mapHome) Put(name string, t tensor.Tensor) error {
	if err := h.call(); err != nil || t.Buffer().Device().Virtual() {
		return err
	}
	h.values[name] = slices.Clone(tensor.Data[float32](&t))
	return nil
}

func (h *mapHome) PutGrad(name string, g tensor.Tensor) error {
	if err := h.call(); err != nil || g.Buffer().Device().Virtual() {
		return err
	}
	h.grads[name] = slices.Clone(tensor.Data[float32](&g))
	return nil
}

func (h *mapHome) ForgetGrad(name string) { delete(h.grads, name) }

func (h *mapHome) Forget(name string) { delete(h.values, name); delete(h.grads, name) }

// homed moves all parameters of a rig to a home.
func homed(t *testing.T) (*rig, *mapHome) {
	t.Helper()
	r, h := newRig(t, config{}), newMapHome()
	for _, p := range r.params {
		require.NoError(t, p.SetHome(h))
	}
	return r, h
}

// values fetches all parameters.
func values(t *testing.T, r *rig) (all []float32) {
	t.Helper()
	for _, p := range r.params {
		w, err := p.Fetch()
		require.NoError(t, err)
		all = append(all, tensor.Data[float32](&w)...)
		w.Release()
	}
	return all
}

// TestHome: a training whose parameters and gradients live elsewhere is the same to the bit (N1), dry run = real run
// (M3), and nothing of them stays on the device (M2).
func TestHome(t *testing.T) {
	plain := newRig(t, config{})
	defer plain.close()
	r, h := homed(t)
	defer r.close()
	var inputs int64
	for m := range micro {
		inputs += r.x[m].Bytes() + r.y[m].Bytes()
	}
	require.Equal(t, r.state+inputs, r.dev.Stats().Live)
	for range 4 {
		plan, err := r.sess.Plan(r.step(B), autograd.PlanConfig{Steps: 1, Events: true})
		require.NoError(t, err)
		var events []memory.Event
		old := r.dev.SetTrace(func(e memory.Event) { events = append(events, e) })
		r.ok(B)
		r.dev.SetTrace(old)
		require.Equal(t, plan.Steps[0].Events, events)
		require.Equal(t, r.state+inputs, r.dev.Stats().Live)
		plain.ok(B)
		require.True(t, slices.Equal(values(t, plain), values(t, r)), "another value")
	}
	require.Empty(t, h.grads, "ZeroGrad ends them")
	require.Len(t, h.values, len(r.params))
	for _, p := range r.params {
		require.NoError(t, p.SetHome(nil))
	}
	require.Empty(t, h.values)
	plain.ok(B)
	r.ok(B)
	require.Equal(t, plain.hash(), r.hash())
}

// TestHomeFailures: every call to the home and every allocation fails once. Nothing is left on the device; before the
// update nothing has moved, and gradients that the home has taken are stale.
func TestHomeFailures(t *testing.T) {
	r, h := homed(t)
	defer r.close()
	live := r.dev.Stats().Live
	check := func(err, want error, before []float32, update bool) {
		t.Helper()
		require.ErrorIs(t, err, want)
		require.Equal(t, live, r.dev.Stats().Live)
		if !update {
			require.True(t, slices.Equal(before, values(t, r)), "moved")
		} else {
			require.ErrorContains(t, err, "updated already")
		}
		require.NoError(t, r.sess.Step(context.Background(), func(s *autograd.Scope) error { r.window.Discard(s); return nil }))
	}
	h.calls = 0
	r.ok(B)
	calls := h.calls
	updates := 3 * len(r.params) // fetch, gradient, put
	for k := 1; k <= calls; k++ {
		before := values(t, r)
		h.calls, h.failAt = 0, k
		err := r.run(B)
		h.failAt = 0
		check(err, errHome, before, k > calls-updates)
	}
	n := allocations(t, r)
	for k := 1; k <= n; k += 3 {
		r.dev.FailAt(int64(k))
		err := r.run(B)
		r.dev.FailAt(0)
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
		require.Equal(t, live, r.dev.Stats().Live)
		require.NoError(t, r.sess.Step(context.Background(), func(s *autograd.Scope) error { r.window.Discard(s); return nil }))
	}
	r.ok(B)
}
