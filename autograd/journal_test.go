package autograd_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// R8: what a failed step had written to a journaled tensor is put back, through whichever view, and the copies go.
func TestJournalTensor(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{})
	require.NoError(t, err)
	ss, err := autograd.New(autograd.Config{Device: dev})
	require.NoError(t, err)
	x, err := tensor.From(dev, memory.Other, memory.Site{}, []float64{1, 2, 3}, 3)
	require.NoError(t, err)
	defer func() {
		x.Release()
		require.NoError(t, ss.Close())
		require.NoError(t, dev.Close())
	}()
	tail, err := x.Slice(0, 1, 3)
	require.NoError(t, err)
	late := errors.New("late")
	write := func(end func() error) func(*autograd.Scope) error {
		return func(s *autograd.Scope) error {
			allocs := dev.Stats().Allocs
			s.JournalTensor(&tail)
			if !s.Dry() {
				require.NoError(t, tensor.Fill(&tail, 7))
			}
			s.JournalTensor(x) // the same storage
			require.Equal(t, allocs+1, dev.Stats().Allocs)
			return end()
		}
	}
	live := dev.Stats().Live
	fine := write(func() error { return nil })
	fails := write(func() error { return late })
	panics := write(func() error { panic("foreign") })
	same := func() {
		t.Helper()
		require.Equal(t, []float64{1, 2, 3}, tensor.Data[float64](x))
		require.Equal(t, live, dev.Stats().Live)
	}

	version := x.Version()
	require.ErrorIs(t, ss.Step(context.Background(), fails), late)
	same()
	require.Greater(t, x.Version(), version+1, "a reader of what was written is refused")
	require.Panics(t, func() { _ = ss.Step(context.Background(), panics) })
	same()
	dev.FailAt(1)
	var oom *memory.OOMError
	require.ErrorAs(t, ss.Step(context.Background(), fine), &oom)
	same()
	plan, err := ss.Plan(fine, autograd.PlanConfig{})
	require.NoError(t, err)
	require.Equal(t, live+x.Bytes(), plan.Peak(), "the copy is counted")
	same()
	_, err = ss.Plan(fails, autograd.PlanConfig{})
	require.ErrorIs(t, err, late)
	same()
	require.NoError(t, ss.Step(context.Background(), fine))
	require.Equal(t, []float64{1, 7, 7}, tensor.Data[float64](x))
	require.Equal(t, live, dev.Stats().Live)
}
