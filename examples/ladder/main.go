// Ladder trains the same network under one memory technique after another and shows how the peak falls: what
// the dry run predicted, what the run took, the split by kind, the resident set of a fresh process, time, loss,
// accuracy.
//
//	go run ./examples/ladder -quick     3 steps a rung
//	go run ./examples/ladder            whole epochs, with accuracy
//
// Other tables show techniques one by one. It draws ladder.png. Each rung runs in a process of its own.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() {
	row.ServeChild(serve)
	row.Main(ladder)
}

// serve runs one rung in the child process.
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
	table string
	chart string
}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := flag.NewFlagSet("ladder", flag.ContinueOnError)
	f.SetOutput(errw)
	quick := f.Bool("quick", false, "3 steps a rung: peaks and loss, no accuracy")
	f.BoolVar(&o.json, "json", false, "print the rows as JSON on standard output, and nothing else there")
	f.StringVar(&o.table, "table", "", "show this table only: stack (the default of -json), alone, recompute or offload")
	f.StringVar(&o.chart, "chart", "ladder.png", "where to draw the chart; empty: nowhere")
	f.StringVar(&o.Rung, "rung", "", "run this rung only")
	f.StringVar(&o.Model, "model", models[0], "what is trained: "+strings.Join(models, ", "))
	f.StringVar(&o.Data, "data", "", "folder of IDX files, for gpt a file or folder of text (default: MNIST from the Go module cache, Go's own source)")
	f.IntVar(&o.Batch, "batch", 0, "examples an update (default: the model's)")
	f.IntVar(&o.Hidden, "hidden", 512, "width of the MLP's hidden layers")
	f.IntVar(&o.Steps, "steps", 0, "updates a rung (default: whole epochs)")
	f.IntVar(&o.Epochs, "epochs", 0, "epochs a rung (default: the model's)")
	f.Uint64Var(&o.Seed, "seed", 1, "of weights and batches")
	f.IntVar(&o.Threads, "threads", 0, "workers (default: all processors)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if *quick && o.Steps == 0 {
		o.Steps = 3
	}
	if o.Steps > 0 {
		o.Epochs = 0
	}
	return o, o.check(f.Args())
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("ladder: argument %q: want flags only, see -help", rest[0])
	case !slices.Contains(models, o.Model):
		return fmt.Errorf("ladder: model %q: want one of %s", o.Model, strings.Join(models, ", "))
	case o.Steps < 0 || o.Epochs < 0:
		return fmt.Errorf("ladder: %d steps, %d epochs: want 1 or more of either", o.Steps, o.Epochs)
	case o.Batch < 0 || o.Hidden < 1 || o.Threads < 0:
		return fmt.Errorf("ladder: batch %d, hidden %d, threads %d: want positive numbers", o.Batch, o.Hidden, o.Threads)
	}
	return nil
}

// ladder runs the rungs and shows them.
func ladder(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err == flag.ErrHelp {
		return nil
	}
	if err != nil {
		return err
	}
	shown, err := o.tables()
	if err != nil {
		return err
	}
	rows, err := climb(ctx, o.settings, shown, errw)
	if err != nil {
		return err
	}
	if err := show(out, o, shown, rows); err != nil {
		return err
	}
	if o.chart == "" {
		return nil
	}
	if err := row.Chart(o.chart, "Peak memory of one training step, "+titles[o.Model]+": "+shown[0].title, pick(rows, shown[0])); err != nil {
		return err
	}
	fmt.Fprintf(errw, "chart: %s\n", o.chart)
	return nil
}

// tables gives what to run and show: for programs one table, for people all.
func (o options) tables() ([]table, error) {
	switch {
	case o.Rung != "":
		_, err := findRung(o.Rung)
		return []table{{title: "one rung", rungs: []string{o.Rung}}}, err
	case o.table != "" || o.json:
		name := o.table
		if name == "" {
			name = tables[0].name
		}
		t, err := findTable(name)
		return []table{t.fit(o.Model)}, err
	}
	var list []table
	for _, t := range tables {
		if t = t.fit(o.Model); len(t.rungs) > 1 { // more than the baseline
			list = append(list, t)
		}
	}
	return list, nil
}

// pick gives the rows of a table in its order.
func pick(rows map[string]row.Row, t table) (list []row.Row) {
	for _, name := range t.rungs {
		list = append(list, rows[name])
	}
	return list
}

// climb runs each rung of the tables once, in a fresh process.
func climb(ctx context.Context, c settings, shown []table, errw io.Writer) (map[string]row.Row, error) {
	var todo []string
	for _, t := range shown {
		for _, name := range t.rungs {
			if !slices.Contains(todo, name) {
				todo = append(todo, name)
			}
		}
	}
	p := row.NewProgress(errw, len(todo))
	rows := map[string]row.Row{}
	for _, name := range todo {
		r, err := measure(ctx, c, name, p)
		if err != nil {
			return nil, err
		}
		p.Done(r)
		rows[name] = r
	}
	return rows, nil
}

// measure runs one rung in a child process.
func measure(ctx context.Context, c settings, name string, p *row.Progress) (got row.Row, err error) {
	r, err := findRung(name)
	if err != nil {
		return got, err
	}
	c.Rung = name
	config, err := json.Marshal(c)
	if err != nil {
		return got, err
	}
	p.Start(name, 0)
	if err := row.RunChild(ctx, string(config), &got, p); err != nil {
		return got, err
	}
	got.Note = r.note
	return got, got.Check()
}

func show(out io.Writer, o options, shown []table, rows map[string]row.Row) error {
	if o.json {
		return row.WriteJSON(out, pick(rows, shown[0]))
	}
	fmt.Fprintf(out, "%s; %s\n", titles[o.Model], thimble.Features())
	for _, t := range shown {
		fmt.Fprintf(out, "\n%s:\n\n", t.title)
		if err := row.Table(out, pick(rows, t)); err != nil {
			return err
		}
	}
	return nil
}
