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
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() {
	row.ServeChild(run)
	row.Main(finetune)
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
	f := row.NewFlags("finetune", errw)
	f.JSON(&o.json)
	f.Chart(&o.chart, "finetune.png")
	f.Images(&o.Data)
	f.Int(&o.Pretrain, "pretrain", 24000, 1, "images to pre-train on, once")
	f.Int(&o.Images, "images", 10000, 1, "other images to fine-tune on")
	f.Int(&o.Tests, "tests", 4000, 1, "images to test on")
	f.Int(&o.Epochs, "epochs", 3, 1, "times that fine-tuning goes through its images")
	f.Int(&o.Batch, "batch", 32, 1, "images an update")
	f.Multiple(&o.Dim, "dim", 64, 4, "channels")
	f.Positive(&o.AdamWLR, "adamw-lr", 1e-3, "learning rate of AdamW")
	f.Positive(&o.SGDLR, "sgd-lr", 0.1, "learning rate of SGD at the start; the cosine takes it to 0")
	f.Run(&o.Seed, "weights and batches", &o.Threads)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.Pretrain < o.Batch || o.Images < o.Batch {
		return o, fmt.Errorf("finetune: -pretrain %d, -images %d: want at least a batch, which is %d", o.Pretrain, o.Images, o.Batch)
	}
	return o, nil
}

// finetune runs the rows and shows them.
func finetune(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err != nil {
		return err
	}
	rows, err := all(ctx, o.settings, row.NewProgress(errw, len(ways)))
	if err != nil {
		return err
	}
	if err := show(out, o, rows); err != nil {
		return err
	}
	return row.Draw(errw, "chart", o.chart, func(path string) error {
		return row.Chart(path, "Peak memory of a training step, vision transformer on digits", rows)
	})
}

// all runs each way in a fresh process. The weights of the first are in a folder until the last has run.
func all(ctx context.Context, c settings, p *row.Progress) (rows []figures, err error) {
	dir, err := os.MkdirTemp("", "finetune")
	if err != nil {
		return nil, fmt.Errorf("finetune: a folder for the weights: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c.Weights = filepath.Join(dir, "pretrained.safetensors")
	for _, w := range ways {
		c.Way = w.name
		f, err := row.Measure[figures](ctx, p, w.name, c)
		if err != nil {
			return nil, err
		}
		rows = append(rows, f)
	}
	return rows, nil
}

func show(out io.Writer, o options, rows []figures) error {
	if o.json {
		return row.WriteJSON(out, rows)
	}
	fmt.Fprintf(out, "ViT of %d channels: %d upright digits, then %d turned ones, %d times, in batches of %d; %s\n\n", o.Dim, o.Pretrain, o.Images, o.Epochs, o.Batch, thimble.Features())
	return row.Table(out, rows, row.Column[figures]{Head: "state", Cell: func(f figures) string { return row.Bytes(f.State) }})
}
