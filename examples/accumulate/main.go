// Accumulate trains the same small GPT with the same batches of 64 sequences, cut into micro-batches in different ways, and
// shows that the loss follows the same curve while the peak falls:
//
//	1 x 64     the whole batch at once
//	4 x 16     four micro-batches, added up before each update
//	16 x 4     sixteen
//	30+21+13   three unequal ones, weighed by the tokens that count in them
//
//	go run ./examples/accumulate        40 updates a row; draws accumulate.png
//
// Each row runs in a process of its own.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() {
	row.ServeChild(serve)
	row.Main(accumulate)
}

// serve runs one row in the child process.
func serve(ctx context.Context, config string, p *row.Progress) (any, error) {
	var c settings
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return nil, err
	}
	return run(ctx, c, p)
}

// figures are a row and its curve.
type figures struct {
	row.Row
	Micro  []int     `json:"micro"`  // sequences in each micro-batch
	Losses []float64 `json:"losses"` // of each update
}

// options are the flags that stay in the parent.
type options struct {
	settings
	json  bool
	chart string
}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := flag.NewFlagSet("accumulate", flag.ContinueOnError)
	f.SetOutput(errw)
	f.BoolVar(&o.json, "json", false, "print the rows as JSON on standard output, and nothing else there")
	f.StringVar(&o.chart, "chart", "accumulate.png", "where to draw the chart; empty: nowhere")
	f.StringVar(&o.Data, "data", "", "a file or folder of text (default: Go's own source)")
	f.IntVar(&o.Steps, "steps", 40, "updates a row")
	f.IntVar(&o.Context, "context", 64, "bytes of text a sequence")
	f.IntVar(&o.Dim, "dim", 64, "channels, an even number")
	f.Uint64Var(&o.Seed, "seed", 1, "of weights and batches")
	f.IntVar(&o.Threads, "threads", 0, "workers (default: all processors)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("accumulate: argument %q: want flags only, see -help", f.Arg(0))
	case o.Steps < 1 || o.Context < 1 || o.Dim < 2 || o.Dim%2 != 0 || o.Threads < 0:
		return o, fmt.Errorf("accumulate: steps %d, context %d, dim %d, threads %d: want positive numbers, dim even", o.Steps, o.Context, o.Dim, o.Threads)
	}
	return o, nil
}

// accumulate runs the rows and shows them.
func accumulate(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err != nil {
		return err
	}
	var rows []figures
	p := row.NewProgress(errw, len(ways))
	for _, w := range ways {
		c := o.settings
		c.Way = w.name
		config, err := json.Marshal(c)
		if err != nil {
			return err
		}
		p.Start(w.name, o.Steps)
		var f figures
		if err := row.RunChild(ctx, string(config), &f, p); err != nil {
			return err
		}
		if err := f.Check(); err != nil {
			return err
		}
		p.Done(f.Row)
		rows = append(rows, f)
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

func show(out io.Writer, o options, rows []figures) error {
	if o.json {
		return row.WriteJSON(out, rows)
	}
	fmt.Fprintf(out, "GPT of %d channels, %d sequences of %d bytes an update; %s\n\n", o.Dim, batch, o.Context, thimble.Features())
	var plain []row.Row
	for _, f := range rows {
		plain = append(plain, f.Row)
	}
	apart := row.Column{Head: "furthest", Cell: func(i int) string { return fmt.Sprintf("%.1e", furthest(rows[i].Losses, rows[0].Losses)) }}
	if err := row.Table(out, plain, apart); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nfurthest: the largest difference between the curve and the first one's\n")
	return nil
}

// furthest is the largest distance of two curves.
func furthest(a, b []float64) (most float64) {
	for i := range a {
		most = max(most, a[i]-b[i], b[i]-a[i])
	}
	return most
}

// draw draws the curves, and the peaks beside them.
func draw(path string, rows []figures) error {
	panels := []row.Panel{{Title: "loss, nats a byte"}, {Title: "peak memory of an update, MiB"}}
	var marks []int
	for i := range rows[0].Losses {
		marks = append(marks, i+1)
	}
	for _, f := range rows {
		peak := make([]float64, len(marks))
		for i := range peak {
			peak[i] = float64(f.Peak()) / (1 << 20)
		}
		panels[0].Lines = append(panels[0].Lines, row.Line{Name: f.Name, Y: f.Losses})
		panels[1].Lines = append(panels[1].Lines, row.Line{Name: f.Name, Y: peak})
	}
	return row.Lines(path, "update", marks, panels)
}
