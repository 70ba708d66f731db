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
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() {
	row.ServeChild(serve)
	row.Main(rounds)
}

// serve runs one row in the child process.
func serve(ctx context.Context, config string, p *row.Progress) (any, error) {
	var c settings
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return nil, err
	}
	return run(ctx, c, p)
}

// options are the flags that stay in the parent.
type options struct {
	settings
	json  bool
	trace bool
	chart string
}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := flag.NewFlagSet("amp", flag.ContinueOnError)
	f.SetOutput(errw)
	f.BoolVar(&o.json, "json", false, "print the rows as JSON on standard output, and nothing else there")
	f.BoolVar(&o.trace, "trace", false, "tell one update of fp16-autocast (or of the row that -row names) op by op")
	f.StringVar(&o.chart, "chart", "amp.png", "where to draw the chart; empty: nowhere")
	f.StringVar(&o.Row, "row", "", "run this row only")
	f.StringVar(&o.Data, "data", "", "a file or folder of text (default: Go's own source)")
	f.IntVar(&o.Steps, "steps", 500, "updates a row")
	f.IntVar(&o.Batch, "batch", 4, "sequences an update")
	f.IntVar(&o.Context, "context", 64, "bytes of text a sequence")
	f.IntVar(&o.Dim, "dim", 64, "channels, an even number")
	f.IntVar(&o.Layers, "layers", 2, "blocks")
	f.Float64Var(&o.LR, "lr", 2e-3, "highest learning rate of AdamW")
	f.Uint64Var(&o.Seed, "seed", 1, "of weights and batches")
	f.IntVar(&o.Threads, "threads", 0, "workers (default: all processors)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, o.check(f.Args())
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("amp: argument %q: want flags only, see -help", rest[0])
	case o.Steps < 1 || o.Batch < 1 || o.Context < 1 || o.Layers < 1 || o.Threads < 0:
		return fmt.Errorf("amp: steps %d, batch %d, context %d, layers %d, threads %d: want positive numbers", o.Steps, o.Batch, o.Context, o.Layers, o.Threads)
	case o.Dim < 2 || o.Dim%2 != 0:
		return fmt.Errorf("amp: dim %d: want an even number", o.Dim)
	case o.Row == "":
		return nil
	}
	_, err := findWay(o.Row)
	return err
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
	list := ways
	if o.json {
		list = ways[:5]
	}
	if o.Row != "" {
		w, _ := findWay(o.Row)
		list = []way{w}
	}
	rows, err := climb(ctx, o.settings, list, row.NewProgress(errw, len(list)))
	if err != nil {
		return err
	}
	if err := show(out, o, rows); err != nil || o.chart == "" {
		return err
	}
	if err := draw(o.chart, rows); err != nil {
		return err
	}
	fmt.Fprintf(errw, "chart: %s\n", o.chart)
	return nil
}

// climb runs each row in a fresh process.
func climb(ctx context.Context, c settings, list []way, p *row.Progress) (rows []figures, err error) {
	for _, w := range list {
		c.Row = w.name
		config, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		p.Start(w.name, c.Steps)
		var f figures
		if err := row.RunChild(ctx, string(config), &f, p); err != nil {
			return nil, err
		}
		f.Note = w.note
		if err := f.Check(); err != nil {
			return nil, err
		}
		p.Done(f.Row)
		rows = append(rows, f)
	}
	return rows, nil
}
