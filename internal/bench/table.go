package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// table is the results in Markdown.
func table(rows []result) string {
	var b strings.Builder
	b.WriteString("| model, batch, threads | ours ms (forward, backward, optimizer) | PyTorch ms | speed, theirs ms over ours (range) | GFLOP/s | resident MiB, ours / theirs | ratio |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for i := range rows {
		b.WriteString(rows[i].line())
	}
	return b.String()
}

func (r *result) line() string {
	mid, low, high := r.speed()
	our, their := median(r.ours, rss), median(r.theirs, rss)
	return fmt.Sprintf("| %s | %s | %s | **%.2f** (%.2f to %.2f) | %.1f | %.0f / %.0f | %.2f |\n",
		r.title(), phases(r.ours, r.infer), phases(r.theirs, r.infer), mid, low, high, median(r.ours, gflops), our/(1<<20), their/(1<<20), our/their)
}

func (r *result) title() string {
	t := fmt.Sprintf("%s, %d, %d", r.model, r.batch, r.threads)
	if r.peer != "" {
		t += ", against " + r.peer
	}
	if r.infer {
		t += ", forward only"
	}
	if r.checkpoint {
		t += ", each block recomputed"
	}
	return t
}

// phases gives the medians of a step and its parts.
func phases(runs []figures, infer bool) string {
	s := fmt.Sprintf("%.1f", median(runs, stepMS))
	if infer || runs[0].BwdMS == 0 {
		return s
	}
	return s + fmt.Sprintf(" (%.1f, %.1f, %.1f)", median(runs, func(f figures) float64 { return f.FwdMS }),
		median(runs, func(f figures) float64 { return f.BwdMS }), median(runs, func(f figures) float64 { return f.OptMS }))
}

// machine says where, when and how the figures came about.
func (r *runner) machine(args []string) string {
	command := strings.Join(append([]string{"go run ./internal/bench"}, args...), " ")
	torch := ""
	if r.torch != "" {
		torch = "PyTorch " + r.torch + "; "
	}
	return fmt.Sprintf("%s, %d processors; %s; %s%s; medians of %d runs, alternately; `%s`.",
		processor(), runtime.NumCPU(), runtime.Version(), torch, time.Now().Format(time.DateOnly), r.runs, command)
}

// processor names the processor, as far as the system tells.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	var family, name string
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "model name":
			name = strings.TrimSpace(value)
		case "cpu family":
			family = strings.TrimSpace(value)
		}
	}
	if name == "" {
		return runtime.GOARCH
	}
	return fmt.Sprintf("%s (family %s)", name, family)
}

// Marks are the lines that begin the tables in docs/performance.md; lastMark ends each.
const (
	speedMark   = "<!-- go run ./internal/bench -->"
	scalingMark = "<!-- go run ./internal/bench -scaling -->"
	lastMark    = "<!-- end -->"
)

// insert puts text between a mark and the next lastMark of a file.
func insert(path, mark, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(old, []byte(mark+"\n"))
	_, tail, ended := bytes.Cut(rest, []byte(lastMark))
	if !ok || !ended {
		return fmt.Errorf("bench: %s: want the lines %q and %q, between which the table goes", path, mark, lastMark)
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%s%s\n%s%s%s", head, mark, text, lastMark, tail), 0o644)
}
