// Estimate tells what a training step of a known model needs, by kind, without having it: the model is built on a
// virtual device, which counts but has no bytes, and its training step runs dry.
//
//	go run ./examples/estimate                              Llama 7B, AdamW, one sequence of 2048
//	go run ./examples/estimate -model gpt2 -optimizer sgd -batch 8
package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func main() { row.Main(estimate) }

// settings say what to estimate.
type settings struct {
	model, optimizer string
	batch, seq       int
	json             bool
}

func parse(args []string, errw io.Writer) (c settings, err error) {
	f := row.NewFlags("estimate", errw)
	f.OneOf(&c.model, "model", "llama7b", row.Names(models), "what is trained")
	f.OneOf(&c.optimizer, "optimizer", "adamw", row.Names(optimizers), "with what")
	f.Int(&c.batch, "batch", 1, 1, "sequences or images an update")
	f.Int(&c.seq, "seq", 0, 0, "tokens a sequence (default: the model's context)")
	f.JSON(&c.json)
	return c, f.Parse(args)
}

// figures are a row and what only this example tells.
type figures struct {
	row.Row
	Parameters int64 `json:"parameters"`
	StateBytes int64 `json:"state_bytes"` // parameters, gradients and optimizer state

	model named[model]
}

// estimate runs the program.
func estimate(_ context.Context, args []string, out, errw io.Writer) error {
	c, err := parse(args, errw)
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

func (n named[T]) String() string { return n.name }
