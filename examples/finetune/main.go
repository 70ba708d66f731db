// Finetune trains a small vision transformer on handwritten digits, and then goes on from its weights on another task, the
// digits of other images turned by a quarter, with two optimizers side by side:
//
//	pretrain    AdamW, on upright digits
//	adamw       from there, with a new head, on turned digits: two moments a parameter
//	sgd-cosine  the same with plain SGD, which keeps nothing, and a cosine schedule
//	sgd-alone   the same from random weights: what pre-training is good for
//
//	go run ./examples/finetune        MNIST, a minute or two on two cores; draws finetune.png
//
// AdamW is there to find a way from nowhere. Where weights are good already, SGD is as good to a point or two, and its state
// takes no memory. Each row runs in a process of its own.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() {
	row.ServeChild(serve)
	row.Main(finetune)
}

// serve runs one row in the child process.
func serve(ctx context.Context, config string, p *row.Progress) (any, error) {
	var c settings
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return nil, err
	}
	return run(ctx, c, p)
}

// figures are a row.
type figures struct {
	row.Row
	State  int64        `json:"state_bytes"` // that the optimizer keeps between steps
	Epochs []row.Number `json:"epochs"`      // accuracy after each
}

// options are the flags that stay in the parent.
type options struct {
	settings
	json  bool
	chart string
}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := flag.NewFlagSet("finetune", flag.ContinueOnError)
	f.SetOutput(errw)
	f.BoolVar(&o.json, "json", false, "print the rows as JSON on standard output, and nothing else there")
	f.StringVar(&o.chart, "chart", "finetune.png", "where to draw the chart; empty: nowhere")
	f.StringVar(&o.Data, "data", "", "folder with IDX files of square images (default: MNIST in Go's module cache)")
	f.IntVar(&o.Pretrain, "pretrain", 24000, "images to pre-train on, once")
	f.IntVar(&o.Images, "images", 10000, "other images to fine-tune on")
	f.IntVar(&o.Tests, "tests", 4000, "images to test on")
	f.IntVar(&o.Epochs, "epochs", 3, "times that fine-tuning goes through its images")
	f.IntVar(&o.Batch, "batch", 32, "images an update")
	f.IntVar(&o.Dim, "dim", 64, "channels, a multiple of 4")
	f.Float64Var(&o.AdamWLR, "adamw-lr", 1e-3, "learning rate of AdamW")
	f.Float64Var(&o.SGDLR, "sgd-lr", 0.1, "learning rate of SGD at the start; the cosine takes it to 0")
	f.Uint64Var(&o.Seed, "seed", 1, "of weights and batches")
	f.IntVar(&o.Threads, "threads", 0, "workers (default: all processors)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("finetune: argument %q: want flags only, see -help", f.Arg(0))
	case o.Batch < 1 || o.Epochs < 1 || o.Dim < 4 || o.Dim%4 != 0 || o.Threads < 0:
		return o, fmt.Errorf("finetune: batch %d, epochs %d, dim %d, threads %d: want positive numbers, dim a multiple of 4", o.Batch, o.Epochs, o.Dim, o.Threads)
	case o.Pretrain < o.Batch || o.Images < o.Batch || o.Tests < 1:
		return o, fmt.Errorf("finetune: pretrain %d, images %d, tests %d: want at least a batch of %d, and a test", o.Pretrain, o.Images, o.Tests, o.Batch)
	}
	return o, nil
}

// finetune runs the rows and shows them.
func finetune(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "finetune")
	if err != nil {
		return fmt.Errorf("finetune: a folder for the weights: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o.Weights = filepath.Join(dir, "pretrained.safetensors")
	rows, err := all(ctx, o.settings, errw)
	if err != nil {
		return err
	}
	if err := show(out, o, rows); err != nil || o.chart == "" {
		return err
	}
	if err := row.Chart(o.chart, "Peak memory of a training step, vision transformer on digits", plain(rows)); err != nil {
		return err
	}
	fmt.Fprintf(errw, "chart: %s\n", o.chart)
	return nil
}

// all runs each way in a fresh process.
func all(ctx context.Context, c settings, errw io.Writer) (rows []figures, err error) {
	p := row.NewProgress(errw, len(ways))
	for _, w := range ways {
		c.Way = w.name
		config, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		p.Start(w.name, 0)
		var f figures
		if err := row.RunChild(ctx, string(config), &f, p); err != nil {
			return nil, err
		}
		if err := f.Check(); err != nil {
			return nil, err
		}
		p.Done(f.Row)
		rows = append(rows, f)
	}
	return rows, nil
}

func plain(rows []figures) (list []row.Row) {
	for _, f := range rows {
		list = append(list, f.Row)
	}
	return list
}

func show(out io.Writer, o options, rows []figures) error {
	if o.json {
		return row.WriteJSON(out, rows)
	}
	fmt.Fprintf(out, "ViT of %d channels: %d upright digits, then %d turned ones, %d times, in batches of %d; %s\n\n", o.Dim, o.Pretrain, o.Images, o.Epochs, o.Batch, thimble.Features())
	state := row.Column{Head: "state", Cell: func(i int) string { return row.Bytes(rows[i].State) }}
	return row.Table(out, plain(rows), state)
}
