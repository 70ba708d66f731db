package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/tensor"
)

var update = flag.Bool("update", false, "write testdata/rungs.json anew")

func TestMain(m *testing.M) {
	row.ServeChild(run)
	os.Exit(m.Run())
}

// climbed runs the program with -json and gives what it prints and its rows.
func climbed(t *testing.T, args ...string) (text string, rows []figures) {
	t.Helper()
	var out, errw bytes.Buffer
	require.NoError(t, vitl16(context.Background(), append(args, "-json"), &out, &errw), "%s", errw.String())
	_, err := row.ReadJSON(bytes.NewReader(out.Bytes())) // one array, and nothing else
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	return out.String(), rows
}

// skipIfShort leaves out what takes long under the race detector, which sees the same in other tests.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("the whole model, or all rungs")
	}
}

// TestPublished: every rung of the article takes no more than it did there, the goals are met, and no figure has moved: a
// change that moves one runs go generate ./internal/doctest and shows the difference.
func TestPublished(t *testing.T) {
	skipIfShort(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	chart := filepath.Join(t.TempDir(), "chart.png")
	text, rows := climbed(t, "-real", "none", "-chart", chart)
	runtime.ReadMemStats(&after)
	require.Less(t, after.Sys, before.Sys+200_000_000, "a dry run has no bytes")

	const golden = "testdata/rungs.json"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	requirePicture(t, chart)
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, strings.Split(string(want), "\n"), strings.Split(text, "\n"))

	require.Equal(t, "baseline", rows[0].Name)
	inMemory, anywhere := *rows[0].Arena, *rows[0].Arena
	for i, f := range rows {
		require.Equal(t, int64(303_311_882), f.Parameters)
		require.Nil(t, f.MeasuredPeak)
		requireInDocs(t, f)
		if f.Published != nil {
			require.LessOrEqual(t, *f.Arena, *f.Published, f.Name)
		}
		if !all()[i].away.any() && f.Batch == rows[0].Batch {
			inMemory = min(inMemory, *f.Arena)
		}
		anywhere = min(anywhere, *f.Arena)
	}
	require.LessOrEqual(t, inMemory, int64(1.342e9), "in memory, a twentieth of the published baseline")
	require.LessOrEqual(t, anywhere, int64(0.27e9), "with a store, a hundredth")
}

// requirePicture fails when the documentation's picture is not this one, which it becomes with -update. Rounding of points
// may differ between processors.
func requirePicture(t *testing.T, chart string) {
	t.Helper()
	const picture = "../../docs/techniques/vitl16.png"
	now, err := os.ReadFile(chart)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(picture, now, 0o644))
	}
	was, err := os.ReadFile(picture)
	require.NoError(t, err)
	if runtime.GOARCH == "amd64" {
		require.True(t, bytes.Equal(was, now), "%s is stale: run go generate ./internal/doctest", picture)
	}
}

// requireInDocs fails when the documentation's table has other byte figures than the program.
func requireInDocs(t *testing.T, f figures) {
	t.Helper()
	text, err := os.ReadFile("../../docs/techniques.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(f.Name) + `(?: \[1\])?  .*$`).FindString(string(text))
	for _, want := range []string{row.Bytes(*f.PredictedPeak), row.Bytes(*f.Arena)} {
		require.Contains(t, line, want, "docs/techniques.md is stale: run go run ./internal/doctest -update docs/techniques.md")
	}
}

// TestReal: a real step of two micro-batches takes what the dry run of the whole update predicts, to the byte, and rungs that
// only move or recompute have one loss.
func TestReal(t *testing.T) {
	skipIfShort(t)
	chart := filepath.Join(t.TempDir(), "chart.png")
	small := []string{"-image", "32", "-dim", "64", "-layers", "3", "-real", "all", "-dir", t.TempDir(), "-chart", chart}
	o, err := parse(small, &bytes.Buffer{})
	require.NoError(t, err)
	_, rows := climbed(t, small...)
	require.FileExists(t, chart)
	require.Len(t, rows, len(all()))
	type training struct {
		batch, micro int
		dtype        tensor.DType
		cast         autograd.CastPolicy
	}
	loss := map[training]row.Number{}
	for i, f := range rows {
		r := all()[i]
		require.Equal(t, r.name, f.Name)
		require.Nil(t, f.Published, "another model")
		require.Equal(t, *f.PredictedPeak, *f.MeasuredPeak, f.Name)
		require.Equal(t, min(2, r.windows()), f.Micros)
		dry, err := predict(o.settings, r)
		require.NoError(t, err)
		require.Equal(t, *dry.Arena, *f.Arena, f.Name)
		k := training{r.batch, r.micro, r.dtype, r.cast}
		if _, seen := loss[k]; !seen {
			loss[k] = f.Loss
		}
		require.Equal(t, loss[k], f.Loss, f.Name)
	}
}

// TestFits: a rung that is too large for the memory at hand, or too long, takes no real step.
func TestFits(t *testing.T) {
	skipIfShort(t)
	_, rows := climbed(t, "-image", "32", "-dim", "64", "-layers", "3", "-memory", "0.012", "-chart", "", "-dir", t.TempDir())
	real := 0
	for _, f := range rows {
		require.Equal(t, f.Micros > 0, f.MeasuredPeak != nil)
		if f.Micros > 0 {
			real++
			require.LessOrEqual(t, *f.Arena, int64(9e6), f.Name)
		}
	}
	require.Positive(t, real)
	require.Less(t, real, len(rows))
	_, rows = climbed(t, "-image", "32", "-dim", "64", "-layers", "3", "-for", "-1s", "-chart", "")
	for _, f := range rows {
		require.Nil(t, f.MeasuredPeak)
	}
}

func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, vitl16(context.Background(), []string{"-rung", "baseline", "-real", "none", "-chart", ""}, &out, &errw))
	for _, text := range []string{"303311882 parameters", "the article's rungs", "published", "26.84", "88%"} {
		require.Contains(t, out.String(), text)
	}
	out.Reset()
	require.NoError(t, vitl16(context.Background(), []string{"-image", "32", "-dim", "64", "-layers", "2", "-real", "none", "-chart", ""}, &out, &errw))
	require.Contains(t, out.String(), "fp32-on-disk: ")
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len(line), 180)
	}
	out.Reset()
	require.NoError(t, vitl16(context.Background(), []string{"-image", "32", "-dim", "64", "-layers", "2", "-rung", "per-block", "-real", "none", "-chart", ""}, &out, &errw))
	require.NotContains(t, out.String(), "baseline  ")
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"-rung", "nothing"}, []string{`rung "nothing"`, "want one of baseline, mixed-fp16"}},
		{[]string{"-real", "some"}, []string{`real "some"`, "want one of fit, none, all"}},
		{[]string{"-image", "100"}, []string{"image 100", "multiple of 16"}},
		{[]string{"-dim", "100"}, []string{"dim 100", "multiple of 64"}},
		{[]string{"-layers", "0"}, []string{"-layers 0", "want 1 or more"}},
		{[]string{"quick"}, []string{`argument "quick"`, "-help"}},
		{[]string{"-image", "32", "-dim", "64", "-layers", "1", "-real", "all", "-rung", "fp32-on-disk", "-dir", "/nowhere/at/all"}, []string{"/nowhere/at/all", "want an existing folder"}},
	} {
		var out, errw bytes.Buffer
		err := vitl16(context.Background(), append(c.args, "-chart", ""), &out, &errw)
		for _, text := range c.texts {
			require.ErrorContains(t, err, text, "%v", c.args)
		}
	}
}
