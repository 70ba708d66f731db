package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// A sweep changes one number of the small GPT and leaves the others.
type sweep struct {
	what   string // flag of examples/bench
	values []int
}

var sweeps = []sweep{
	{"batch", []int{1, 2, 4, 8, 16}},
	{"layers", []int{3, 6, 12, 24}},
	{"tokens", []int{128, 256, 512, 1024, 2048}},
}

// scaling measures how the time of a step grows, as a table in Markdown. Rounds go over all sizes, so that what else the
// machine does falls on all.
func (r *runner) scaling(ctx context.Context) (string, error) {
	var b strings.Builder
	b.WriteString("| changed | value | step ms | against the first | microseconds a token | GFLOP/s |\n|---|---|---|---|---|---|\n")
	for _, s := range sweeps {
		runs := make([][]figures, len(s.values))
		for range r.runs {
			for i, v := range s.values {
				f, err := r.run(ctx, s.argv(filepath.Join(r.folder, "ours"), v))
				if err != nil {
					return "", err
				}
				runs[i] = append(runs[i], f)
			}
			fmt.Fprintf(r.progress, "%s: round of %v\n", s.what, s.values)
		}
		base := median(runs[0], stepMS)
		for i, v := range s.values {
			ms := median(runs[i], stepMS)
			fmt.Fprintf(&b, "| %s | %d | %.1f | %.2f | %.1f | %.1f |\n", s.what, v, ms, ms/base, ms*1e3/float64(s.tokens(v)), median(runs[i], gflops))
		}
	}
	return b.String(), nil
}

// argv is the command at one value. All but the changed number are small, so that the largest is not slow.
func (s sweep) argv(program string, v int) []string {
	set := map[string]int{"batch": 1, "layers": 6, "tokens": 256, "steps": 3}
	set[s.what] = v
	argv := []string{program, "-json"}
	for _, flag := range []string{"batch", "layers", "tokens", "steps"} {
		argv = append(argv, "-"+flag, fmt.Sprint(set[flag]))
	}
	return argv
}

// tokens is how many tokens a step has at a value.
func (s sweep) tokens(v int) int {
	switch s.what {
	case "batch":
		return v * 256
	case "tokens":
		return v
	}
	return 256
}
