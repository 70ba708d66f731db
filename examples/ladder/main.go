// Ladder trains the same network under one memory technique after another and shows how the peak falls: what
// the dry run predicted, what the run took, the split by kind, the resident set of a fresh process, time, loss,
// accuracy.
//
//	go run ./examples/ladder -quick     3 steps a rung
//	go run ./examples/ladder            some hundred steps a rung with three seeds, and accuracy
//
// Without -quick, other tables show techniques one by one, and what the library's defaults are worth. It draws ladder.png.
// Each rung runs in a process of its own.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

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
	html  string
	seeds int
	quick bool
}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := flag.NewFlagSet("ladder", flag.ContinueOnError)
	f.SetOutput(errw)
	f.BoolVar(&o.quick, "quick", false, "3 steps a rung of the first table: peaks and loss, no accuracy")
	f.BoolVar(&o.json, "json", false, "print the rows as JSON on standard output, and nothing else there")
	f.StringVar(&o.table, "table", "", "show this table only: "+strings.Join(tableNames, ", ")+" (the first is the default of -json)")
	f.StringVar(&o.chart, "chart", "ladder.png", "where to draw the chart; empty: nowhere")
	f.StringVar(&o.html, "html", "", "write a page for the browser: tables, chart, and a step of the first and the last row to explore")
	f.StringVar(&o.Rung, "rung", "", "run this rung only")
	f.StringVar(&o.Model, "model", models[0], "what is trained: "+strings.Join(models, ", "))
	f.StringVar(&o.Data, "data", "", "folder of IDX files, for gpt a file or folder of text (default: MNIST from the Go module cache, Go's own source)")
	f.IntVar(&o.Batch, "batch", 0, "examples an update (default: the model's)")
	f.IntVar(&o.Hidden, "hidden", 512, "width of the MLP's hidden layers")
	f.IntVar(&o.Steps, "steps", 0, "updates a rung, without accuracy (default: the model's, with it)")
	f.IntVar(&o.Epochs, "epochs", 0, "train for so many epochs, with accuracy")
	f.IntVar(&o.seeds, "seeds", 0, "trainings a rung of the ladder, for the spread of the accuracy (default: 3, with -steps or -quick 1)")
	f.Uint64Var(&o.Seed, "seed", 1, "of weights and batches; further ones are those behind it")
	f.IntVar(&o.Threads, "threads", 0, "workers (default: all processors)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.quick && o.Steps == 0 {
		o.Steps = 3
	}
	o.Accuracy = o.Steps == 0
	if o.seeds == 0 {
		o.seeds = 1
		if o.Accuracy {
			o.seeds = 3
		}
	}
	return o, o.check(f.Args())
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("ladder: argument %q: want flags only, see -help", rest[0])
	case !slices.Contains(models, o.Model):
		return fmt.Errorf("ladder: model %q: want one of %s", o.Model, strings.Join(models, ", "))
	case o.Steps < 0 || o.Epochs < 0 || o.seeds < 1:
		return fmt.Errorf("ladder: %d steps, %d epochs, %d seeds: want 1 or more", o.Steps, o.Epochs, o.seeds)
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
	keep, err := newRecords(o, shown)
	if err != nil {
		return err
	}
	defer os.RemoveAll(keep.dir)
	done, err := climb(ctx, o, shown, keep, errw)
	if err != nil {
		return err
	}
	if err := show(out, o, done); err != nil {
		return err
	}
	if o.chart != "" {
		if err := draw(o.chart, o, done); err != nil {
			return err
		}
		fmt.Fprintf(errw, "chart: %s\n", o.chart)
	}
	if o.html == "" {
		return nil
	}
	if err := keep.write(o, done); err != nil {
		return err
	}
	fmt.Fprintf(errw, "page: %s\n", o.html)
	return nil
}

// tables gives what to run and show: for programs and for the hasty one table, for people all.
func (o options) tables() ([]table, error) {
	switch {
	case o.Rung != "":
		r, err := findRung(o.Model, o.Rung)
		return []table{{title: "one rung", rungs: []rung{r}}}, err
	case o.table != "" || o.json || o.quick:
		name := o.table
		if name == "" {
			name = tableNames[0]
		}
		t, err := findTable(o.Model, name)
		return []table{t}, err
	}
	return tablesFor(o.Model), nil
}
