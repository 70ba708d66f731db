package laws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
)

// TestEveryAllocationFails is law M2: for every n the n-th allocation of a step fails, cold (no gradients yet) and warm
// (in the middle of a training). Nothing is left, nothing has moved, and a smaller step equals that of a twin which
// never saw a failure, nor recomputes anything.
func TestEveryAllocationFails(t *testing.T) {
	for _, c := range []struct {
		warm      int
		recompute bool
	}{{0, false}, {2, false}, {2, true}} {
		warm := c.warm
		t.Run(fmt.Sprint("warm", warm, "recompute", c.recompute), func(t *testing.T) {
			r, twin := newRig(t, config{work: 2, recompute: c.recompute}), newRig(t, config{work: 1})
			defer r.close()
			defer twin.close()
			for range warm {
				r.ok(B)
				twin.ok(B)
			}
			n := allocations(t, r)
			require.Greater(t, n, 300)
			for k := 1; k <= n; k++ {
				before := r.hash()
				r.dev.FailAt(int64(k))
				err := r.run(B)
				r.dev.FailAt(0)
				var oom *memory.OOMError
				require.ErrorAs(t, err, &oom, "allocation %d of %d", k, n)
				require.Equal(t, r.owned(), r.dev.Stats().Live, "allocation %d: %v", k, err)
				require.Equal(t, before, r.hash(), "allocation %d: %v", k, err)
				for _, p := range r.params {
					require.Nil(t, p.Grad(), "allocation %d left a gradient of %s", k, p.Name())
				}
				if k%testEvery == 0 || k == n {
					r.ok(2)
					twin.ok(2)
					require.Equal(t, twin.hash(), r.hash(), "after failure %d", k)
				}
			}
			r.ok(B)
			twin.ok(B)
			require.Equal(t, twin.hash(), r.hash())
		})
	}
}

// allocations counts those of one step, by the dry run.
func allocations(t *testing.T, r *rig) int {
	t.Helper()
	plan, err := r.sess.Plan(r.step(B), autograd.PlanConfig{Steps: 1})
	require.NoError(t, err)
	return int(plan.Steps[0].Allocs)
}

// TestFailureInTheMiddleOfAWindow spreads the window over several steps: what the failed one had added to is refused
// until it is discarded, and then the window starts anew.
func TestFailureInTheMiddleOfAWindow(t *testing.T) {
	r, twin := newRig(t, config{}), newRig(t, config{})
	defer r.close()
	defer twin.close()
	body := func(r *rig, m int) func(*autograd.Scope) error {
		return func(s *autograd.Scope) error {
			_, err := r.window.Backward(s, r.net.Loss(s, s.Input(r.x[m]), s.Input(r.y[m]), r.tick))
			return err
		}
	}
	one := func(r *rig, m int) error { return r.sess.Step(context.Background(), body(r, m)) }
	stale := 0
	for k := 1; ; k += 7 {
		rand := r.sess.Rand()
		require.NoError(t, one(r, 0))
		plan, err := r.sess.Plan(body(r, 1), autograd.PlanConfig{Steps: 1})
		require.NoError(t, err)
		if k > int(plan.Steps[0].Allocs) {
			discard(t, r)
			r.sess.SetRand(rand)
			break
		}
		r.dev.FailAt(int64(k))
		err = one(r, 1)
		r.dev.FailAt(0)
		require.Error(t, err)
		require.Equal(t, r.owned(), r.dev.Stats().Live)
		require.Equal(t, 1, r.window.Position())
		if r.params[0].Stale() || r.params[len(r.params)-1].Stale() {
			stale++
			require.ErrorContains(t, one(r, 1), "half added by a failed step")
		}
		discard(t, r)
		require.Zero(t, r.window.Position())
		r.sess.SetRand(rand)
	}
	require.Positive(t, stale)
	for m := range micro {
		require.NoError(t, one(r, m))
		require.NoError(t, one(twin, m))
	}
	require.Equal(t, twin.hash(), r.hash())
}

func discard(t *testing.T, r *rig) {
	t.Helper()
	require.NoError(t, r.sess.Step(context.Background(), func(s *autograd.Scope) error { r.window.Discard(s); return nil }))
}

// TestStepsThatEndInEveryWay runs steps in which user code panics, calls Goexit, returns an error, is canceled or runs
// out of memory at random; nothing is left behind.
func TestStepsThatEndInEveryWay(t *testing.T) {
	r := newRig(t, config{work: 2})
	defer r.close()
	rng := rand.New(rand.NewPCG(1, 2))
	n := allocations(t, r)
	mine := errors.New("mine")
	ends := map[string]int{}
	goroutines := runtime.NumGoroutine()
	for i := range fewer(randomSteps) {
		ctx, cancel := context.WithCancel(context.Background())
		at := rng.IntN(micro*(blocks+2)-1) + 1 // the last tick comes behind the update
		r.tick = func() {}
		var failing error
		onTick := func(f func()) {
			r.tick = func() {
				if at--; at == 0 {
					f()
				}
			}
		}
		kind := []string{"panic", "goexit", "error", "cancel", "oom", "fine"}[rng.IntN(6)]
		switch kind {
		case "panic":
			onTick(func() { panic(mine) })
		case "goexit":
			onTick(runtime.Goexit)
		case "error":
			onTick(func() { failing = mine })
		case "cancel":
			onTick(cancel)
		case "oom":
			r.dev.FailAt(int64(rng.IntN(n) + 1))
		}
		before := r.hash()
		err := inGoroutine(func() error {
			return r.sess.Step(ctx, func(s *autograd.Scope) error {
				if err := r.step(B)(s); err != nil {
					return err
				}
				return failing
			})
		})
		cancel()
		r.dev.FailAt(0)
		ends[kind]++
		require.Equal(t, r.owned(), r.dev.Stats().Live, "step %d: %s: %v", i, kind, err)
		if kind == "fine" {
			require.NoError(t, err)
		} else if kind != "error" && kind != "cancel" { // these may end behind the update
			require.Equal(t, before, r.hash(), "step %d: %s", i, kind)
		}
	}
	require.Len(t, ends, 6)
	for range 1000 { // those that have reported are about to end
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	r.tick = func() {}
	r.ok(B)
}

var errGone = errors.New("panicked or left by Goexit")

// inGoroutine runs f where Goexit ends no test.
func inGoroutine(f func() error) (err error) {
	done := make(chan error, 1)
	go func() {
		err := errGone
		defer func() {
			recover()
			done <- err
		}()
		err = f()
	}()
	return <-done
}
