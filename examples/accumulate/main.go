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
	"fmt"
	"io"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() {
	row.ServeChild(run)
	row.Main(accumulate)
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
	f := row.NewFlags("accumulate", errw)
	f.JSON(&o.json)
	f.Chart(&o.chart, "accumulate.png")
	f.Text(&o.Data)
	f.Int(&o.Steps, "steps", 40, 1, "updates a row")
	f.Int(&o.Context, "context", 64, 1, "bytes of text a sequence")
	f.Multiple(&o.Dim, "dim", 64, 2, "channels")
	f.Run(&o.Seed, "weights and batches", &o.Threads)
	return o, f.Parse(args)
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
		o.Way = w.name
		f, err := row.Measure[figures](ctx, p, w.name, o.settings)
		if err != nil {
			return err
		}
		rows = append(rows, f)
	}
	if err := show(out, o, rows); err != nil {
		return err
	}
	return row.Draw(errw, "chart", o.chart, func(path string) error { return draw(path, rows) })
}

func show(out io.Writer, o options, rows []figures) error {
	if o.json {
		return row.WriteJSON(out, rows)
	}
	fmt.Fprintf(out, "GPT of %d channels, %d sequences of %d bytes an update; %s\n\n", o.Dim, batch, o.Context, thimble.Features())
	apart := func(f figures) string { return fmt.Sprintf("%.1e", furthest(f.Losses, rows[0].Losses)) }
	if err := row.Table(out, rows, row.Column[figures]{Head: "furthest", Cell: apart}); err != nil {
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
