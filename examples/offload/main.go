// Offload trains a small GPT (6 blocks of 384 channels, 10.8 million parameters) on a device that is too small for it: first
// as it is, which runs out of memory, then with its activations, its optimizer's state, its parameters and gradients, or all
// of them in host memory or on disk. The loss is the same each way, to the bit.
//
//	go run ./examples/offload              all rows; draws offload.png and offload-timeline.png
//	go run ./examples/offload -batch 2     smaller, faster
//
// The limit is the least that every tier fits in, found by dry runs, unless -limit says otherwise; row none has no limit. Each
// row runs in a process of its own, host memory within its resident set. stall_ms is how long a step waited for transfers.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func main() {
	row.ServeChild(run)
	row.Main(tiers)
}

// figures are a row.
type figures struct {
	row.Row
	Host  int64      `json:"host_peak_bytes"` // most bytes on the host device
	Disk  int64      `json:"disk_bytes"`      // most bytes in files
	Stall row.Number `json:"stall_ms"`        // milliseconds of a step that its goroutine waited
}

// measured is what a child gives: its row, and the last step as a picture.
type measured struct {
	figures
	Lanes []row.Lane
}

// options are the flags that stay in the parent.
type options struct {
	settings
	json            bool
	only            string
	limit           int // MiB
	chart, timeline string
}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := row.NewFlags("offload", errw)
	f.JSON(&o.json)
	f.Chart(&o.chart, "offload.png")
	f.File(&o.timeline, "timeline", "offload-timeline.png", "where to draw a step of all-disk; empty: nowhere")
	f.OneOf(&o.only, "row", "", row.Names(tierRows), "run this row only")
	f.Int(&o.limit, "limit", 0, 0, "MiB of the device (default: what every tier fits in)")
	f.Folder(&o.Dir, "dir", "folder for the files (default: the system's for temporary files, which should not be in memory)")
	f.Int(&o.Batch, "batch", 8, 1, "sequences an update")
	f.Int(&o.Context, "context", 256, 1, "tokens a sequence")
	f.Int(&o.Layers, "layers", 6, 1, "blocks")
	f.Multiple(&o.Dim, "dim", 384, head, "channels")
	f.Int(&o.Steps, "steps", 3, 1, "updates a row")
	f.Multiple(&o.Block, "block", 1024, 4, "KiB of each of the 8 pieces that transfers pass through")
	f.Run(&o.Seed, "weights and batches", &o.Threads)
	return o, f.Parse(args)
}

// tiers runs the rows and shows them.
func tiers(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err != nil {
		return err
	}
	if err := o.findLimit(); err != nil {
		return err
	}
	if err := o.runsOut(ctx, errw); err != nil {
		return err
	}
	rows, lanes, err := all(ctx, o, errw)
	if err != nil {
		return err
	}
	if err := show(out, o, rows); err != nil {
		return err
	}
	return o.draw(rows, lanes, errw)
}

// findLimit sets the limit to what the largest row but none takes, by dry runs without bytes.
func (o *options) findLimit() error {
	o.Limit = int64(o.limit) << 20
	if o.Limit > 0 {
		return nil
	}
	for _, t := range tierRows[1:] {
		arena, err := o.predict(t.name)
		if err != nil {
			return err
		}
		o.Limit = max(o.Limit, (arena+1<<16-1)>>16<<16) // whole 64 KiB
	}
	return nil
}

// runsOut trains as it is under the limit, and tells how that ends.
func (o options) runsOut(ctx context.Context, errw io.Writer) error {
	c := o.settings
	c.Row = none
	err := attempt(ctx, c)
	if err == nil {
		fmt.Fprintf(errw, "plain training fits into %s\n\n", row.Bytes(o.Limit))
		return nil
	}
	var oom *memory.OOMError
	if !errors.As(err, &oom) {
		return err
	}
	fmt.Fprintf(errw, "plain training on a device of %s:\n\n%v\n\n", row.Bytes(o.Limit), oom)
	return nil
}

// all runs each row in a fresh process. They must have the same loss.
func all(ctx context.Context, o options, errw io.Writer) (rows []figures, lanes []row.Lane, err error) {
	todo := row.Names(tierRows)
	if o.only != "" {
		todo = []string{o.only}
	}
	p := row.NewProgress(errw, len(todo))
	for _, o.Row = range todo {
		m, err := row.Measure[measured](ctx, p, o.Row, o.settings)
		if err != nil {
			return nil, nil, err
		}
		rows, lanes = append(rows, m.figures), m.Lanes
		if rows[0].Loss != m.Loss {
			return nil, nil, fmt.Errorf("offload: row %s has another loss than %s", o.Row, rows[0].Name)
		}
	}
	return rows, lanes, nil
}

func show(out io.Writer, o options, rows []figures) error {
	if o.json {
		return row.WriteJSON(out, rows)
	}
	fmt.Fprintf(out, "GPT of %d blocks of %d channels, %d sequences of %d tokens, device limit %s; %s\n\n", o.Layers, o.Dim, o.Batch, o.Context, row.Bytes(o.Limit), thimble.Features())
	return row.Table(out, rows,
		row.Column[figures]{Head: "host", Cell: func(f figures) string { return row.Bytes(f.Host) }},
		row.Column[figures]{Head: "disk", Cell: func(f figures) string { return row.Bytes(f.Disk) }},
		row.Column[figures]{Head: "stall", Cell: func(f figures) string { return f.Stall.Format(0, "ms") }})
}

// draw draws the peaks, and the last row's last step.
func (o options) draw(rows []figures, lanes []row.Lane, errw io.Writer) error {
	err := row.Draw(errw, "chart", o.chart, func(path string) error {
		return row.Chart(path, "Peak memory of one training step, GPT of 10.8 million parameters", rows)
	})
	if err != nil || len(lanes) == 0 {
		return err
	}
	return row.Draw(errw, "timeline", o.timeline, func(path string) error {
		return row.Timeline(path, "One step of "+rows[len(rows)-1].Name, lanes)
	})
}
