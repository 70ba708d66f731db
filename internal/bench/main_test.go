package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stub writes a program that prints text, and fails if it is told to.
func stub(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
	return path
}

// TestBoth: runs alternate, figures are medians, and the speed is that of neighbouring runs.
func TestBoth(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	stub(t, dir, "ours", `echo ours "$@" >> `+log+`
echo '{"step_ms": 10, "fwd_ms": 3, "bwd_ms": 6, "opt_ms": 1, "rss_bytes": 1048576, "gflops": 5}'`)
	python := stub(t, dir, "python", `echo theirs >> `+log+`
echo '{"step_ms": '$(wc -l < `+log+`)', "fwd_ms": 4, "bwd_ms": 9, "opt_ms": 2, "rss_bytes": 4194304, "torch": "9.9"}'`)
	var progress bytes.Buffer
	r := &runner{options: options{runs: 3, python: python}, progress: &progress, root: dir, folder: dir}
	row, err := r.both(context.Background(), comparison{model: "mlp", batch: 8, threads: 2, steps: 7})
	require.NoError(t, err)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("ours -json --model mlp --batch 8 --threads 2 --steps 7\ntheirs\n", 3), string(text))
	require.Equal(t, "9.9", r.torch)

	mid, low, high := row.speed() // theirs were 2, 4 and 6 ms
	require.Equal(t, []float64{0.4, 0.2, 0.6}, []float64{mid, low, high})
	require.Equal(t, "| mlp, 8, 2 | 10.0 (3.0, 6.0, 1.0) | 4.0 (4.0, 9.0, 2.0) | **0.40** (0.20 to 0.60) | 5.0 | 1 / 4 | 0.25 |\n", row.line())
	require.Contains(t, progress.String(), "mlp-2 3/3: ours 10.0 ms, theirs 6.0 ms")
}

// TestRunFails: what a side says when it fails is in the error.
func TestRunFails(t *testing.T) {
	dir, r := t.TempDir(), &runner{}
	_, err := r.run(context.Background(), []string{stub(t, dir, "a", "echo no torch here >&2; exit 3")})
	require.ErrorContains(t, err, "exit status 3\nno torch here")
	_, err = r.run(context.Background(), []string{stub(t, dir, "b", "echo hello")})
	require.ErrorContains(t, err, "want figures in JSON")
}

func TestInsert(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	require.NoError(t, os.WriteFile(path, []byte("x\n"+speedMark+"\nold\n"+lastMark+"\ny\n"+scalingMark+"\n"+lastMark+"\n"), 0o644))
	require.NoError(t, insert(path, speedMark, "new\n"))
	require.NoError(t, insert(path, scalingMark, "curve\n"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "x\n"+speedMark+"\nnew\n"+lastMark+"\ny\n"+scalingMark+"\ncurve\n"+lastMark+"\n", string(text))
	require.ErrorContains(t, insert(path, "<!-- other -->", ""), "want the lines")
}

// TestMarks: the tables have their places in the document.
func TestMarks(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance.md")
	require.NoError(t, err)
	for _, mark := range []string{speedMark, scalingMark} {
		require.Contains(t, string(text), mark+"\n")
	}
}

func TestScalingCommands(t *testing.T) {
	require.Equal(t, []string{"p", "-json", "-batch", "1", "-layers", "12", "-tokens", "256", "-steps", "3"}, sweeps[1].argv("p", 12))
	require.Equal(t, 2048, sweeps[0].tokens(8))
	require.Equal(t, 512, sweeps[2].tokens(512))
	require.Equal(t, 256, sweeps[1].tokens(12))
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-runs", "0"}, {"more"}, {"-only", "("}} {
		_, err := parse(args, &bytes.Buffer{})
		require.ErrorContains(t, err, "bench: ", args)
	}
	names := map[string]bool{}
	for _, c := range comparisons {
		require.False(t, names[c.name()], c.name())
		names[c.name()] = true
	}
}
