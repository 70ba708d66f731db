// Checkpoint trains GPTs of growing depth, with what backward needs kept or computed again, and shows what each way takes:
// the peak, the activations in it, the time of a step. The loss is the same each way, to the bit.
//
//	go run ./examples/checkpoint            depths 8, 16 and 32; draws checkpoint.png
//	go run ./examples/checkpoint -trace     tells, line by line, what one backward pass computes again and when
//
// Each row runs in a process of its own. activation_bytes is the most that is alive of kind activation within the blocks: what
// the head and the embedding keep is not in it, nor is the first block's input, which the embedding makes.
package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() {
	row.ServeChild(run)
	row.Main(depths)
}

// figures are a row.
type figures struct {
	row.Row
	Depth       int    `json:"depth"`            // blocks
	Activations int64  `json:"activation_bytes"` // the most alive at once, head and embedding left out
	Schedule    string `json:"schedule"`         // of the optimal row: (recomputed), [dear only], kept
}

// options are the flags that stay in the parent.
type options struct {
	settings
	json   bool
	trace  bool
	chart  string
	depths []int
}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := row.NewFlags("checkpoint", errw)
	f.JSON(&o.json)
	f.BoolVar(&o.trace, "trace", false, "narrate one backward pass of a small GPT under -row (default: recursive) and stop")
	f.Chart(&o.chart, "checkpoint.png")
	list := f.String("depths", "8,16,32", "numbers of blocks")
	f.OneOf(&o.Row, "row", "", ways, "run this row only")
	f.Text(&o.Data)
	f.Int64Var(&o.Budget, "budget", 0, "bytes that the optimal row's blocks may take (default: what sqrt takes)")
	f.Folder(&o.Costs, "costs", "folder where measured costs of blocks are kept, a file a depth, so that optimal is the same schedule in each run (default: measure each time)")
	f.Int(&o.Batch, "batch", 32, 1, "sequences an update")
	f.Int(&o.Context, "context", 64, 1, "bytes of text a sequence")
	f.Multiple(&o.Dim, "dim", 64, 2, "channels")
	f.Int(&o.Steps, "steps", 3, 1, "updates a row")
	f.Run(&o.Seed, "weights, dropout and batches", &o.Threads)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for _, d := range strings.Split(*list, ",") {
		n, err := strconv.Atoi(d)
		if err != nil || n < 1 {
			return o, fmt.Errorf("checkpoint: -depths %q: want numbers of blocks with commas between them", *list)
		}
		o.depths = append(o.depths, n)
	}
	if o.Budget < 0 {
		return o, fmt.Errorf("checkpoint: -budget %d: want bytes, or 0 for what sqrt takes", o.Budget)
	}
	return o, nil
}

// depths runs the rows and shows them.
func depths(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err != nil {
		return err
	}
	if o.trace {
		return narrate(ctx, o.settings, o.depths[0], out)
	}
	rows, err := all(ctx, o, errw)
	if err != nil {
		return err
	}
	if err := show(out, o, rows); err != nil || o.Row != "" {
		return err
	}
	return row.Draw(errw, "chart", o.chart, func(path string) error { return draw(path, o, rows) })
}

// all runs each way at each depth in a fresh process.
func all(ctx context.Context, o options, errw io.Writer) (rows []figures, err error) {
	todo := ways
	if o.Row != "" {
		todo = []string{o.Row}
	}
	p := row.NewProgress(errw, len(todo)*len(o.depths))
	for _, o.Depth = range o.depths {
		for _, o.Row = range todo {
			f, err := row.Measure[figures](ctx, p, fmt.Sprintf("%s, %d blocks", o.Row, o.Depth), o.settings)
			if err != nil {
				return nil, err
			}
			rows = append(rows, f)
		}
	}
	return rows, nil
}

func show(out io.Writer, o options, rows []figures) error {
	if o.json {
		return row.WriteJSON(out, rows)
	}
	fmt.Fprintf(out, "GPT of %d channels, %d sequences of %d bytes; %s\n", o.Dim, o.Batch, o.Context, thimble.Features())
	for _, depth := range o.depths {
		var at []figures
		for _, f := range rows {
			if f.Depth == depth {
				at = append(at, f)
			}
		}
		fmt.Fprintf(out, "\n%d blocks:\n\n", depth)
		column := row.Column[figures]{Head: "activations", Cell: func(f figures) string { return row.Bytes(f.Activations) }}
		if err := row.Table(out, at, column); err != nil {
			return err
		}
		for _, f := range at {
			if f.Schedule != "" {
				fmt.Fprintf(out, "\n%s: %s\n", f.Name, f.Schedule)
			}
		}
	}
	return nil
}

// draw draws peak and time against depth.
func draw(path string, o options, rows []figures) error {
	panels := []row.Panel{{Title: "peak memory of a step, MiB"}, {Title: "activations of the blocks, MiB"}, {Title: "time of a step, ms"}}
	for _, way := range ways {
		lines := make([]row.Line, len(panels))
		for _, f := range rows {
			if f.Name == way {
				ms, _ := f.StepMS.Value()
				for i, y := range []float64{float64(f.Peak()) / (1 << 20), float64(f.Activations) / (1 << 20), ms} {
					lines[i].Y = append(lines[i].Y, y)
				}
			}
		}
		for i := range panels {
			lines[i].Name = way
			panels[i].Lines = append(panels[i].Lines, lines[i])
		}
	}
	return row.Lines(path, "blocks", o.depths, panels)
}
