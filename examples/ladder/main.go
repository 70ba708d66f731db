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
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() {
	row.ServeChild(run)
	row.Main(ladder)
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
	given []string // flags that decide what a row shows, as they were given
}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := row.NewFlags("ladder", errw)
	f.BoolVar(&o.quick, "quick", false, "3 steps a rung of the first table: peaks and loss, no accuracy")
	f.JSON(&o.json)
	f.OneOf(&o.table, "table", "", tableNames, "show this table only (the first is the default of -json)")
	f.Chart(&o.chart, "ladder.png")
	f.File(&o.html, "html", "", "write a page for the browser: tables, chart, and a step of the first and the last row to explore")
	f.StringVar(&o.Rung, "rung", "", "run this rung only; with -table, as that table does")
	f.OneOf(&o.Model, "model", models[0], models, "what is trained")
	f.StringVar(&o.Data, "data", "", "folder of IDX files, for gpt a file or folder of text (default: MNIST from the Go module cache, Go's own source)")
	f.Int(&o.Batch, "batch", 0, 0, "examples an update (default: the model's)")
	f.Int(&o.Hidden, "hidden", 512, 1, "width of the MLP's hidden layers")
	f.Int(&o.Steps, "steps", 0, 0, "updates a rung, without accuracy (default: the model's, with it)")
	f.Int(&o.Epochs, "epochs", 0, 0, "train for so many epochs, with accuracy")
	f.Int(&o.seeds, "seeds", 0, 0, "trainings a rung of the ladder, for the spread of the accuracy (default: 3, with -steps or -quick 1)")
	f.Run(&o.Seed, "weights and batches; further ones are those behind it", &o.Threads)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	f.Visit(func(g *flag.Flag) {
		if !slices.Contains([]string{"table", "rung", "json", "chart", "html"}, g.Name) {
			o.given = append(o.given, asGiven(g))
		}
	})
	if o.quick {
		o.Steps = cmp.Or(o.Steps, 3)
	}
	if o.Accuracy = o.Steps == 0; o.Accuracy {
		o.seeds = cmp.Or(o.seeds, 3)
	}
	o.seeds = cmp.Or(o.seeds, 1)
	return o, nil
}

// ladder runs the rungs and shows them.
func ladder(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err != nil {
		return err
	}
	shown, err := o.tables()
	if err != nil {
		return err
	}
	if err := o.divides(shown); err != nil {
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
	err = row.Draw(errw, "chart", o.chart, func(path string) error { return draw(path, o, done) })
	if err != nil {
		return err
	}
	return row.Draw(errw, "page", o.html, func(path string) error { return keep.write(path, o, done) })
}

// tables gives what to run and show: for programs and for the hasty one table, for people all.
func (o options) tables() ([]table, error) {
	switch {
	case o.Rung != "":
		return o.oneRung()
	case o.table != "" || o.json || o.quick:
		t, err := findTable(o.Model, cmp.Or(o.table, tableNames[0]))
		return []table{t}, err
	}
	return tablesFor(o.Model), nil
}

// oneRung gives a table of one rung, as the table of -table has it.
func (o options) oneRung() ([]table, error) {
	r, err := findRung(o.Model, o.Rung)
	if err != nil || o.table == "" {
		return []table{{title: "one rung", rungs: []rung{r}}}, err
	}
	t, err := findTable(o.Model, o.table)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(t.rungs, func(k rung) bool { return k.name == o.Rung })
	if i < 0 {
		return nil, fmt.Errorf("ladder: rung %q: -table %s has none of that name, without -table it is there", o.Rung, o.table)
	}
	one := table{title: "one rung", brief: t.brief, rungs: t.rungs[i : i+1]}
	if t.brief {
		one.name = t.name
	}
	return []table{one}, nil
}

// asGiven is how a flag that was given looks on a command line.
func asGiven(g *flag.Flag) string {
	v := g.Value.String()
	switch {
	case v == "true":
		return "-" + g.Name
	case v == "false":
		return "-" + g.Name + "=false"
	case v == "" || strings.ContainsFunc(v, func(c rune) bool { return c <= ' ' || strings.ContainsRune("'\"\\$&|;<>()*?[]#~`!", c) }):
		v = "'" + strings.ReplaceAll(v, "'", `'\''`) + "'"
	}
	return "-" + g.Name + " " + v
}

// divides is an error if a rung cannot cut the batch into its micro-batches: better told before the others have run.
func (o options) divides(shown []table) error {
	for _, t := range shown {
		for _, r := range t.rungs {
			if o.Batch%r.micro != 0 {
				return fmt.Errorf("ladder: -batch %d: want a multiple of %d, the micro-batches of rung %s", o.Batch, r.micro, r.name)
			}
		}
	}
	return nil
}
