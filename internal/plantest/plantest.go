// Package plantest holds what the tests of several packages ask of a step: law M3, that the dry run is the real run.
package plantest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
)

// Compare runs f dry for two steps, which must leave the device and the random stream as they were, then for real, and asks
// for equal events, figures and hashes. It returns the plan. The trace of the session's device is put back.
func Compare(t testing.TB, ss *autograd.Session, f func(*autograd.Scope) error) *autograd.Plan {
	t.Helper()
	d := ss.Device()
	before, rand := d.Stats(), ss.Rand()
	plan, err := ss.Plan(f, autograd.PlanConfig{Steps: 2, Events: true})
	require.NoError(t, err)
	require.Equal(t, before, d.Stats(), "a dry run leaves the device as it was")
	require.Equal(t, rand, ss.Rand(), "a dry run leaves the random stream as it was")
	for i := range plan.Steps {
		p := &plan.Steps[i]
		var events []memory.Event
		old := d.SetTrace(func(e memory.Event) { events = append(events, e) })
		d.ResetPeak()
		require.NoError(t, ss.Step(context.Background(), f))
		d.SetTrace(old)
		st := d.Stats()
		require.Equal(t, p.Events, events, "step %d", i)
		require.Equal(t, p.Peak, st.Peak)
		require.Equal(t, p.Arena, st.ArenaPeak)
		require.Equal(t, p.ByKind, st.PeakByKind)
		require.Equal(t, p.After, st.Live)
		require.Equal(t, p.Hash, st.Hash)
	}
	return plan
}
