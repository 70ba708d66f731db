package row

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// A step that is predicted takes what the real one takes, and what came before it is in neither peak.
func TestPredictStep(t *testing.T) {
	var err error
	var end Cleanup
	dev, sess, openErr := Open(memory.Config{}, autograd.Config{Seed: 1}, &end)
	require.NoError(t, openErr)
	x, inputErr := Input(dev, tensor.Of(tensor.Float32, 100), &end)
	require.NoError(t, inputErr)
	before, allocErr := dev.Alloc(1<<20, memory.Other, memory.Site{})
	require.NoError(t, allocErr)
	before.Release()

	step := func(s *autograd.Scope) error { ops.Exp(s, s.Input(x)); return nil }
	var r Row
	require.NoError(t, r.PredictStep(sess, step))
	require.NoError(t, sess.Step(t.Context(), step))
	r.Measure(dev.Stats())
	require.Less(t, *r.MeasuredPeak, int64(1<<20))
	require.Equal(t, *r.PredictedPeak, *r.MeasuredPeak)

	end.Run(&err)
	require.NoError(t, err)
	require.ErrorContains(t, sess.Step(t.Context(), step), "closed")
}

// Cleanup goes from the last to the first, once, and keeps all errors.
func TestCleanup(t *testing.T) {
	var order string
	var end Cleanup
	first, second, before := errors.New("first"), errors.New("second"), errors.New("before")
	end.Add(func() error { order += "1"; return first })
	end.Add(func() error { order += "2"; return second })
	err := before
	end.Run(&err)
	require.Equal(t, "21", order)
	for _, e := range []error{first, second, before} {
		require.ErrorIs(t, err, e)
	}
	err = nil
	end.Run(&err)
	require.NoError(t, err)
}

func TestTimes(t *testing.T) {
	var times Times
	require.Equal(t, Number{}, times.Median())
	require.Equal(t, Number{}, times.Min())
	times = Times{3 * time.Millisecond, time.Millisecond, 5500 * time.Microsecond}
	require.Equal(t, Num(3), times.Median())
	require.Equal(t, Num(1), times.Min())
	times.Since(time.Now().Add(-time.Hour))
	require.Len(t, times, 4)
	require.GreaterOrEqual(t, times[3], time.Hour)
}

func TestFind(t *testing.T) {
	list := []time.Month{time.May, time.June}
	got, err := Find("demo: month", "June", list)
	require.NoError(t, err)
	require.Equal(t, time.June, got)
	_, err = Find("demo: month", "July", list)
	require.EqualError(t, err, `demo: month "July": want one of May, June`)
}

func TestDraw(t *testing.T) {
	var b bytes.Buffer
	path := filepath.Join(t.TempDir(), "x.png")
	draw := func(path string) error { return Chart(path, "", rows()) }
	require.NoError(t, Draw(&b, "chart", "", draw))
	require.Empty(t, b.String())
	require.NoError(t, Draw(&b, "chart", path, draw))
	require.Equal(t, "chart: "+path+"\n", b.String())
	require.FileExists(t, path)
	require.Error(t, Draw(&b, "chart", filepath.Join(path, "below"), draw))
}
