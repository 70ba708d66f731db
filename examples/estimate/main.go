// Estimate tells what a training step of a known model needs, by kind, without having it: the model is built on a
// virtual device, which counts but has no bytes, and its training step runs dry.
//
//	go run ./examples/estimate                              Llama 7B, AdamW, one sequence of 2048
//	go run ./examples/estimate -model gpt2 -optimizer sgd -batch 8
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func main() {
	if err := estimate(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// settings say what to estimate.
type settings struct {
	model, optimizer string
	batch, seq       int
	json             bool
}

func parse(args []string, errw io.Writer) (c settings, err error) {
	f := flag.NewFlagSet("estimate", flag.ContinueOnError)
	f.SetOutput(errw)
	f.StringVar(&c.model, "model", "llama7b", "one of "+names(models))
	f.StringVar(&c.optimizer, "optimizer", "adamw", "one of "+names(optimizers))
	f.IntVar(&c.batch, "batch", 1, "sequences or images an update")
	f.IntVar(&c.seq, "seq", 0, "tokens a sequence (default: the model's context)")
	f.BoolVar(&c.json, "json", false, "print the row as JSON on standard output, and nothing else there")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("estimate: argument %q: want flags only, see -help", f.Arg(0))
	case c.batch < 1 || c.seq < 0:
		return c, fmt.Errorf("estimate: batch %d, seq %d: want positive numbers", c.batch, c.seq)
	}
	return c, nil
}

// figures are a row and what only this example tells.
type figures struct {
	row.Row
	Parameters int64 `json:"parameters"`
	StateBytes int64 `json:"state_bytes"` // parameters, gradients and optimizer state

	model named[model]
}

// estimate runs the program.
func estimate(args []string, out, errw io.Writer) error {
	c, err := parse(args, errw)
	if err == flag.ErrHelp {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := run(c)
	if err != nil {
		return err
	}
	if c.json {
		return row.WriteJSON(out, []figures{f})
	}
	show(out, f)
	return nil
}

// show prints the figures for people.
func show(out io.Writer, f figures) {
	fmt.Fprintf(out, "%s\n\n", f.Name)
	fmt.Fprintf(out, "%-12s %23s\n\npeak by kind\n", "parameters", commas(f.Parameters))
	for _, k := range memory.Kinds() {
		if n := f.ByKind[k]; n > 0 {
			line(out, k.String(), n)
		}
	}
	line(out, "peak", f.Peak())
	fmt.Fprintln(out)
	line(out, "arena", *f.Arena)
	line(out, "state", f.StateBytes)
	fmt.Fprintln(out, "\narena: what must fit, holes and rounding included\nstate: parameters, gradients and optimizer state")
	if round := f.model.make.round; round > 0 {
		each := math.Round(float64(f.StateBytes) / float64(f.Parameters))
		fmt.Fprintf(out, "state by rule of thumb: %.1fe9 x %.0f bytes = %.0f GB; counted: %.1f GB\n",
			round/1e9, each, round*each/1e9, float64(f.StateBytes)/1e9)
	}
}

func line(out io.Writer, name string, n int64) {
	fmt.Fprintf(out, "%-12s %23s  %12s\n", name, commas(n), row.Bytes(n))
}

// commas is n in groups of three digits.
func commas(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// named is an entry of a list that a flag chooses from.
type named[T any] struct {
	name string
	make T
}

func names[T any](list []named[T]) string {
	var s []string
	for _, e := range list {
		s = append(s, e.name)
	}
	return strings.Join(s, ", ")
}

func find[T any](what, name string, list []named[T]) (e named[T], err error) {
	for _, e := range list {
		if e.name == name {
			return e, nil
		}
	}
	return e, fmt.Errorf("estimate: %s %q: want one of %s", what, name, names(list))
}
