package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
)

func TestMain(m *testing.M) {
	row.ServeChild(run)
	os.Exit(m.Run())
}

// TestSameCurve: however the batch is cut, the losses are the same to rounding, in the memory that was predicted, which
// falls with the size of the micro-batches.
func TestSameCurve(t *testing.T) {
	var out, errw bytes.Buffer
	chart := filepath.Join(t.TempDir(), "chart.png")
	require.NoError(t, accumulate(context.Background(), []string{"-json", "-steps", "6", "-context", "16", "-dim", "32", "-chart", chart}, &out, &errw), "%s", errw.String())
	require.FileExists(t, chart)
	_, err := row.ReadJSON(bytes.NewReader(out.Bytes()))
	require.NoError(t, err)
	var rows []figures
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, len(ways))
	for i, f := range rows {
		require.Equal(t, ways[i].name, f.Name)
		require.Equal(t, *f.PredictedPeak, *f.MeasuredPeak, f.Name)
		require.Len(t, f.Losses, 6)
		require.InDeltaSlice(t, rows[0].Losses, f.Losses, 1e-3, f.Name)
	}
	require.Less(t, rows[0].Losses[5], rows[0].Losses[0]-0.05, "it learns")
	require.Less(t, rows[1].Peak(), rows[0].Peak())
	require.Less(t, rows[2].Peak(), rows[1].Peak())
	require.Less(t, rows[3].Peak(), rows[0].Peak())
	require.Greater(t, rows[3].Peak(), rows[1].Peak(), "the largest part decides")
}

func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, accumulate(context.Background(), []string{"-steps", "1", "-context", "8", "-dim", "8", "-chart", ""}, &out, &errw))
	require.Contains(t, out.String(), "64 sequences of 8 bytes an update")
	require.Contains(t, out.String(), "furthest")
	require.Contains(t, out.String(), "30+21+13")
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"-steps", "0"}, "-steps 0: want 1 or more"},
		{[]string{"-dim", "3"}, "-dim 3: want a multiple of 2"},
		{[]string{"fast"}, `argument "fast"`},
		{[]string{"-steps", "100000"}, "the text has only"},
		{[]string{"-data", filepath.Join(t.TempDir(), "missing")}, "missing"},
	} {
		var out, errw bytes.Buffer
		require.ErrorContains(t, accumulate(context.Background(), append([]string{"-chart", ""}, c.args...), &out, &errw), c.text)
	}
}
