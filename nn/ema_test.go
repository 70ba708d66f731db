package nn_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

func TestEMA(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m := nn.Sequential{r.linear(200, 150), r.linear(3, 2, double)}
	params := nn.Params(m)
	live := r.dev.Stats().Live
	e, err := nn.NewEMA(params, 0.75)
	require.NoError(t, err)
	require.Equal(t, nn.ParamBytes(m), r.dev.Stats().Live-live)
	require.Equal(t, nn.ParamBytes(m), r.dev.Stats().LiveByKind[memory.Other])
	require.Equal(t, nn.ParamBytes(m), e.State().Bytes())
	require.Equal(t, "1.bias", e.State()[3].Name)

	start := make([][]float64, len(params))
	for i, p := range params {
		start[i] = values(t, p.Tensor())
		require.NoError(t, tensor.Fill(p.Tensor(), 2))
	}
	check := func(want func(v float64) float64) {
		t.Helper()
		for i, s := range e.State() {
			got := values(t, s.Tensor)
			for k, v := range start[i] {
				require.InDelta(t, want(v), got[k], 1e-6)
			}
		}
	}
	check(func(v float64) float64 { return v })
	version := e.State()[0].Tensor.Version()
	r.ok(e.Update)
	check(func(v float64) float64 { return 0.75*v + 0.5 })
	require.Greater(t, e.State()[0].Tensor.Version(), version)

	// failed steps and dry runs leave it; a dry run shows the real one
	once := func(s *autograd.Scope) error { e.Update(s); return nil }
	mine := errors.New("mine")
	require.ErrorIs(t, r.sess.Step(t.Context(), func(s *autograd.Scope) error { e.Update(s); e.Update(s); return mine }), mine)
	before := r.dev.Stats().Live
	for k := int64(1); k < 5; k++ {
		r.dev.FailAt(k)
		require.Error(t, r.sess.Step(t.Context(), once))
		require.Equal(t, before, r.dev.Stats().Live)
	}
	check(func(v float64) float64 { return 0.75*v + 0.5 })
	plan, err := r.sess.Plan(once, autograd.PlanConfig{Steps: 1, Events: true})
	require.NoError(t, err)
	r.dev.ResetPeak()
	var events []memory.Event
	r.dev.SetTrace(func(e memory.Event) { events = append(events, e) })
	require.NoError(t, r.sess.Step(t.Context(), once))
	r.dev.SetTrace(nil)
	require.Equal(t, plan.Steps[0].Events, events)
	require.Equal(t, plan.Peak(), r.dev.Stats().Peak)
	check(func(v float64) float64 { return 0.5625*v + 0.875 })

	// the averages are in the model, and back
	require.NoError(t, e.Swap())
	require.True(t, e.Swapped())
	for i, p := range params {
		require.InDelta(t, 0.5625*start[i][0]+0.875, values(t, p.Tensor())[0], 1e-6)
	}
	check(func(float64) float64 { return 2 })
	require.ErrorContains(t, r.step(e.Update), "autograd: ema: the averages are in the model, and its own values here: Swap them back first")
	r.ok(func(*autograd.Scope) {
		require.ErrorContains(t, e.Swap(), "nn: EMA.Swap: a step is running: swap between steps")
	})
	require.NoError(t, e.Swap())
	require.False(t, e.Swapped())
	check(func(v float64) float64 { return 0.5625*v + 0.875 })
	require.EqualValues(t, 2, params[0].Tensor().At(3, 4))

	e.Close()
	e.Close()
	require.Equal(t, live, r.dev.Stats().Live)
	require.ErrorContains(t, r.step(e.Update), "the average is closed")
	require.ErrorContains(t, e.Swap(), "the average is closed")
	_, err = nn.NewEMA(params, 0.9) // the session closes it
	require.NoError(t, err)
}

func TestEMARefuses(t *testing.T) {
	r, other := newRig(t, 1), newRig(t, 1)
	defer r.close()
	defer other.close()
	p, q := r.param(2), r.param(3)
	gone := r.param(1)
	gone.Release()
	live := r.dev.Stats().Live
	fail := func(decay float64, ps ...*autograd.Param) error {
		e, err := nn.NewEMA(ps, decay)
		require.Nil(t, e)
		return err
	}
	require.ErrorContains(t, fail(0.9), "nn: NewEMA: no parameters")
	require.ErrorContains(t, fail(1.5, p), "nn: NewEMA: decay 1.5: want 0 to 1")
	require.ErrorContains(t, fail(0.9, p, p), "nn: NewEMA: new is given twice")
	require.ErrorContains(t, fail(0.9, p, other.param(1)), "nn: NewEMA: new is another session's")
	require.ErrorContains(t, fail(0.9, p, gone), "nn: NewEMA: new was released")
	r.ok(func(*autograd.Scope) { require.ErrorContains(t, fail(0.9, p), "nn: NewEMA: made within a step") })
	for k := range int64(2) {
		r.dev.FailAt(k + 1)
		require.Error(t, fail(0.9, p, q))
	}
	require.Equal(t, live, r.dev.Stats().Live)
	e, err := nn.NewEMA([]*autograd.Param{p, q}, 0.9)
	require.NoError(t, err)
	require.ErrorContains(t, other.step(e.Update), "the scope is another session's")
	want := values(t, p.Tensor())
	r.ok(e.Update)
	q.Release()
	require.ErrorContains(t, r.step(e.Update), "autograd: ema: new: the parameter was released")
	require.ErrorContains(t, e.Swap(), "nn: EMA.Swap: new: the parameter was released")
	require.Equal(t, want, values(t, p.Tensor()))
	require.False(t, e.Swapped())
}

// home keeps values elsewhere; the put of one of them may fail.
type home struct {
	at   map[string]*tensor.Tensor
	fail string
}

func (h *home) Fetch(_ *memory.Device, name string, _ tensor.Spec) (tensor.Tensor, error) {
	t, err := h.at[name].Contiguous(memory.Param, site)
	if err != nil {
		return tensor.Tensor{}, err
	}
	return *t, nil
}

func (h *home) Put(name string, t tensor.Tensor) error {
	if name == h.fail {
		return errors.New("away")
	}
	c, err := t.Contiguous(memory.Other, site)
	if err != nil {
		return err
	}
	if old := h.at[name]; old != nil {
		old.Release()
	}
	h.at[name] = c
	return nil
}

func (h *home) PutGrad(string, tensor.Tensor) error { return errors.New("no gradients") }

func (h *home) Grad(*memory.Device, string, tensor.Spec) (tensor.Tensor, error) {
	return tensor.Tensor{}, errors.New("no gradients")
}

func (h *home) ForgetGrad(string) {}

func (h *home) Forget(name string) {
	if h.at[name] != nil {
		h.at[name].Release()
		delete(h.at, name)
	}
}

// Values that live elsewhere are averaged and swapped there; a swap that fails is taken back.
func TestEMAOfParametersInAHome(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m := struct{ A, B *autograd.Param }{r.param(3), r.param(3)}
	params := nn.Params(m)
	h := &home{at: map[string]*tensor.Tensor{}}
	for _, p := range params {
		require.NoError(t, p.SetHome(h))
	}
	e, err := nn.NewEMA(params, 0.5)
	require.NoError(t, err)
	a, b := values(t, h.at["a"]), values(t, h.at["b"])
	require.NoError(t, tensor.Fill(h.at["a"], 0))
	r.ok(e.Update)
	half := []float64{a[0] / 2, a[1] / 2, a[2] / 2}
	require.Equal(t, half, values(t, e.State()[0].Tensor))
	require.Equal(t, b, values(t, e.State()[1].Tensor))
	h.fail = "b"
	live := r.dev.Stats().Live
	require.ErrorContains(t, e.Swap(), "nn: EMA.Swap: b: autograd: b into its home: away")
	require.Equal(t, live, r.dev.Stats().Live)
	require.Equal(t, []float64{0, 0, 0}, values(t, h.at["a"]))
	require.Equal(t, half, values(t, e.State()[0].Tensor))
	require.Equal(t, b, values(t, e.State()[1].Tensor))
	h.fail = ""
	require.NoError(t, e.Swap())
	require.Equal(t, half, values(t, h.at["a"]))
}
