// Mnist trains a small convolutional network to read digits, and shows that the memory it took is what the dry run had
// predicted.
//
//	go run ./examples/mnist               3 epochs of MNIST
//	go run ./examples/mnist -data DIR     Fashion-MNIST or the like, in four IDX files
//	go run ./examples/mnist -save FILE    keeps the training in a file after each epoch; with -resume it goes on from there
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

func main() { row.Main(mnist) }

// settings say how to train.
type settings struct {
	data    string // folder of IDX files; "": MNIST from the module cache
	epochs  int
	batch   int // images an update
	lr      float64
	seed    uint64
	threads int
	limit   int // images of each set; 0: all
	json    bool
	save    string // file for the state; "": none
	resume  bool   // go on from it
}

func parse(args []string, errw io.Writer) (c settings, err error) {
	f := row.NewFlags("mnist", errw)
	f.Images(&c.data)
	f.Int(&c.epochs, "epochs", 3, 1, "times to go through the training set")
	f.Int(&c.batch, "batch", 128, 1, "images an update")
	f.Positive(&c.lr, "lr", 1e-3, "learning rate of AdamW")
	f.Run(&c.seed, "weights and batches", &c.threads)
	f.Int(&c.limit, "limit", 0, 0, "use only the first images of the training set and of the test set (default: all)")
	f.JSON(&c.json)
	f.File(&c.save, "save", "", "file to keep the state of the training in, written after each epoch")
	f.BoolVar(&c.resume, "resume", false, "go on from the state in the file of -save, with the same flags; -epochs may be more")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if c.resume && c.save == "" {
		return c, errors.New("mnist: -resume without -save: want the file to go on from")
	}
	return c, nil
}

// figures are the row of the whole run and its epochs.
type figures struct {
	row.Row
	Parameters int64   `json:"parameters"`
	Epochs     []epoch `json:"epochs"`
}

// epoch is a line of the table.
type epoch struct {
	Epoch    int        `json:"epoch"`
	Loss     row.Number `json:"loss"`     // mean over the epoch
	Accuracy row.Number `json:"accuracy"` // on the test set, 0 to 1
	Seconds  float64    `json:"seconds"`  // with the test
}

// mnist runs the program.
func mnist(ctx context.Context, args []string, out, errw io.Writer) error {
	c, err := parse(args, errw)
	if err != nil {
		return err
	}
	text := out
	if c.json {
		text = io.Discard
	}
	f, err := run(ctx, c, row.NewProgress(errw, c.epochs), text)
	if err != nil {
		return err
	}
	if c.json {
		return json.NewEncoder(out).Encode(f)
	}
	fmt.Fprintf(out, "\n%d updates, %s ms each\npeak memory: predicted %s, measured %s (%d bytes)\n", f.Steps, f.StepMS.Format(1, ""),
		row.Bytes(*f.PredictedPeak), row.Bytes(*f.MeasuredPeak), *f.MeasuredPeak)
	return nil
}

// head begins the table that line goes on with.
func head(out io.Writer, c settings, parameters int64) {
	fmt.Fprintf(out, "convolutional network of %d parameters, %d images an update; %s\n\n", parameters, c.batch, thimble.Features())
	fmt.Fprintf(out, "epoch    loss  accuracy  seconds\n-----  ------  --------  -------\n")
}

func line(out io.Writer, e epoch) {
	acc, _ := e.Accuracy.Value()
	fmt.Fprintf(out, "%5d  %6s  %7.2f%%  %7.1f\n", e.Epoch, e.Loss.Format(4, ""), 100*acc, e.Seconds)
}
