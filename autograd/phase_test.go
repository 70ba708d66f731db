package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
)

// trace gives the events of a step.
func (r *rig) trace(f func(s *autograd.Scope)) (events []memory.Event) {
	r.t.Helper()
	old := r.dev.SetTrace(func(e memory.Event) { events = append(events, e) })
	r.ok(f)
	r.dev.SetTrace(old)
	return events
}

// marks lists the phases that began.
func marks(events []memory.Event) (list []string) {
	for _, e := range events {
		if e.Act == memory.Mark {
			list = append(list, e.Phase)
		}
	}
	return list
}

// A step is forward and backward for each micro-batch, then what the optimizer does; a replay is recomputation; a failed
// step ends too.
func TestPhases(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2}, 2)
	micro := func(s *autograd.Scope) { sum(s, mul(s, w.Value(), w.Value())).Backward(s) }
	update := func(s *autograd.Scope) {
		s.Run(memory.Site{Op: "sgd"}, autograd.Work{Shared: 8}, func(*autograd.Run) {})
		w.ZeroGrad()
	}
	require.Equal(t, []string{"forward", "backward", "forward", "backward", "step", ""}, marks(r.trace(func(s *autograd.Scope) {
		micro(s)
		micro(s)
		update(s)
	})))
	require.Equal(t, []string{"forward", "backward", "step", "forward", "backward", "step", ""}, marks(r.trace(func(s *autograd.Scope) {
		micro(s)
		update(s)
		micro(s)
		mul(s.NoGrad(), w.Value(), w.Value()) // an average of the weights, say
		update(s)
	})))
	require.Equal(t, []string{"forward", "recompute", "forward", ""}, marks(r.trace(func(s *autograd.Scope) {
		s.Replay("again", s.Modes(), func(s *autograd.Scope) { mul(s, w.Value(), w.Value()) })
	})))

	var events []memory.Event
	r.dev.SetTrace(func(e memory.Event) { events = append(events, e) })
	r.fails(func(s *autograd.Scope) { mul(s, w.Value(), nil) }, "input 1 is nil")
	require.Equal(t, []string{"forward", ""}, marks(events))
}

// Events say which operation ran, which node saved what, and whose gradient it is.
func TestEventsSayWhy(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2}, 2)
	w.SetName("net.w")
	x := r.tensor([]float64{3, 4}, 2)
	defer x.Release()
	events := r.trace(func(s *autograd.Scope) {
		h := mul(s.Named("net"), s.Input(x), w.Value()) // reads x
		sum(s, mul(s, h, h)).Backward(s)                // reads h
		w.ZeroGrad()
	})
	whys, ops := map[string]memory.Kind{}, map[memory.Site]uint64{}
	for _, e := range events {
		if e.Act == memory.Describe && e.Why != "" {
			whys[e.Why] = e.Kind
		}
		if e.Act == memory.Alloc {
			ops[e.By] = e.Op
			require.Equal(t, e.Site.Op, e.By.Op, "who asked is who runs")
		}
	}
	require.Equal(t, map[string]memory.Kind{
		"saved by testmul in net: input 0, for the gradient of input 1": memory.Input,
		"saved by testmul: input 1, for the gradient of input 0":        memory.Activation,
		"saved by testmul: input 0, for the gradient of input 1":        memory.Activation,
		"gradient of output 0 of testsum":                               memory.Temporary,
		"gradient of output 0 of testmul":                               memory.Temporary,
		"gradient of output 0 of testmul in net":                        memory.Temporary,
		"gradient of net.w":                                             memory.Grad,
	}, whys)
	require.Less(t, ops[memory.Site{Op: "testmul", Scope: "net"}], ops[memory.Site{Op: "testmul"}])
	require.Less(t, ops[memory.Site{Op: "testmul'"}], ops[memory.Site{Op: "testmul'", Scope: "net"}])

	require.Equal(t, memory.Site{Op: "param", Scope: "net.w"}, w.Tensor().Buffer().Site())
}
