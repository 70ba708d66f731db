package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// figures are what both sides print of a run, as far as they are compared.
type figures struct {
	StepMS float64 `json:"step_ms"`
	FwdMS  float64 `json:"fwd_ms"`
	BwdMS  float64 `json:"bwd_ms"`
	OptMS  float64 `json:"opt_ms"`
	RSS    float64 `json:"rss_bytes"`
	GFLOPS float64 `json:"gflops"` // ours only
	Torch  string  `json:"torch"`  // theirs only
}

// result is a comparison with all its runs.
type result struct {
	comparison
	ours, theirs []figures
}

// runner runs both sides.
type runner struct {
	options
	progress io.Writer
	root     string // of the repository
	folder   string // of the program
	torch    string
}

// prepare builds our side.
func (r *runner) prepare(ctx context.Context) (err error) {
	gomod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("bench: go env GOMOD: %w", err)
	}
	r.root = filepath.Dir(strings.TrimSpace(string(gomod)))
	if r.folder, err = os.MkdirTemp("", "bench"); err != nil {
		return err
	}
	return r.build(ctx, r.root, "./examples/bench", "ours")
}

// build compiles a program into the folder. A program in a module of its own is built from there.
func (r *runner) build(ctx context.Context, dir, path, name string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(r.folder, name), path)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bench: go build %s: %w\n%s", path, err, text)
	}
	return nil
}

// peer is the command of the other side.
func (r *runner) peer(ctx context.Context, c comparison) ([]string, error) {
	bench := filepath.Join(r.root, "internal/bench")
	if c.peer == gorgonia {
		return []string{filepath.Join(r.folder, "gorgonia")}, r.build(ctx, filepath.Join(bench, "gorgonia"), ".", "gorgonia")
	}
	return []string{r.python, filepath.Join(bench, "pytorch/train.py")}, nil
}

func (r *runner) clean() { _ = os.RemoveAll(r.folder) }

// both runs the sides alternately, so that what else the machine does falls on both.
func (r *runner) both(ctx context.Context, c comparison) (row result, err error) {
	row.comparison = c
	ours := append([]string{filepath.Join(r.folder, "ours"), "-json"}, c.args()...)
	theirs, err := r.peer(ctx, c)
	if err != nil {
		return row, err
	}
	theirs = append(theirs, c.args()...)
	for i := range r.runs {
		a, err := r.run(ctx, ours)
		if err != nil {
			return row, err
		}
		b, err := r.run(ctx, theirs)
		if err != nil {
			return row, err
		}
		row.ours, row.theirs = append(row.ours, a), append(row.theirs, b)
		if b.Torch != "" {
			r.torch = b.Torch
		}
		fmt.Fprintf(r.progress, "%s %d/%d: ours %.1f ms, theirs %.1f ms\n", c.name(), i+1, r.runs, a.StepMS, b.StepMS)
	}
	return row, nil
}

// run runs one side once.
func (r *runner) run(ctx context.Context, argv []string) (f figures, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+r.blas)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, 2*time.Second
	if err := cmd.Run(); err != nil {
		return f, fmt.Errorf("bench: %s: %w\n%s", strings.Join(argv, " "), err, errs.Bytes())
	}
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		return f, fmt.Errorf("bench: %s: wrote %.200q: want figures in JSON: %w", strings.Join(argv, " "), out.Bytes(), err)
	}
	return f, nil
}

// median is the middle of a figure over the runs.
func median(runs []figures, of func(figures) float64) float64 {
	var list []float64
	for _, f := range runs {
		list = append(list, of(f))
	}
	slices.Sort(list)
	return list[len(list)/2]
}

func stepMS(f figures) float64 { return f.StepMS }
func rss(f figures) float64    { return f.RSS }
func gflops(f figures) float64 { return f.GFLOPS }

// speed is theirs over ours, the median over pairs of neighbouring runs, with the lowest and the highest.
func (r *result) speed() (mid, low, high float64) {
	var list []float64
	for i := range r.ours {
		list = append(list, r.theirs[i].StepMS/r.ours[i].StepMS)
	}
	slices.Sort(list)
	return list[len(list)/2], list[0], list[len(list)-1]
}
