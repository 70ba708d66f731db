package nn_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// classifier is an MLP of four linear layers, in three kinds of nesting, on batches of 16 rows.
type classifier struct{ Net nn.Sequential }

func newClassifier(r *rig) classifier {
	stage := func(in, out int) *nn.Sequential {
		return &nn.Sequential{r.linear(in, out), nn.GELU{}, nn.Dropout{P: 0.2}}
	}
	return classifier{nn.Sequential{
		r.norm(8), nn.Sequential{nn.Dropout{}, r.linear(8, 32), nn.ReLU{}, nn.Dropout{P: 0.1}}, stage(32, 24), r.norm(24),
		nn.Sequential{nn.Sequential{stage(24, 16)}}, r.linear(16, 5),
	}}
}

func (m classifier) loss(s *autograd.Scope, x, y *autograd.Value) *autograd.Value {
	return s.Do("mlp", func(s *autograd.Scope) *autograd.Value {
		return ops.CrossEntropy(s, m.Net.Forward(s.Named("net"), x), y)
	})
}

// training gives the model and its step, and a release of the inputs.
func training(r *rig) (m classifier, step func(*autograd.Scope) error, release func()) {
	m = newClassifier(r)
	x, y := r.uniform(tensor.Float32, 16, 8), floats(r, make([]int64, 16), 16)
	step = func(s *autograd.Scope) error {
		loss := m.loss(s, s.Input(x), s.Input(y))
		loss.Backward(s)
		s.Free(loss)
		for _, p := range nn.Params(m) {
			p.ZeroGrad()
		}
		return nil
	}
	return m, step, func() { x.Release(); y.Release() }
}

func TestNothingIsHeldPastItsUse(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m, step, release := training(r)
	defer release()
	x := r.uniform(tensor.Float32, 16, 8)
	defer x.Release()
	infer := func(modes func(*autograd.Scope) *autograd.Scope) func(*autograd.Scope) error {
		return func(s *autograd.Scope) error {
			s.Free(m.Net.Forward(modes(s), s.Input(x)))
			return nil
		}
	}
	for name, f := range map[string]func(*autograd.Scope) error{
		"training":       step,
		"no grad":        infer(func(s *autograd.Scope) *autograd.Scope { return s.NoGrad() }),
		"no grad, eval":  infer(func(s *autograd.Scope) *autograd.Scope { return s.NoGrad().Eval() }),
		"evaluated loss": func(s *autograd.Scope) error { return step(s.Eval()) },
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := r.sess.Plan(f, autograd.PlanConfig{})
			require.NoError(t, err)
			require.Empty(t, plan.Slack)
		})
	}
}

func TestDryRunIsTheRealRun(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m, step, release := training(r)
	defer release()
	nn.Params(m) // events carry the names that the walk gives
	before := r.dev.Stats()
	plan, err := r.sess.Plan(step, autograd.PlanConfig{Events: true})
	require.NoError(t, err)
	require.Equal(t, before, r.dev.Stats())
	for i, p := range plan.Steps {
		var events []memory.Event
		r.dev.SetTrace(func(e memory.Event) { events = append(events, e) })
		r.dev.ResetPeak()
		require.NoError(t, r.sess.Step(context.Background(), step))
		r.dev.SetTrace(nil)
		st := r.dev.Stats()
		require.Equal(t, p.Events, events, "step %d", i)
		require.Equal(t, [3]int64{p.Peak, p.Arena, p.After}, [3]int64{st.Peak, st.ArenaPeak, st.Live})
		require.Equal(t, p.Hash, st.Hash)
	}
	require.Equal(t, nn.ParamBytes(m), r.dev.Stats().LiveByKind[memory.Param])
	require.Equal(t, before.Live, r.dev.Stats().Live)
}

// Under NoGrad a chain of equal layers takes two activations, however long it is and however it is nested.
func TestChainWithoutGradient(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	x := r.uniform(tensor.Float32, 64, 16)
	defer x.Release()
	layer := r.linear(16, 16)
	peak := func(q nn.Sequential) int64 {
		r.dev.ResetPeak()
		live := r.dev.Stats().Live
		r.ok(func(s *autograd.Scope) { q.Forward(s.NoGrad(), s.Input(x)) })
		require.Equal(t, live, r.dev.Stats().Live)
		return r.dev.Stats().Peak - live
	}
	want := peak(nn.Sequential{layer, layer})
	require.Equal(t, want, peak(nn.Sequential{layer, layer, layer, layer, layer}))
	require.Equal(t, want, peak(nn.Sequential{layer, nn.Sequential{layer, &nn.Sequential{layer, layer}, layer}}))
	require.Equal(t, want, peak(nn.Sequential{layer, nn.Dropout{}, nn.Sequential{nn.Dropout{}, layer}, nn.Dropout{}, layer}))
}

func TestSequentialNeverFreesItsInput(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	x := r.uniform(tensor.Float32, 3, 4)
	defer x.Release()
	pass := module(func(_ *autograd.Scope, x *autograd.Value) *autograd.Value { return x })
	chains := []nn.Sequential{
		nil,
		{},
		{pass, nn.Dropout{}},
		{nn.Sequential{pass}, r.linear(4, 4)},
		{nn.Sequential{}, nn.Sequential{pass, r.linear(4, 4), nn.Sequential{pass}}, pass},
	}
	r.ok(func(s *autograd.Scope) {
		in := ops.ReLU(s, s.Input(x)) // a value that Free would free
		for i, q := range chains {
			y := q.Forward(s, in)
			require.Equal(t, i < 3, y == in)
			require.NotPanics(t, func() { in.Tensor(); y.Tensor() }, "chain %d", i)
		}
	})
}

func TestScopesMirrorNames(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	var paths []string
	look := module(func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		paths = append(paths, s.Path())
		return x
	})
	x := r.uniform(tensor.Float32, 1)
	defer x.Release()
	q := nn.Sequential{look, nn.Sequential{look, nn.Sequential{look}}, look}
	r.ok(func(s *autograd.Scope) {
		q.Forward(s, s.Input(x))
		q.Forward(s.Named("net"), s.Input(x))
	})
	require.Equal(t, []string{"0", "1/0", "1/1/0", "2", "net/0", "net/1/0", "net/1/1/0", "net/2"}, paths)
}

// A step that fails at any allocation leaves what was there before it.
func TestEveryFailedAllocationOfAStep(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m, step, release := training(r)
	defer release()
	live := r.dev.Stats().Live
	for k := int64(1); ; k++ {
		r.dev.FailAt(k)
		err := r.sess.Step(context.Background(), step)
		r.dev.FailAt(0)
		require.Equal(t, live, r.dev.Stats().Live, "allocation %d", k)
		if err == nil {
			require.Greater(t, k, int64(40))
			break
		}
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
	}
	for _, p := range nn.AllParams(m) {
		require.Nil(t, p.Grad())
	}
}

// The gradient of a shared layer is the sum over its uses; frozen ones have none.
func TestGradientsReachEveryParameter(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m := newClassifier(r)
	x, y := r.uniform(tensor.Float32, 16, 8), floats(r, make([]int64, 16), 16)
	defer x.Release()
	defer y.Release()
	nn.SetFrozen(m.Net[1], true)
	r.ok(func(s *autograd.Scope) { m.loss(s, s.Input(x), s.Input(y)).Backward(s) })
	for _, p := range nn.AllParams(m) {
		require.Equal(t, p.Frozen(), p.Grad() == nil, p.Name())
	}

	once, twice := r.linear(4, 4, double), r.linear(4, 4, double)
	require.NoError(t, nn.LoadStateDict(twice, nn.StateDict(once)))
	in := r.uniform(tensor.Float64, 3, 4)
	defer in.Release()
	grad := func(q nn.Sequential, l *nn.Linear) []float64 {
		r.ok(func(s *autograd.Scope) {
			s.Do("loss", func(s *autograd.Scope) *autograd.Value {
				q.Forward(s, s.Input(in)).Backward(s, autograd.WithGrad(in))
				return nil
			})
		})
		return values(t, l.Weight.Grad())
	}
	want := grad(nn.Sequential{once, twice}, once)
	for i, g := range values(t, twice.Weight.Grad()) {
		want[i] += g
	}
	once.Weight.ZeroGrad()
	for i, g := range grad(nn.Sequential{once, once}, once) {
		require.InDelta(t, want[i], g, 1e-14)
	}
}
