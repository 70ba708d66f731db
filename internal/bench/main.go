// Bench compares a training step with PyTorch's, and the MLP's with Gorgonia's: it runs examples/bench and
// pytorch/train.py (or the program in gorgonia/) alternately, each in a process of its own, and prints medians and
// ratios as a table in Markdown.
//
//	go run ./internal/bench                         all comparisons; python3-torch and the OpenMP build of OpenBLAS wanted
//	go run ./internal/bench -only mlp-2 -runs 9     one of them, more runs
//	go run ./internal/bench -scaling                how our step grows with batch, layers and tokens
//	go run ./internal/bench -o docs/performance.md  puts the table between its marks in that file
//
// On Debian, for the other side: apt-get install python3-torch libopenblas0-openmp. Machines are noisy: nothing else
// should run meanwhile, and ratios count, not milliseconds.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := compare(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A comparison is a configuration that both sides run.
type comparison struct {
	peer           string // "": PyTorch
	model          string
	batch, threads int
	steps          int  // timed in each run
	infer          bool // forward pass only
	checkpoint     bool // recomputation of each block
}

func (c comparison) name() string {
	n := fmt.Sprintf("%s-%d", c.model, c.threads)
	if c.peer != "" {
		n += "-" + c.peer
	}
	if c.infer {
		n += "-infer"
	}
	if c.checkpoint {
		n += "-checkpoint"
	}
	return n
}

// gorgonia is the peer that a module of its own has.
const gorgonia = "Gorgonia"

// args are the flags of both sides.
func (c comparison) args() []string {
	list := []string{
		"--model", c.model, "--batch", fmt.Sprint(c.batch), "--threads", fmt.Sprint(c.threads), "--steps", fmt.Sprint(c.steps),
	}
	if c.infer {
		list = append(list, "--infer")
	}
	if c.checkpoint {
		list = append(list, "--checkpoint")
	}
	return list
}

var comparisons = []comparison{
	{model: "babygpt", batch: 8, threads: 2, steps: 5},
	{model: "babygpt", batch: 8, threads: 1, steps: 3},
	{model: "gpt2", batch: 1, threads: 2, steps: 3},
	{model: "mlp", batch: 128, threads: 2, steps: 60},
	{model: "cnn", batch: 64, threads: 2, steps: 15},
	{model: "vit", batch: 64, threads: 2, steps: 5},
	{model: "babygpt", batch: 8, threads: 2, steps: 5, infer: true},
	{model: "babygpt", batch: 8, threads: 2, steps: 5, checkpoint: true},
	{model: "mlp", batch: 128, threads: 2, steps: 20, peer: gorgonia},
}

// options say what to compare.
type options struct {
	only   *regexp.Regexp
	runs   int
	python string
	blas   string
	output string
	sweep  bool
}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errw)
	only := f.String("only", "", "regular expression of the comparisons to run: "+names())
	f.IntVar(&o.runs, "runs", 5, "runs of each side, alternately")
	f.StringVar(&o.python, "python", "/usr/bin/python3", "the Python that has torch; Debian's")
	f.StringVar(&o.blas, "blas", "/usr/lib/x86_64-linux-gnu/openblas-openmp", "folder of the OpenMP build of OpenBLAS, for the other side")
	f.StringVar(&o.output, "o", "", "file that has the marks between which the table goes")
	f.BoolVar(&o.sweep, "scaling", false, "show instead how our step grows with batch, layers and tokens")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.runs < 1 {
		return o, fmt.Errorf("bench: %d runs, arguments %q: want 1 or more and flags only", o.runs, f.Args())
	}
	if o.only, err = regexp.Compile("^(?:" + *only + ")"); err != nil {
		return o, fmt.Errorf("bench: -only: %w", err)
	}
	return o, nil
}

func names() string {
	var list []string
	for _, c := range comparisons {
		list = append(list, c.name())
	}
	return strings.Join(list, ", ")
}

// compare runs the program.
func compare(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err == flag.ErrHelp {
		return nil
	}
	if err != nil {
		return err
	}
	r := &runner{options: o, progress: errw}
	defer r.clean()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	text, mark, err := "", speedMark, error(nil)
	if o.sweep {
		mark = scalingMark
		text, err = r.scaling(ctx)
	} else {
		text, err = r.speed(ctx)
	}
	if err != nil {
		return err
	}
	text = r.machine(args) + "\n\n" + text
	if o.output != "" {
		if err := insert(o.output, mark, text); err != nil {
			return err
		}
	}
	_, err = io.WriteString(out, text)
	return err
}

// speed runs the comparisons.
func (r *runner) speed(ctx context.Context) (string, error) {
	var rows []result
	for _, c := range comparisons {
		if !r.only.MatchString(c.name()) {
			continue
		}
		row, err := r.both(ctx, c)
		if err != nil {
			return "", err
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("bench: -only %q: want one of %s", r.only, names())
	}
	return table(rows), nil
}
