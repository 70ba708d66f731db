package report_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/memory/report"
)

// A recording's peak, arena and split are the device's; the kinds add up after every event.
func TestRecordingIsTheDevices(t *testing.T) {
	for _, c := range []trainingConfig{{layers: 2}, {layers: 2, micro: 3}, {layers: 2, recompute: true}} {
		r := newTraining(t, c)
		rec := r.record(report.RecordConfig{})
		st := r.dev.Stats()
		peak, at := rec.Peak()
		require.Equal(t, st.Peak, peak)
		require.Equal(t, st.ArenaPeak, rec.ArenaPeak())
		require.Equal(t, st.PeakByKind, byKind(atPeak(t, rec)))
		require.Positive(t, at)

		tensors, err := rec.Tensors()
		require.NoError(t, err)
		for i := range rec.Events {
			var sum, end int64
			for k := range tensors {
				if ten := &tensors[k]; ten.Alive(i) {
					sum += ten.Bytes
					end = max(end, (ten.Addr+ten.Bytes+63)&^63)
				}
			}
			require.Equal(t, rec.Events[i].Live, sum, "event %d", i)
			require.Equal(t, rec.Events[i].Arena, end, "event %d", i)
		}
		last, err := rec.LiveAt(len(rec.Events) - 1)
		require.NoError(t, err)
		require.Equal(t, addrs(r.dev.Holders()), addrs(last))
	}
}

// The engine labels events: phases in order, ops by number, why a tensor is held, parameters by their full names.
func TestLabels(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 1, micro: 2, recompute: true})
	r.run()
	rec := r.record(report.RecordConfig{})

	var phases []string
	var op uint64
	for i := range rec.Events {
		e := &rec.Events[i]
		if n := len(phases); e.Act != memory.Mark && e.Phase != "" && (n == 0 || phases[n-1] != e.Phase) {
			phases = append(phases, e.Phase)
		}
		require.GreaterOrEqual(t, e.Op, op)
		if e.Act == memory.Alloc {
			require.Equal(t, e.Site.Op, e.By.Op, "who asks is who runs, in the middle of a recomputation too")
		}
		op = e.Op
	}
	require.Equal(t, []string{"forward", "backward", "recompute", "backward", "forward", "backward", "recompute", "backward", "step"}, phases)
	require.Empty(t, rec.Events[len(rec.Events)-1].Phase)

	why := map[string]bool{}
	tensors, err := rec.Tensors()
	require.NoError(t, err)
	for i := range tensors {
		for _, w := range tensors[i].Why {
			why[w.Text] = true
		}
	}
	require.True(t, why["gradient of blocks.0.fc.weight"])
	require.True(t, why["held for backward by checkpoint in loss/gpt/blocks.0"], "%v", why)
	require.True(t, why["saved by gelu_tanh in loss/gpt/blocks.0/recompute/mlp/2: input 0, for the gradient of input 0"], "%v", why)
	require.True(t, slices.ContainsFunc(rec.Held, func(h memory.Holder) bool {
		return h.Kind == memory.Param && h.Site.Scope == "blocks.0.qkv.weight"
	}))
}

// A bounded recording keeps the latest events, and what the older ones left.
func TestRecordBounded(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 2})
	whole := r.record(report.RecordConfig{})
	for _, most := range []int{1, 7, 100, 1500} {
		rec, err := report.Record(r.dev, report.RecordConfig{Max: most})
		require.NoError(t, err)
		for range 12 {
			r.run()
		}
		part := rec.Stop()
		require.LessOrEqual(t, len(part.Events), most+255, "whole chunks of 256 events")
		require.EqualValues(t, 12*len(whole.Events), part.Dropped+uint64(len(part.Events)))
		require.Positive(t, part.Dropped)
		_, err = part.Tensors()
		require.NoError(t, err)
		last, err := part.LiveAt(len(part.Events) - 1)
		require.NoError(t, err)
		require.Equal(t, addrs(r.dev.Holders()), addrs(last))
	}
	_, err := report.Record(r.dev, report.RecordConfig{Max: -1})
	require.ErrorContains(t, err, "want 0 (131072) or more")
}

// Recorders may be nested; a dry run in between is left out; after Stop the device makes no events.
func TestRecordNested(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 1})
	outer, err := report.Record(r.dev, report.RecordConfig{})
	require.NoError(t, err)
	inner, err := report.Record(r.dev, report.RecordConfig{})
	require.NoError(t, err)
	r.run()
	_, err = r.sess.Plan(r.step, autograd.PlanConfig{})
	require.NoError(t, err)
	r.dev.Fork()
	_, err = r.dev.Alloc(64, memory.Other, memory.Site{})
	require.NoError(t, err)
	r.dev.Join()
	first := inner.Stop()
	require.True(t, r.dev.Tracing())
	r.run()
	both := outer.Stop()
	require.False(t, r.dev.Tracing())
	require.Equal(t, first.Events, both.Events[:len(first.Events)])
	require.Greater(t, len(both.Events), len(first.Events))
	_, err = both.Tensors()
	require.NoError(t, err)
	require.Equal(t, both.Events, outer.Stop().Events)
}

// A dry run is a recording too, and the same one.
func TestDryRunAsRecording(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 2, micro: 2})
	plan, err := r.sess.Plan(r.step, autograd.PlanConfig{Steps: 1, Events: true})
	require.NoError(t, err)
	dry := &report.Recording{Device: r.dev.Name(), Held: r.dev.Holders(), Events: plan.Steps[0].Events}
	real := r.record(report.RecordConfig{})
	require.Equal(t, real.Events, dry.Events)
	peak, at := dry.Peak()
	realPeak, realAt := real.Peak()
	require.Equal(t, realPeak, peak)
	require.Equal(t, realAt, at)
	want, err := real.Tensors()
	require.NoError(t, err)
	got, err := dry.Tensors()
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
}

// Events that do not fit together are refused, by every writer.
func TestIncoherentRecording(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 1})
	rec := r.record(report.RecordConfig{})
	for name, spoil := range map[string]func(*report.Recording){
		"held":  func(r *report.Recording) { r.Held = r.Held[1:] },
		"alloc": func(r *report.Recording) { r.Events = append(r.Events[:5:5], r.Events[7:]...) },
	} {
		bad := *rec
		bad.Events = slices.Clone(rec.Events)
		spoil(&bad)
		_, err := bad.Tensors()
		require.ErrorContains(t, err, "want Recording.Held", name)
		_, err = bad.AtPeak()
		require.Error(t, err)
	}
	_, err := rec.LiveAt(len(rec.Events))
	require.ErrorContains(t, err, "want -1 (before the first) to")
}

func atPeak(t testing.TB, rec *report.Recording) []memory.Holder {
	t.Helper()
	list, err := rec.AtPeak()
	require.NoError(t, err)
	return list
}

func byKind(list []memory.Holder) (by [memory.NumKinds]int64) {
	for _, h := range list {
		by[h.Kind] += h.Bytes
	}
	return by
}

func addrs(list []memory.Holder) (a []int64) {
	for _, h := range list {
		a = append(a, h.Addr)
	}
	return a
}
