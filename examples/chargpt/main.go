// Chargpt trains a small GPT, byte by byte, on the source of Go's standard library, and has it write some Go.
//
//	go run ./examples/chargpt                some minutes on two processors
//	go run ./examples/chargpt -data FILE     another text: a file or a folder
//	go run ./examples/chargpt -save FILE     keeps the training in a file, ten times on the way; with -resume it goes on from there
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() { row.Main(chargpt) }

// settings say how to train.
type settings struct {
	data               string // file or folder; "": the standard library
	limit              int    // bytes of it
	steps, batch       int    // updates, sequences an update
	context            int    // bytes a sequence
	dim, heads, layers int
	lr, dropout        float64
	seed               uint64
	threads            int
	sample             int     // bytes to write at the end
	temperature        float64 // 0: always the likeliest byte
	json               bool
	save               string // file for the state; "": none
	resume             bool   // go on from it
}

func parse(args []string, errw io.Writer) (c settings, err error) {
	f := flag.NewFlagSet("chargpt", flag.ContinueOnError)
	f.SetOutput(errw)
	f.StringVar(&c.data, "data", "", "file or folder to train on (default: Go's standard library)")
	f.IntVar(&c.limit, "limit", 4_000_000, "bytes of text to read; 0: all")
	f.IntVar(&c.steps, "steps", 2000, "updates")
	f.IntVar(&c.batch, "batch", 12, "sequences an update")
	f.IntVar(&c.context, "context", 64, "bytes a sequence")
	f.IntVar(&c.dim, "dim", 128, "width of the model")
	f.IntVar(&c.heads, "heads", 4, "attention heads, which divide the width")
	f.IntVar(&c.layers, "layers", 4, "blocks of the model")
	f.Float64Var(&c.lr, "lr", 4e-3, "highest learning rate of AdamW")
	f.Float64Var(&c.dropout, "dropout", 0, "share of activations that training drops")
	f.Uint64Var(&c.seed, "seed", 1, "of weights, batches and the sample")
	f.IntVar(&c.threads, "threads", 0, "workers (default: all processors)")
	f.IntVar(&c.sample, "sample", 400, "bytes to write at the end")
	f.Float64Var(&c.temperature, "temperature", 0.8, "of the sample; 0: always the likeliest byte")
	f.BoolVar(&c.json, "json", false, "print the figures as one JSON object on standard output, and nothing else there")
	f.StringVar(&c.save, "save", "", "file to keep the state of the training in, written at each line of the table")
	f.BoolVar(&c.resume, "resume", false, "go on from the state in the file of -save, with the same flags")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("chargpt: argument %q: want flags only, see -help", f.Arg(0))
	case c.steps < 1 || c.batch < 1 || c.context < 1:
		return c, fmt.Errorf("chargpt: %d steps, batch %d, context %d: want 1 or more", c.steps, c.batch, c.context)
	case c.resume && c.save == "":
		return c, errors.New("chargpt: -resume without -save: want the file to go on from")
	case c.threads < 0 || c.limit < 0 || c.sample < 0 || !(c.temperature >= 0):
		return c, fmt.Errorf("chargpt: threads %d, limit %d, sample %d, temperature %g: want positive numbers",
			c.threads, c.limit, c.sample, c.temperature)
	}
	return c, nil
}

// figures are the row of the whole run, its course, and what the model writes.
type figures struct {
	row.Row
	Parameters int64   `json:"parameters"`
	Points     []point `json:"points"`
	Sample     string  `json:"sample"`
}

// point is a line of the table. Losses are in nats a byte.
type point struct {
	Step       int        `json:"step"`
	Loss       row.Number `json:"loss"`            // mean since the last point
	Validation row.Number `json:"validation_loss"` // on text that is not trained on
	Seconds    float64    `json:"seconds"`         // since the start
}

// chargpt runs the program.
func chargpt(ctx context.Context, args []string, out, errw io.Writer) error {
	c, err := parse(args, errw)
	if err == flag.ErrHelp {
		return nil
	}
	if err != nil {
		return err
	}
	text := out
	if c.json {
		text = io.Discard
	}
	f, err := run(ctx, c, row.NewProgress(errw, 1), text)
	if err != nil {
		return err
	}
	if c.json {
		return json.NewEncoder(out).Encode(f)
	}
	fmt.Fprintf(out, "\n%d updates, %s ms each\npeak memory: predicted %s, measured %s (%d bytes)\n", f.Steps, f.StepMS.Format(1, ""),
		row.Bytes(*f.PredictedPeak), row.Bytes(*f.MeasuredPeak), *f.MeasuredPeak)
	if c.sample > 0 {
		fmt.Fprintf(out, "\nsample:\n\n%s\n", f.Sample)
	}
	return nil
}

// head begins the table that line goes on with.
func head(out io.Writer, c settings, parameters int64) {
	fmt.Fprintf(out, "GPT of %d parameters, %d sequences of %d bytes an update; %s\n\n", parameters, c.batch, c.context, thimble.Features())
	fmt.Fprintf(out, " step    loss  validation  seconds\n-----  ------  ----------  -------\n")
}

func line(out io.Writer, p point) {
	fmt.Fprintf(out, "%5d  %6s  %10s  %7.1f\n", p.Step, p.Loss.Format(4, ""), p.Validation.Format(4, ""), p.Seconds)
}
