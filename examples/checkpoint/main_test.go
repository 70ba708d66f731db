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

	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func TestMain(m *testing.M) {
	row.ServeChild(run)
	os.Exit(m.Run())
}

var small = []string{"-batch", "2", "-context", "16", "-dim", "8", "-steps", "2"}

// TestRows: the same loss at one depth, each peak as predicted, activations by the formulas of the library's tests.
func TestRows(t *testing.T) {
	var out, errw bytes.Buffer
	chart := filepath.Join(t.TempDir(), "chart.png")
	require.NoError(t, depths(context.Background(), append(small, "-depths", "4,8", "-json", "-chart", chart), &out, &errw), "%s", errw.String())
	require.FileExists(t, chart)
	_, err := row.ReadJSON(bytes.NewReader(out.Bytes())) // one array, and nothing else
	require.NoError(t, err)
	var rows []figures
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, 2*len(ways))
	const x, a = 2 * 16 * 8 * 4, (15*2*16*8 + 2*16*(2+4)) * 4 // what a block takes in, and what it saves beside that
	for i, f := range rows {
		d := int64(4 << (i / len(ways)))
		require.Equal(t, ways[i%len(ways)], f.Name)
		require.EqualValues(t, d, f.Depth)
		require.Equal(t, *f.PredictedPeak, *f.MeasuredPeak, f.Name)
		require.Equal(t, rows[i/len(ways)*len(ways)].Loss, f.Loss, "%s: the loss of row none", f.Name)
		log := map[int64]int64{4: 2, 8: 3}[d]
		switch f.Name {
		case "none":
			require.Equal(t, d*(a+x), f.Activations)
		case "per-block":
			require.Equal(t, max(d*x, (d-1)*x+a), f.Activations)
		case "recursive":
			require.Equal(t, log*x+a, f.Activations)
		case "optimal":
			require.Less(t, f.Activations, rows[i-4].Activations)
			require.NotEmpty(t, f.Schedule)
		}
	}
}

func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, depths(context.Background(), append(small, "-depths", "2", "-row", "sqrt"), &out, &errw))
	require.Contains(t, out.String(), "2 blocks:")
	require.Contains(t, out.String(), "activations")
	require.Contains(t, errw.String(), "[1/1] sqrt, 2 blocks")
	for _, line := range strings.Split(out.String(), "\n") {
		require.LessOrEqual(t, len(line), 160)
	}
}

// TestCosts: what is measured once gives the same schedule again, and costs of other blocks are refused.
func TestCosts(t *testing.T) {
	dir := t.TempDir()
	optimal := func(args ...string) (string, error) {
		var out, errw bytes.Buffer
		err := depths(context.Background(), append(append(small, "-depths", "6", "-row", "optimal", "-costs", dir, "-json"), args...), &out, &errw)
		var rows []figures
		if err == nil {
			require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
			return rows[0].Schedule, nil
		}
		return "", err
	}
	first, err := optimal()
	require.NoError(t, err)
	kept, err := os.ReadFile(filepath.Join(dir, "6.json"))
	require.NoError(t, err)
	second, err := optimal()
	require.NoError(t, err)
	require.Equal(t, first, second)

	var costs []checkpoint.Cost
	require.NoError(t, json.Unmarshal(kept, &costs))
	fit, err := checkpoint.Solve(costs, checkpoint.Sqrt(6).Estimate(costs).Peak)
	require.NoError(t, err)
	require.Equal(t, first, fit.Schedule.String())

	_, err = optimal("-batch", "3")
	require.ErrorContains(t, err, "costs in "+filepath.Join(dir, "6.json")+" are those of other blocks: want 6 blocks that take 1536 bytes")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "6.json"), []byte("{"), 0o600))
	_, err = optimal()
	require.ErrorContains(t, err, "unexpected end of JSON input")
}

func TestTrace(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, depths(context.Background(), append(small, "-depths", "4", "-trace"), &out, &errw))
	require.Contains(t, out.String(), "backward: the gradient of block 1's result is there\n        0 B      block 0 runs again\n        0 B      block 1 runs again")
	require.Contains(t, out.String(), "4 blocks ran 9 times; at most")
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"-depths", "8,x"}, []string{`depths "8,x"`, "want numbers"}},
		{[]string{"-depths", "0"}, []string{`depths "0"`}},
		{[]string{"-row", "nothing"}, []string{`row "nothing"`, "want one of none, per-block"}},
		{[]string{"-dim", "7"}, []string{"-dim 7", "a multiple of 2"}},
		{[]string{"-depths", "2", "-row", "optimal", "-budget", "10"}, []string{"a budget of 10 bytes for 2 blocks", "no schedule takes less than"}},
		{[]string{"-steps", "1000000", "-row", "none"}, []string{"1000000 steps of batch 2", "has only"}},
		{[]string{"quick"}, []string{`argument "quick"`, "-help"}},
	} {
		var out, errw bytes.Buffer
		err := depths(context.Background(), append(append([]string{"-chart", ""}, small...), c.args...), &out, &errw)
		require.Error(t, err, "%v", c.args)
		for _, text := range c.texts {
			require.ErrorContains(t, err, text, "%v", c.args)
		}
	}
}
