package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
)

// On every rung of every model the arena is at most 1.08 times the most bytes that are live at once, and at most 1.02 times
// where the steps follow a plan. Both come from the dry run.
func TestArenaOfEveryRung(t *testing.T) {
	if testing.Short() {
		t.Skip("dry runs: nothing is computed that the race detector and the like could see")
	}
	for _, model := range models {
		c := settings{Model: model, Hidden: 512, Steps: 1, Seed: 1, Threads: 1}
		p, err := open(context.Background(), c)
		require.NoError(t, err)
		c.Batch = p.batch
		for _, r := range rungsOf(model) {
			t.Run(model+"/"+r.name, func(t *testing.T) {
				j := &job{settings: c, rung: r, problem: p}
				require.NoError(t, j.start())
				j.epoch, err = j.loader.Open(context.Background(), 0)
				require.NoError(t, err)
				plan, err := j.sess.Plan(j.update, autograd.PlanConfig{Place: true})
				require.NoError(t, err)
				j.epoch.Close()
				require.NoError(t, j.close())
				for _, st := range plan.Steps {
					require.LessOrEqual(t, float64(st.Arena), 1.08*float64(st.Peak), "by best fit")
					require.LessOrEqual(t, float64(st.Placed), 1.02*float64(st.Peak), "by plan")
				}
				t.Logf("best fit %.4f, plan %.4f", float64(plan.Arena())/float64(plan.Peak()), float64(plan.Steps[1].Placed)/float64(plan.Steps[1].Peak))
			})
		}
	}
}

// rungsOf are all rungs of a model, each once.
func rungsOf(model string) (list []rung) {
	seen := map[string]bool{}
	for _, t := range tablesFor(model) {
		for _, r := range t.rungs {
			if !seen[r.name] {
				seen[r.name], list = true, append(list, r)
			}
		}
	}
	return list
}
