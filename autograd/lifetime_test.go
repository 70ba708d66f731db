package autograd_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func TestDoReleasesAllButWhatItReturns(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	x := r.tensor([]float64{5, 7}, 2)
	defer x.Release()
	r.ok(func(s *autograd.Scope) {
		live := r.dev.Stats().Live
		v := s.Input(x)
		y := s.Do("outer", func(s *autograd.Scope) *autograd.Value {
			h := mul(s, v, v)
			return s.Do("inner", func(s *autograd.Scope) *autograd.Value {
				require.Equal(t, "outer/inner", s.Path())
				return mul(s, mul(s, h, h), h)
			})
		})
		require.Equal(t, live+16, r.dev.Stats().Live)
		require.Equal(t, 5.0*5*5*5*5*5, y.Tensor().At(0))
		s.Free(y)
		require.Equal(t, live, r.dev.Stats().Live)
	})
}

func TestMisusedValuesAndScopes(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	x := r.tensor([]float64{5, 7}, 2)
	defer x.Release()
	w := r.param("w", []float64{1, 2}, 2)

	var kept *autograd.Value
	r.ok(func(s *autograd.Scope) { kept = mul(s, s.Input(x), s.Input(x)) })
	r.fails(func(s *autograd.Scope) { mul(s, kept, kept) },
		"testmul", "float64[2]", "made by testmul", "kept from step 1 to step 2", "Keep")

	var inner *autograd.Value
	var ended *autograd.Scope
	r.fails(func(s *autograd.Scope) {
		s.Do("block", func(s *autograd.Scope) *autograd.Value {
			inner, ended = mul(s, s.Input(x), s.Input(x)), s
			return nil
		})
		s.Do("other", func(s *autograd.Scope) *autograd.Value { return add(s, inner, inner) })
	}, "other: testadd", "made by testmul in block", "return it from Do")
	r.fails(func(s *autograd.Scope) { s.Input(x); mul(ended, w.Value(), w.Value()) }, `the scope "block" has ended`)
	r.fails(func(s *autograd.Scope) {
		v := mul(s, w.Value(), w.Value())
		s.Free(v)
		v.Item()
	}, "item", "released by Free")
	r.fails(func(s *autograd.Scope) { mul(s, w.Value(), nil) }, "input 1 is nil")
	r.fails(func(s *autograd.Scope) { autograd.Apply(s, halvesOp{}, w.Value()) }, "2 outputs", "ApplyN")
	r.fails(func(s *autograd.Scope) { mul(s, w.Value(), w.Value()).Item() }, "one element")

	// a running total built from values
	var total *autograd.Value
	r.ok(func(s *autograd.Scope) { total = sum(s, w.Value()) })
	r.fails(func(s *autograd.Scope) { total = add(s, total, sum(s, w.Value())) }, "running total is a Go number")
}

func TestKeepOutlivesTheStep(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2}, 2)
	var kept, copied *tensor.Tensor
	r.ok(func(s *autograd.Scope) {
		kept = s.Keep(mul(s, w.Value(), w.Value()))
		copied = s.Keep(w.Value())
	})
	require.Equal(t, []float64{1, 4}, tensor.Data[float64](kept))
	require.Equal(t, []float64{1, 2}, tensor.Data[float64](copied))
	require.EqualValues(t, 32, r.dev.Stats().LiveByKind[memory.Other])
	kept.Release()
	copied.Release()
}

func TestTwoGoroutinesGetAnError(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	entered, leave := make(chan bool), make(chan bool)
	var first error
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		first = r.step(func(*autograd.Scope) { entered <- true; <-leave })
	}()
	<-entered
	require.ErrorContains(t, r.step(func(*autograd.Scope) {}), "a session belongs to one goroutine")
	_, err := r.sess.Plan(func(*autograd.Scope) error { return nil }, autograd.PlanConfig{})
	require.ErrorContains(t, err, "a session belongs to one goroutine")
	leave <- true
	wg.Wait()
	require.NoError(t, first)

	// a second goroutine that uses the scope while an op of the first runs
	w := r.param("w", []float64{1, 2}, 2)
	err = r.step(func(s *autograd.Scope) {
		op := blockingOp{entered: make(chan bool), leave: make(chan bool)}
		got := make(chan any)
		go func() {
			defer func() { got <- recover() }()
			<-op.entered
			mul(s, w.Value(), w.Value())
		}()
		go func() { e := <-got; close(op.leave); got <- e }()
		autograd.Apply(s, op, w.Value())
		e, _ := (<-got).(*autograd.Error)
		require.ErrorContains(t, e, "the session is in use")
	})
	require.NoError(t, err)
}

// blockingOp stays in its kernel until it is let go.
type blockingOp struct{ entered, leave chan bool }

var blockingRule = &autograd.Rule{Name: "testblocking"}

func (blockingOp) Rule() *autograd.Rule { return blockingRule }
func (blockingOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Like(in[0])
	return nil
}
func (o blockingOp) Forward(*autograd.Fwd) { o.entered <- true; <-o.leave }
func (blockingOp) Backward(*autograd.Bwd)  {}

func TestUnwindingLeavesNothing(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2}, 2)
	work := func(s *autograd.Scope, end func()) {
		loss := sum(s, mul(s, w.Value(), w.Value()))
		loss.OnGrad(func(s *autograd.Scope, g *autograd.Value) *autograd.Value {
			s.Do("deep", func(s *autograd.Scope) *autograd.Value { end(); return nil })
			return nil
		})
		loss.Backward(s)
	}
	require.PanicsWithValue(t, "mine", func() {
		_ = r.step(func(s *autograd.Scope) { work(s, func() { panic("mine") }) })
	})
	require.EqualValues(t, 16, r.dev.Stats().Live)

	done := make(chan bool)
	go func() {
		defer close(done)
		_ = r.step(func(s *autograd.Scope) { work(s, runtime.Goexit) })
	}()
	<-done
	require.EqualValues(t, 16, r.dev.Stats().Live)

	ctx, cancel := context.WithCancel(context.Background())
	err := r.sess.Step(ctx, func(s *autograd.Scope) error { work(s, cancel); return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 16, r.dev.Stats().Live)

	mine := errors.New("mine")
	var never context.Context // nil is allowed
	require.ErrorIs(t, r.sess.Step(never, func(s *autograd.Scope) error { work(s, func() {}); return mine }), mine)
	require.EqualValues(t, 16, r.dev.Stats().Live)
	require.Nil(t, w.Grad())
	r.ok(func(s *autograd.Scope) { work(s, func() {}) })
	require.Equal(t, []float64{2, 4}, grad(w))
}

func TestStaleGradients(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2}, 2)
	loss := func(s *autograd.Scope) *autograd.Value { return sum(s, mul(s, w.Value(), w.Value())) }
	r.ok(func(s *autograd.Scope) { loss(s).Backward(s) })
	r.fails(func(s *autograd.Scope) {
		loss(s).Backward(s)
		mul(s, nil, nil)
	}, "input 0 is nil")
	require.True(t, w.Stale())
	r.fails(func(s *autograd.Scope) { loss(s).Backward(s) }, "gradient of w was left half added by a failed step", "ZeroGrad")
	w.ZeroGrad()
	require.False(t, w.Stale())
	r.ok(func(s *autograd.Scope) { loss(s).Backward(s) })
	require.Equal(t, []float64{2, 4}, grad(w))
}

func TestEveryFailedAllocationLeavesTheSessionAsItWas(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2, 3, 4}, 4)
	x := r.tensor([]float64{1, 2, 3, 4}, 4)
	defer x.Release()
	f := func(s *autograd.Scope) {
		h := s.Do("block", func(s *autograd.Scope) *autograd.Value {
			a, b := halves(s, mul(s, w.Value(), s.Input(x)))
			return add(s, mul(s, a, b), a)
		})
		g := autograd.Grad(s, sum(s, h), []*autograd.Value{w.Value()}, autograd.RetainGraph())
		sum(s, mul(s, h, h)).Backward(s)
		s.Keep(g[0]).Release()
	}
	var n uint64
	for range 2 {
		before := r.dev.Stats().Allocs
		r.ok(f)
		n = r.dev.Stats().Allocs - before
	}
	want := append([]float64(nil), grad(w)...)
	for warm := range 2 {
		for k := uint64(1); k <= n+1; k++ {
			w.ZeroGrad()
			if warm == 1 {
				r.ok(f)
			}
			live := r.dev.Stats().Live
			r.dev.FailAt(int64(k))
			err := r.step(f)
			r.dev.FailAt(0)
			if err == nil {
				require.GreaterOrEqual(t, k, n)
				break
			}
			var oom *memory.OOMError
			require.ErrorAs(t, err, &oom, "allocation %d", k)
			require.Equal(t, live, r.dev.Stats().Live, "allocation %d: %v", k, err)
		}
		w.ZeroGrad()
		r.ok(f)
		r.ok(f)
		require.Equal(t, want, grad(w))
	}
}
