package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func TestMain(m *testing.M) {
	row.ServeChild(run)
	os.Exit(m.Run())
}

// small is a model of half a million parameters with blocks to match.
var small = []string{"-batch", "4", "-context", "64", "-layers", "4", "-dim", "64", "-steps", "2", "-block", "64"}

// TestRows: plain training runs out of memory, every tier fits, each peak is as predicted, all have the same loss, and the
// resident set follows.
func TestRows(t *testing.T) {
	var out, errw bytes.Buffer
	dir := t.TempDir()
	chart, timeline := filepath.Join(dir, "chart.png"), filepath.Join(dir, "timeline.png")
	files := filepath.Join(dir, "files")
	require.NoError(t, os.Mkdir(files, 0o700))
	require.NoError(t, tiers(context.Background(), append(small, "-json", "-chart", chart, "-timeline", timeline, "-dir", files), &out, &errw), "%s", errw.String())
	require.Contains(t, errw.String(), "memory: cpu: out of memory: ")
	require.FileExists(t, chart)
	require.FileExists(t, timeline)
	left, err := os.ReadDir(files)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = row.ReadJSON(bytes.NewReader(out.Bytes())) // one array, and nothing else
	require.NoError(t, err)
	var rows []figures
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, len(tierRows))
	base := rows[0]
	for i, f := range rows {
		require.Equal(t, tierRows[i].name, f.Name)
		require.Equal(t, *f.PredictedPeak, *f.MeasuredPeak, f.Name)
		require.Equal(t, base.Loss, f.Loss, f.Name)
		require.Equal(t, f.Name == "activations-host", f.Host > 0, f.Name)
		require.Equal(t, strings.HasSuffix(f.Name, "disk"), f.Disk > 0, f.Name)
		if i > 0 {
			require.Less(t, *f.Arena, *base.Arena, "%s fits, none does not", f.Name)
		}
		if f.RSS != nil && f.Host == 0 && !testing.Short() { // the race detector, which has another resident set, runs with -short
			require.InDelta(t, *f.Arena, *f.RSS, max(float64(*f.Arena)/10, 8<<20), "%s: law M5", f.Name)
		}
	}
	all := rows[len(rows)-1]
	require.LessOrEqual(t, float64(all.Peak()), 0.4*float64(base.Peak()))
	for _, k := range []memory.Kind{memory.Param, memory.OptState, memory.Activation} {
		require.Less(t, 4*all.ByKind[k], base.ByKind[k]+1, k)
	}
}

func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	args := append(small, "-row", "optimizer-disk", "-limit", "64", "-chart", "", "-timeline", "")
	require.NoError(t, tiers(context.Background(), args, &out, &errw), "%s", errw.String())
	require.Contains(t, out.String(), "optimizer-disk")
	require.Contains(t, out.String(), "device limit 64.00 MiB")
	require.Contains(t, errw.String(), "plain training fits into 64.00 MiB")
	for _, line := range strings.Split(out.String(), "\n") {
		require.LessOrEqual(t, len(line), 180)
	}
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"-row", "nothing"}, []string{`row "nothing"`, "want one of none, activations-host"}},
		{[]string{"-batch", "0"}, []string{"-batch 0", "want 1 or more"}},
		{[]string{"-dim", "100"}, []string{"dim 100", "multiple of 64"}},
		{[]string{"-block", "3"}, []string{"-block 3", "multiple of 4"}},
		{[]string{"quick"}, []string{`argument "quick"`, "-help"}},
		{[]string{"-dir", "/nowhere/at/all"}, []string{"/nowhere/at/all", "want an existing folder"}},
	} {
		var out, errw bytes.Buffer
		err := tiers(context.Background(), append(small[:len(small):len(small)], c.args...), &out, &errw)
		for _, text := range c.texts {
			require.ErrorContains(t, err, text, "%v", c.args)
		}
	}
}
