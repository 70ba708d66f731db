package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func TestMain(m *testing.M) {
	row.ServeChild(serve)
	os.Exit(m.Run())
}

// skipIfShort leaves out whole trainings: what the race detector and the like would see in them, other tests show.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a whole training")
	}
}

// climbed runs the program with -json and gives its rows.
func climbed(t *testing.T, args ...string) []row.Row {
	t.Helper()
	var out, errw bytes.Buffer
	chart := filepath.Join(t.TempDir(), "chart.png")
	require.NoError(t, ladder(context.Background(), append(args, "-json", "-chart", chart), &out, &errw), "%s", errw.String())
	rows, err := row.ReadJSON(&out) // one array, and nothing else
	require.NoError(t, err)
	require.FileExists(t, chart)
	return rows
}

// TestQuick is the README's command: what is predicted is what is measured, to the byte, the resident set follows the
// arena (law M5), and the README shows these figures.
func TestQuick(t *testing.T) {
	skipIfShort(t)
	rows := climbed(t, "-quick")
	names := tables[0].fit("vit").rungs
	require.Len(t, rows, len(names))
	for i, r := range rows {
		require.Equal(t, names[i], r.Name)
		require.Equal(t, 3, r.Steps)
		require.Equal(t, *r.PredictedPeak, *r.MeasuredPeak, r.Name)
		require.Equal(t, *r.MeasuredPeak, r.ByKind.Sum())
		_, has := r.Accuracy.Value()
		require.False(t, has)
		if i > 0 {
			require.Less(t, r.Peak(), rows[i-1].Peak(), "%s is no rung", r.Name)
		}
		requireM5(t, r)
	}
	require.Greater(t, float64(rows[0].ByKind[memory.Activation]), 0.8*float64(rows[0].Peak()), "mostly activations")
	first, _ := rows[0].Loss.Value()
	require.Equal(t, rows[0].Loss, rows[1].Loss, "in place is bit for bit the same")
	second, _ := rows[2].Loss.Value()
	require.InDelta(t, first, second, 1e-4*first, "micro-batches change rounding only")
	requireInReadme(t, rows)
}

func requireM5(t *testing.T, r row.Row) {
	t.Helper()
	if r.RSS == nil { // a system that does not tell
		return
	}
	slack := max(*r.Arena/10, 8<<20)
	require.InDelta(t, *r.Arena, *r.RSS, float64(slack), "%s: resident set against arena", r.Name)
}

// requireInReadme fails when the README's table has other byte figures than the program.
func requireInReadme(t *testing.T, rows []row.Row) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, r := range rows {
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(r.Name) + `\b.*$`).FindString(string(text))
		require.NotEmpty(t, line, "README.md has no line for %s", r.Name)
		want := []string{row.Bytes(*r.PredictedPeak), row.Bytes(*r.MeasuredPeak), row.Bytes(*r.Arena)}
		for _, w := range want {
			require.Contains(t, line, w, "README.md is stale: run go run ./examples/ladder -quick")
		}
	}
}

func TestAlone(t *testing.T) {
	skipIfShort(t)
	rows := climbed(t, "-model", "mlp", "-table", "alone", "-steps", "2", "-batch", "1024", "-hidden", "64")
	names := tables[1].fit("mlp").rungs
	require.Len(t, rows, len(names))
	for i, r := range rows {
		require.Equal(t, names[i], r.Name)
		require.Equal(t, *r.PredictedPeak, *r.MeasuredPeak, r.Name)
		if i > 0 {
			require.Less(t, r.Peak(), rows[0].Peak(), r.Name)
		}
	}
	base, _ := rows[0].Loss.Value()
	release, _ := rows[len(rows)-1].Loss.Value()
	require.Equal(t, base, release, "the same updates, earlier")
	require.Equal(t, rows[0].Loss, rows[1].Loss, "in place")
}

// What is on disk changes no loss, and is not on the device.
func TestOffload(t *testing.T) {
	skipIfShort(t)
	rows := climbed(t, "-model", "gpt", "-table", "offload", "-steps", "2", "-batch", "8")
	require.Len(t, rows, 5)
	for i, r := range rows {
		require.Equal(t, *r.PredictedPeak, *r.MeasuredPeak, r.Name)
		require.Equal(t, rows[0].Loss, r.Loss, r.Name)
		requireM5(t, r)
		if i > 0 {
			require.Positive(t, r.ByKind[memory.Staging], r.Name)
		}
	}
	require.Less(t, 4*rows[1].ByKind[memory.Activation], rows[0].ByKind[memory.Activation])
	require.Less(t, 4*rows[2].ByKind[memory.OptState], rows[0].ByKind[memory.OptState])
	require.Less(t, 4*rows[3].ByKind[memory.Param], rows[0].ByKind[memory.Param])
	require.Less(t, rows[4].Peak(), min(rows[1].Peak(), rows[2].Peak(), rows[3].Peak()), "all")
}

// What is computed again changes no loss, and takes less the more of it there is.
func TestRecompute(t *testing.T) {
	skipIfShort(t)
	rows := climbed(t, "-model", "gpt", "-table", "recompute", "-steps", "2", "-batch", "8")
	require.Len(t, rows, 4)
	for i, r := range rows {
		require.Equal(t, *r.PredictedPeak, *r.MeasuredPeak, r.Name)
		require.Equal(t, rows[0].Loss, r.Loss, r.Name)
		if i > 0 {
			require.Less(t, r.Peak(), rows[0].Peak(), r.Name)
		}
	}
	require.Less(t, rows[2].Peak(), rows[1].Peak(), "per block against dear only")
}

func TestTrainsAndTells(t *testing.T) {
	skipIfShort(t)
	rows := climbed(t, "-model", "mlp", "-rung", "micro-batches", "-batch", "6000", "-hidden", "16", "-epochs", "1")
	require.Len(t, rows, 1)
	accuracy, ok := rows[0].Accuracy.Value()
	require.True(t, ok)
	require.Greater(t, accuracy, 0.3, "10 updates of a narrow network")
	require.Equal(t, 10, rows[0].Steps)
}

func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	err := ladder(context.Background(), []string{"-model", "gpt", "-rung", "baseline", "-batch", "4", "-hidden", "16", "-steps", "2", "-chart", ""}, &out, &errw)
	require.NoError(t, err)
	require.Contains(t, out.String(), "predicted")
	require.Contains(t, out.String(), "baseline")
	require.Contains(t, errw.String(), "[1/1] baseline")
	for _, line := range strings.Split(out.String(), "\n") {
		require.LessOrEqual(t, len(line), 160)
	}
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"-table", "nothing"}, []string{`table "nothing"`, "want one of stack, alone, recompute, offload"}},
		{[]string{"-rung", "nothing"}, []string{`rung "nothing"`, "want one of baseline, in-place, fused-head"}},
		{[]string{"-model", "mlp", "-rung", "per-block", "-batch", "16"}, []string{"rung per-block: the model has no blocks", "want vit or gpt"}},
		{[]string{"-data", filepath.Join(empty, "missing")}, []string{"missing", "train-images"}},
		{[]string{"-data", empty}, []string{empty, "train-images"}},
		{[]string{"-model", "nothing"}, []string{`model "nothing"`, "want one of vit, mlp, gpt"}},
		{[]string{"-batch", "-1"}, []string{"batch -1", "want positive"}},
		{[]string{"-batch", "20"}, []string{"batch 20", "want a multiple of 16"}},
		{[]string{"-batch", "64000"}, []string{"batch 64000", "want at most 60000"}},
		{[]string{"-steps", "-1"}, []string{"-1 steps"}},
		{[]string{"quick"}, []string{`argument "quick"`, "-help"}},
	} {
		var out, errw bytes.Buffer
		args := c.args
		if !strings.Contains(strings.Join(args, " "), "-steps") {
			args = append([]string{"-steps", "1", "-hidden", "8", "-chart", ""}, args...)
		}
		err := ladder(context.Background(), args, &out, &errw)
		require.Error(t, err, "%v", c.args)
		for _, text := range c.texts {
			require.ErrorContains(t, err, text, "%v", c.args)
		}
	}
}
