package laws

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
)

// A training that follows the placement of its plan has the same bits and live bytes in a lower arena, the one that the
// plan tells; the dry run follows too (M3). A step that differs from the plan goes on by best fit.
func TestFollowedPlan(t *testing.T) {
	free := newRig(t, config{})
	defer free.close()
	r := newRig(t, config{})
	defer r.close()
	plan, err := r.sess.Plan(r.step(B), autograd.PlanConfig{Place: true})
	require.NoError(t, err)
	require.Nil(t, plan.Steps[0].Events, "nobody asked for them")
	st := plan.Steps[0]
	require.LessOrEqual(t, float64(st.Placed), 1.02*float64(mostRounded(r, st.Placement)))
	require.Less(t, st.Placed, st.Arena)

	require.NoError(t, r.sess.Follow(plan))
	again := plantest.Compare(t, r.sess, r.step(B)) // runs two steps
	require.Equal(t, st.Placed, again.Steps[0].Arena)
	require.Equal(t, st.Peak, again.Steps[0].Peak)
	for range 2 {
		free.ok(B)
	}
	require.Equal(t, free.hash(), r.hash())

	for _, n := range []int{B - 1, B, 1, B} {
		r.dev.ResetPeak()
		free.dev.ResetPeak()
		r.ok(n)
		free.ok(n)
		require.Equal(t, free.hash(), r.hash())
		require.Equal(t, free.dev.Stats().Peak, r.dev.Stats().Peak)
		if n == B {
			require.Equal(t, st.Placed, r.dev.Stats().ArenaPeak, "every step begins with the plan anew")
		}
	}
	require.NoError(t, r.sess.Follow(nil))
	r.ok(B)
	free.ok(B)
	require.Equal(t, free.dev.Stats().Arena, r.dev.Stats().Arena)

	bare, err := r.sess.Plan(r.step(B), autograd.PlanConfig{})
	require.NoError(t, err)
	require.ErrorContains(t, r.sess.Follow(bare), "autograd: Follow of a plan without placements: want one made with PlanConfig.Place")
}

// mostRounded is the most bytes that are live at once, each buffer rounded to the 64 that it occupies: of tensors as small
// as these, rounding is a tenth.
func mostRounded(r *rig, placement []memory.Planned) (most int64) {
	round := func(n int64) int64 { return max(64, (n+63)&^63) }
	var live int64
	for _, h := range r.dev.Holders() {
		live += round(h.Bytes)
	}
	for _, e := range placement {
		if e.Act == memory.Free {
			live -= round(e.Bytes)
			continue
		}
		live += round(e.Bytes)
		most = max(most, live)
	}
	return most
}

// M2 while following: whichever allocation fails, nothing is lost, and the next step follows again.
func TestFailuresWhileFollowing(t *testing.T) {
	r := newRig(t, config{})
	defer r.close()
	plan, err := r.sess.Plan(r.step(1), autograd.PlanConfig{Place: true})
	require.NoError(t, err)
	require.NoError(t, r.sess.Follow(plan))
	r.ok(1)
	owned := r.owned()
	for k := int64(1); ; k += 37 {
		r.dev.FailAt(k)
		err := r.run(1)
		r.dev.FailAt(0)
		if err == nil {
			require.Greater(t, k, int64(100))
			break
		}
		require.Equal(t, owned, r.dev.Stats().Live)
	}
	r.dev.ResetPeak()
	r.ok(1)
	require.Equal(t, plan.Steps[1].Placed, r.dev.Stats().ArenaPeak)
}
