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
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() {
	row.ServeChild(serve)
	row.Main(depths)
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
	f := flag.NewFlagSet("checkpoint", flag.ContinueOnError)
	f.SetOutput(errw)
	f.BoolVar(&o.json, "json", false, "print the rows as JSON on standard output, and nothing else there")
	f.BoolVar(&o.trace, "trace", false, "narrate one backward pass of a small GPT under -row (default: recursive) and stop")
	f.StringVar(&o.chart, "chart", "checkpoint.png", "where to draw the chart; empty: nowhere")
	list := f.String("depths", "8,16,32", "numbers of blocks")
	f.StringVar(&o.Row, "row", "", "run this row only: "+strings.Join(ways, ", "))
	f.StringVar(&o.Data, "data", "", "a file or folder of text (default: Go's own source)")
	f.Int64Var(&o.Budget, "budget", 0, "bytes that the optimal row's blocks may take (default: what sqrt takes)")
	f.StringVar(&o.Costs, "costs", "", "folder where measured costs of blocks are kept, a file a depth, so that optimal is the same schedule in each run (default: measure each time)")
	f.IntVar(&o.Batch, "batch", 32, "sequences an update")
	f.IntVar(&o.Context, "context", 64, "bytes of text a sequence")
	f.IntVar(&o.Dim, "dim", 64, "channels")
	f.IntVar(&o.Steps, "steps", 3, "updates a row")
	f.Uint64Var(&o.Seed, "seed", 1, "of weights, dropout and batches")
	f.IntVar(&o.Threads, "threads", 0, "workers (default: all processors)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for _, d := range strings.Split(*list, ",") {
		n, err := strconv.Atoi(d)
		if err != nil || n < 1 {
			return o, fmt.Errorf("checkpoint: depths %q: want numbers of blocks with commas between them", *list)
		}
		o.depths = append(o.depths, n)
	}
	return o, o.check(f.Args())
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("checkpoint: argument %q: want flags only, see -help", rest[0])
	case o.Row != "" && !slices.Contains(ways, o.Row):
		return fmt.Errorf("checkpoint: row %q: want one of %s", o.Row, strings.Join(ways, ", "))
	case o.Batch < 1 || o.Context < 1 || o.Dim < 2 || o.Dim%2 != 0 || o.Steps < 1 || o.Threads < 0 || o.Budget < 0:
		return fmt.Errorf("checkpoint: batch %d, context %d, dim %d, steps %d, threads %d, budget %d: want positive numbers, dim even", o.Batch, o.Context, o.Dim, o.Steps, o.Threads, o.Budget)
	}
	return nil
}

// depths runs the rows and shows them.
func depths(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err == flag.ErrHelp {
		return nil
	}
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
	if err := show(out, o, rows); err != nil {
		return err
	}
	if o.chart == "" || o.Row != "" {
		return nil
	}
	if err := draw(o, rows); err != nil {
		return err
	}
	fmt.Fprintf(errw, "chart: %s\n", o.chart)
	return nil
}

// all runs each way at each depth in a fresh process.
func all(ctx context.Context, o options, errw io.Writer) (rows []figures, err error) {
	todo := ways
	if o.Row != "" {
		todo = []string{o.Row}
	}
	p := row.NewProgress(errw, len(todo)*len(o.depths))
	for _, depth := range o.depths {
		for _, way := range todo {
			c := o.settings
			c.Row, c.Depth = way, depth
			config, err := json.Marshal(c)
			if err != nil {
				return nil, err
			}
			p.Start(fmt.Sprintf("%s, %d blocks", way, depth), 0)
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
		var plain []row.Row
		for _, f := range rows {
			if f.Depth == depth {
				at, plain = append(at, f), append(plain, f.Row)
			}
		}
		fmt.Fprintf(out, "\n%d blocks:\n\n", depth)
		column := row.Column{Head: "activations", Cell: func(i int) string { return row.Bytes(at[i].Activations) }}
		if err := row.Table(out, plain, column); err != nil {
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
func draw(o options, rows []figures) error {
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
	return row.Lines(o.chart, "blocks", o.depths, panels)
}
