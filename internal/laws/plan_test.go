package laws

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
)

// TestDryRunEqualsRealRun is law M3 for a whole window with its update: event for event, first and second step.
func TestDryRunEqualsRealRun(t *testing.T) {
	r := newRig(t, config{work: 2})
	defer r.close()
	for round := range 2 {
		before, hash := r.dev.Stats(), r.hash()
		plan, err := r.sess.Plan(r.step(B), autograd.PlanConfig{Steps: 2, Events: true})
		require.NoError(t, err)
		require.Equal(t, before, r.dev.Stats())
		require.Equal(t, hash, r.hash())
		for i, want := range plan.Steps {
			var events []memory.Event
			old := r.dev.SetTrace(func(e memory.Event) { events = append(events, e) })
			r.dev.ResetPeak()
			r.ok(B)
			r.dev.SetTrace(old)
			st := r.dev.Stats()
			require.Equal(t, want.Events, events, "round %d step %d", round, i)
			require.Equal(t, want.Peak, st.Peak)
			require.Equal(t, want.Arena, st.ArenaPeak)
			require.Equal(t, want.ByKind, st.PeakByKind)
			require.Equal(t, want.Hash, st.Hash)
			require.Equal(t, want.After, st.Live)
			requireM1(t, before, events)
			before = st
		}
		require.Len(t, plan.Reads, 2*micro)
	}
}

// requireM1 adds the events up: live bytes are the sum over live buffers, at every event, and so are the kinds.
func requireM1(t *testing.T, before memory.Stats, events []memory.Event) {
	t.Helper()
	live := before.Live
	kinds := before.LiveByKind
	kind := map[uint64]memory.Kind{}
	peak := live
	for _, e := range events {
		switch e.Act {
		case memory.Alloc:
			live += e.Bytes
			kinds[e.Kind] += e.Bytes
			kind[e.ID] = e.Kind
		case memory.Free:
			live -= e.Bytes
			kinds[e.Kind] -= e.Bytes
		case memory.SetKind:
			was, ok := kind[e.ID]
			require.True(t, ok, "a buffer from before the step changed its kind: %+v", e)
			kinds[was] -= e.Bytes
			kinds[e.Kind] += e.Bytes
			kind[e.ID] = e.Kind
		}
		require.Equal(t, live, e.Live)
		peak = max(peak, live)
		var sum int64
		for _, n := range kinds {
			require.GreaterOrEqual(t, n, int64(0))
			sum += n
		}
		require.Equal(t, live, sum)
	}
	require.Zero(t, kinds[memory.Temporary]+kinds[memory.Activation]+kinds[memory.Scratch], "of a step, after it")
}

// TestFiguresDependOnLanesOnly is law M7, and N2 for the values.
func TestFiguresDependOnLanesOnly(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	figures := map[string]string{} // by lanes and technique
	var values uint64
	for _, c := range []config{{lanes: 1}, {lanes: 8}, {lanes: 8, recompute: true}} {
		lanes, key := c.lanes, fmt.Sprint(c.lanes, c.recompute)
		for _, procs := range []int{1, 2, 7} {
			for _, work := range []int{1, 2, 7} {
				runtime.GOMAXPROCS(procs)
				r := newRig(t, config{lanes: lanes, work: work, recompute: c.recompute})
				r.dev.ResetPeak()
				for range 3 {
					r.ok(B)
				}
				st := r.dev.Stats()
				got := fmt.Sprint(st.Peak, st.ArenaPeak, st.PeakByKind, st.Hash, st.Allocs)
				if figures[key] == "" {
					figures[key] = got
				}
				require.Equal(t, figures[key], got, "lanes %d procs %d workers %d", lanes, procs, work)
				if values == 0 {
					values = r.hash()
				}
				require.Equal(t, values, r.hash(), "lanes %d procs %d workers %d", lanes, procs, work)
				r.close()
			}
		}
	}
}

// TestStepsLeaveNothing is law M4: after many steps there are the bytes, goroutines and descriptors of step 10.
func TestStepsLeaveNothing(t *testing.T) {
	r := newRig(t, config{work: 2})
	defer r.close()
	measure := func() (int64, int, int, int) {
		st := r.dev.Stats()
		return st.Live, st.Buffers, runtime.NumGoroutine(), descriptors()
	}
	run := func(n int) {
		for range n {
			r.ok(1)
		}
	}
	run(10)
	live, buffers, goroutines, files := measure()
	run(fewer(manySteps) - 10)
	live2, buffers2, goroutines2, files2 := measure()
	require.Equal(t, live, live2)
	require.Equal(t, buffers, buffers2)
	require.Equal(t, goroutines, goroutines2)
	require.Equal(t, files, files2)
	require.Equal(t, r.owned(), live2)
}

// descriptors counts the open files where the system tells.
func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

// TestTraining shows that all this learns: the loss falls to nearly nothing on three fixed batches.
func TestTraining(t *testing.T) {
	r := newRig(t, config{})
	defer r.close()
	r.ok(B)
	first := r.loss
	for range 300 {
		require.NoError(t, r.sess.Step(context.Background(), r.step(B)))
	}
	require.Greater(t, first, 2.0)
	require.Less(t, r.loss, first/3)
}
