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
	f := row.NewFlags("chargpt", errw)
	f.Text(&c.data)
	f.Int(&c.limit, "limit", 4_000_000, 0, "bytes of text to read; 0: all")
	f.Int(&c.steps, "steps", 2000, 1, "updates")
	f.Int(&c.batch, "batch", 12, 1, "sequences an update")
	f.Int(&c.context, "context", 64, 1, "bytes a sequence")
	f.Int(&c.dim, "dim", 128, 1, "width of the model")
	f.Int(&c.heads, "heads", 4, 1, "attention heads, which divide the width")
	f.Int(&c.layers, "layers", 4, 1, "blocks of the model")
	f.Positive(&c.lr, "lr", 4e-3, "highest learning rate of AdamW")
	f.Float64Var(&c.dropout, "dropout", 0, "share of activations that training drops")
	f.Run(&c.seed, "weights, batches and the sample", &c.threads)
	f.Int(&c.sample, "sample", 400, 0, "bytes to write at the end")
	f.Float64Var(&c.temperature, "temperature", 0.8, "of the sample; 0: always the likeliest byte")
	f.JSON(&c.json)
	f.File(&c.save, "save", "", "file to keep the state of the training in, written at each line of the table")
	f.BoolVar(&c.resume, "resume", false, "go on from the state in the file of -save, with the same flags")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	switch {
	case c.resume && c.save == "":
		return c, errors.New("chargpt: -resume without -save: want the file to go on from")
	case !(c.temperature >= 0):
		return c, fmt.Errorf("chargpt: -temperature %g: want 0 or more", c.temperature)
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
