// Amp trains the same small GPT, byte by byte on the same batches, in five ways to use numbers of two bytes:
//
//	float32          four bytes for everything
//	bf16-autocast    products in bfloat16, parameters and their updates in float32
//	fp16-autocast    products in float16, losses scaled so that small gradients do not vanish
//	bf16-stochastic  everything in bfloat16, updates rounded up or down at random
//	bf16-nearest     everything in bfloat16, updates rounded to the nearest: the small ones are lost
//
//	go run ./examples/amp          500 updates a row; draws amp.png: the losses, and the scale over the updates
//	go run ./examples/amp -trace   one update told op by op: which dtypes and why, and what becomes of the gradients
//
// Each row runs in a process of its own. In the middle of fp16-autocast an overflow is forced: one update is skipped, and the
// scale halved.
package main

import (
	"context"
	"io"

	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() {
	row.ServeChild(run)
	row.Main(rounds)
}

// options are the flags that stay in the parent.
type options struct {
	settings
	json  bool
	trace bool
	chart string
}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := row.NewFlags("amp", errw)
	f.JSON(&o.json)
	f.BoolVar(&o.trace, "trace", false, "tell one update of fp16-autocast (or of the row that -row names) op by op")
	f.Chart(&o.chart, "amp.png")
	f.OneOf(&o.Row, "row", "", row.Names(ways), "run this row only")
	f.Text(&o.Data)
	f.Int(&o.Steps, "steps", 500, 1, "updates a row")
	f.Int(&o.Batch, "batch", 4, 1, "sequences an update")
	f.Int(&o.Context, "context", 64, 1, "bytes of text a sequence")
	f.Multiple(&o.Dim, "dim", 64, 2, "channels")
	f.Int(&o.Layers, "layers", 2, 1, "blocks")
	f.Positive(&o.LR, "lr", 2e-3, "highest learning rate of AdamW")
	f.Run(&o.Seed, "weights and batches", &o.Threads)
	return o, f.Parse(args)
}

// rounds runs the rows and shows them, or tells of one update.
func rounds(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err != nil {
		return err
	}
	if o.trace {
		return narrate(ctx, o.settings, out)
	}
	rows, err := climb(ctx, o, errw)
	if err != nil {
		return err
	}
	if err := show(out, o, rows); err != nil {
		return err
	}
	return row.Draw(errw, "chart", o.chart, func(path string) error { return draw(path, rows) })
}

// climb runs each row in a fresh process.
func climb(ctx context.Context, o options, errw io.Writer) (rows []figures, err error) {
	list := ways
	if o.json {
		list = ways[:5]
	}
	if o.Row != "" {
		w, err := row.Find("amp: row", o.Row, ways)
		if err != nil {
			return nil, err
		}
		list = []way{w}
	}
	p := row.NewProgress(errw, len(list))
	for _, w := range list {
		o.Row = w.name
		f, err := row.Measure[figures](ctx, p, w.name, o.settings)
		if err != nil {
			return nil, err
		}
		f.Note = w.note
		rows = append(rows, f)
	}
	return rows, nil
}
