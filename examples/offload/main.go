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
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func main() {
	row.ServeChild(serve)
	row.Main(tiers)
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
	f := flag.NewFlagSet("offload", flag.ContinueOnError)
	f.SetOutput(errw)
	f.BoolVar(&o.json, "json", false, "print the rows as JSON on standard output, and nothing else there")
	f.StringVar(&o.chart, "chart", "offload.png", "where to draw the chart; empty: nowhere")
	f.StringVar(&o.timeline, "timeline", "offload-timeline.png", "where to draw a step of all-disk; empty: nowhere")
	f.StringVar(&o.only, "row", "", "run this row only: "+strings.Join(names(), ", "))
	f.IntVar(&o.limit, "limit", 0, "MiB of the device (default: what every tier fits in)")
	f.StringVar(&o.Dir, "dir", "", "folder for the files (default: the system's for temporary files, which should not be in memory)")
	f.IntVar(&o.Batch, "batch", 8, "sequences an update")
	f.IntVar(&o.Context, "context", 256, "tokens a sequence")
	f.IntVar(&o.Layers, "layers", 6, "blocks")
	f.IntVar(&o.Dim, "dim", 384, "channels, a multiple of 64")
	f.IntVar(&o.Steps, "steps", 3, "updates a row")
	f.Int64Var(&o.Block, "block", 1024, "KiB of each of the 8 pieces that transfers pass through")
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
		return fmt.Errorf("offload: argument %q: want flags only, see -help", rest[0])
	case o.only != "" && !slices.Contains(names(), o.only):
		return fmt.Errorf("offload: row %q: want one of %s", o.only, strings.Join(names(), ", "))
	case o.Batch < 1 || o.Context < 1 || o.Layers < 1 || o.Steps < 1 || o.Threads < 0 || o.limit < 0:
		return fmt.Errorf("offload: batch %d, context %d, layers %d, steps %d, threads %d, limit %d: want positive numbers", o.Batch, o.Context, o.Layers, o.Steps, o.Threads, o.limit)
	case o.Block < 4 || o.Block%4 != 0:
		return fmt.Errorf("offload: block %d KiB: want a multiple of 4", o.Block)
	case o.Dim < 64 || o.Dim%64 != 0:
		return fmt.Errorf("offload: dim %d: want a multiple of 64, the size of a head", o.Dim)
	}
	return nil
}

// tiers runs the rows and shows them.
func tiers(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err == flag.ErrHelp {
		return nil
	}
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
	for _, name := range names()[1:] {
		arena, err := o.predict(name)
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
	todo := names()
	if o.only != "" {
		todo = []string{o.only}
	}
	p := row.NewProgress(errw, len(todo))
	for _, name := range todo {
		c := o.settings
		c.Row = name
		config, err := json.Marshal(c)
		if err != nil {
			return nil, nil, err
		}
		p.Start(name, 0)
		var m measured
		if err := row.RunChild(ctx, string(config), &m, p); err != nil {
			return nil, nil, err
		}
		if err := m.Check(); err != nil {
			return nil, nil, err
		}
		p.Done(m.Row)
		rows, lanes = append(rows, m.figures), m.Lanes
		if rows[0].Loss != m.Loss {
			return nil, nil, fmt.Errorf("offload: row %s has another loss than %s", name, rows[0].Name)
		}
	}
	return rows, lanes, nil
}

func show(out io.Writer, o options, rows []figures) error {
	if o.json {
		return row.WriteJSON(out, rows)
	}
	fmt.Fprintf(out, "GPT of %d blocks of %d channels, %d sequences of %d tokens, device limit %s; %s\n\n", o.Layers, o.Dim, o.Batch, o.Context, row.Bytes(o.Limit), thimble.Features())
	return row.Table(out, plain(rows),
		row.Column{Head: "host", Cell: func(i int) string { return row.Bytes(rows[i].Host) }},
		row.Column{Head: "disk", Cell: func(i int) string { return row.Bytes(rows[i].Disk) }},
		row.Column{Head: "stall", Cell: func(i int) string { return rows[i].Stall.Format(0, "ms") }})
}

func plain(rows []figures) (list []row.Row) {
	for _, f := range rows {
		list = append(list, f.Row)
	}
	return list
}

// draw draws the peaks, and the last row's last step.
func (o options) draw(rows []figures, lanes []row.Lane, errw io.Writer) error {
	if o.chart != "" {
		if err := row.Chart(o.chart, "Peak memory of one training step, GPT of 10.8 million parameters", plain(rows)); err != nil {
			return err
		}
		fmt.Fprintf(errw, "chart: %s\n", o.chart)
	}
	if o.timeline == "" || len(lanes) == 0 {
		return nil
	}
	if err := row.Timeline(o.timeline, "One step of "+rows[len(rows)-1].Name, lanes); err != nil {
		return err
	}
	fmt.Fprintf(errw, "timeline: %s\n", o.timeline)
	return nil
}
