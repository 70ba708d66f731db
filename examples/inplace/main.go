// Inplace trains the same network three times, with more and more written over memory that nobody reads any more, and
// shows that every loss is the same to the bit while the peak falls:
//
//	buffers    each result and each gradient has a buffer of its own
//	backward   gradients are written over what backward has used up (the library's default)
//	layers     and ReLU and dropout write over their inputs
//
//	go run ./examples/inplace            10 updates a row on MNIST
//	go run ./examples/inplace -refused   what cannot be written over, and what is said
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() { row.Main(inplace) }

// figures are a row, and what it wrote over instead of allocating.
type figures struct {
	row.Row
	InPlace int64              `json:"in_place_bytes"` // in one update
	Ops     []autograd.InPlace `json:"in_place_ops"`
}

// settings say how to train.
type settings struct {
	data                 string
	steps, batch, hidden int
	seed                 uint64
	threads              int
	json, refused        bool
}

func parse(args []string, errw io.Writer) (c settings, err error) {
	f := row.NewFlags("inplace", errw)
	f.JSON(&c.json)
	f.BoolVar(&c.refused, "refused", false, "show in-place operations that are refused, and stop")
	f.Images(&c.data)
	f.Int(&c.steps, "steps", 10, 1, "updates a row")
	f.Int(&c.batch, "batch", 4096, 1, "images an update")
	f.Int(&c.hidden, "hidden", 256, 1, "width of the hidden layers")
	f.Run(&c.seed, "weights, dropout and batches", &c.threads)
	return c, f.Parse(args)
}

// inplace runs the program.
func inplace(ctx context.Context, args []string, out, errw io.Writer) error {
	c, err := parse(args, errw)
	if err != nil {
		return err
	}
	if c.refused {
		return refusals(ctx, out)
	}
	rows, err := all(ctx, c, row.NewProgress(errw, len(ways)))
	if err != nil {
		return err
	}
	if c.json {
		return row.WriteJSON(out, rows)
	}
	return show(out, c, rows)
}

func show(out io.Writer, c settings, rows []figures) error {
	fmt.Fprintf(out, "MLP of two hidden layers of %d, %d images an update; %s\n\n", c.hidden, c.batch, thimble.Features())
	column := row.Column[figures]{Head: "in place", Cell: func(f figures) string { return row.Bytes(f.InPlace) }}
	if err := row.Table(out, rows, column); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nwritten over instead of allocated, in one update of %s:\n\n", ways[len(ways)-1].name)
	for _, u := range rows[len(rows)-1].Ops {
		fmt.Fprintf(out, "  %-16s %2d times  %10s\n", u.Op, u.Times, row.Bytes(u.Bytes))
	}
	return nil
}
