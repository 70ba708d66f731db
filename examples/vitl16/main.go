// Vitl16 is the best known memory ladder at its real size: ViT-L/16, 303 million parameters, on images of 224 x 224 in
// batches of 64, from 26.84 GB down (Sebastian Raschka, "Optimizing Memory Usage for Training LLMs and Vision Transformers in
// PyTorch", 2023), beside what the same training takes here, to the byte, by dry runs: seconds, and no memory. Then further.
//
//	go run ./examples/vitl16                     the tables; draws vitl16.png
//	go run ./examples/vitl16 -real none          without the real steps: a few seconds
//	go run ./examples/vitl16 -rung per-block     one rung
//
// The smallest rungs, as many as memory at hand and -for allow, take a real step too, of two micro-batches, each in a process
// of its own: it confirms the dry run. The published figures are what PyTorch had reserved on one GPU (max_memory_reserved); beside
// them stands the arena, what must fit. Both are in GB of 1e9 bytes.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func main() {
	row.ServeChild(serve)
	row.Main(vitl16)
}

// serve takes one rung's real step in the child process.
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
	Published  *int64     `json:"published_bytes"` // null: the article has no such rung
	Parameters int64      `json:"parameters"`
	Batch      int        `json:"batch"`        // images an update
	Micro      int        `json:"micro_batch"`  // images at a time
	Micros     int        `json:"real_micros"`  // micro-batches of the real step; 0: there was none
	Image      row.Number `json:"ms_per_image"` // of the real step

	planned int64 // the dry run's arena
}

// options are the flags that stay in the parent.
type options struct {
	settings
	json   bool
	chart  string
	real   string
	memory float64       // GB
	time   time.Duration // for real steps
}

var reals = []string{"fit", "none", "all"}

func parse(args []string, errw io.Writer) (o options, err error) {
	f := flag.NewFlagSet("vitl16", flag.ContinueOnError)
	f.SetOutput(errw)
	f.BoolVar(&o.json, "json", false, "print the rows as JSON on standard output, and nothing else there")
	f.StringVar(&o.chart, "chart", "vitl16.png", "where to draw the chart; empty: nowhere")
	f.StringVar(&o.Rung, "rung", "", "this rung only")
	f.StringVar(&o.real, "real", reals[0], "which rungs take a real step: fit (what memory and -for allow, the smallest first), none or all")
	f.DurationVar(&o.time, "for", time.Minute, "no real step starts after this time")
	f.Float64Var(&o.memory, "memory", 0, "GB at hand for real steps (default: what the system says, else 4)")
	f.StringVar(&o.Dir, "dir", "", "folder for the files (default: the system's for temporary files, which should not be in memory)")
	f.IntVar(&o.Image, "image", article.Image, "height and width, a multiple of 16")
	f.IntVar(&o.Dim, "dim", article.Dim, "channels, a multiple of 64")
	f.IntVar(&o.Layers, "layers", article.Layers, "blocks")
	f.Uint64Var(&o.Seed, "seed", 1, "of weights and images")
	f.IntVar(&o.Threads, "threads", 0, "workers (default: all processors)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, o.check(f.Args())
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("vitl16: argument %q: want flags only, see -help", rest[0])
	case !slices.Contains(reals, o.real):
		return fmt.Errorf("vitl16: real %q: want fit, none or all", o.real)
	case o.Image < patch || o.Image%patch != 0:
		return fmt.Errorf("vitl16: image %d: want a multiple of %d, the size of a patch", o.Image, patch)
	case o.Dim < head || o.Dim%head != 0:
		return fmt.Errorf("vitl16: dim %d: want a multiple of %d, the size of a head", o.Dim, head)
	case o.Layers < 1 || o.Threads < 0 || !(o.memory >= 0):
		return fmt.Errorf("vitl16: layers %d, threads %d, memory %g: want positive numbers", o.Layers, o.Threads, o.memory)
	case o.Rung != "":
		_, err := find(o.Rung)
		return err
	}
	return nil
}

// vitl16 runs the program.
func vitl16(ctx context.Context, args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	if err != nil {
		return err
	}
	rows, err := climb(ctx, o, errw)
	if err != nil {
		return err
	}
	if err := show(out, o, rows); err != nil || o.chart == "" {
		return err
	}
	if err := row.Chart(o.chart, "Peak memory of one training step, ViT-L/16 on 224 x 224", bars(rows)); err != nil {
		return err
	}
	fmt.Fprintf(errw, "chart: %s\n", o.chart)
	return nil
}

// climb predicts all rungs, then takes the real steps.
func climb(ctx context.Context, o options, errw io.Writer) (rows []figures, err error) {
	for _, r := range all() {
		if o.Rung != "" && r.name != o.Rung {
			continue
		}
		f, err := predict(o.settings, r)
		if err != nil {
			return nil, err
		}
		rows = append(rows, f)
	}
	var real []*figures
	for i := range rows {
		if o.takes(&rows[i]) {
			real = append(real, &rows[i])
		}
	}
	slices.SortFunc(real, func(a, b *figures) int { return cmp.Compare(a.planned, b.planned) })
	p, start := row.NewProgress(errw, len(real)), time.Now()
	for _, f := range real {
		if o.real == "fit" && time.Since(start) > o.time {
			break
		}
		if err := f.confirm(ctx, o.settings, p); err != nil {
			return nil, err
		}
		p.Done(f.Row)
	}
	return rows, nil
}

const (
	longest = 1e12 // floating-point operations of a real step: some ten seconds on two cores
	unknown = 4    // GB at hand where the system does not tell
)

// takes tells whether a rung may take a real step.
func (o options) takes(f *figures) bool {
	if o.real != "fit" {
		return o.real == "all"
	}
	side := float64(o.Image / patch)
	images := float64(f.Micro * min(2, f.Batch/f.Micro))
	return 6*float64(f.Parameters)*(side*side+1)*images <= longest && float64(f.planned) <= 0.75*o.atHand()
}

// atHand is the memory for real steps, in bytes.
func (o options) atHand() float64 {
	n, known := row.Available()
	switch {
	case o.memory > 0:
		return o.memory * 1e9
	case known:
		return float64(n)
	}
	return unknown * 1e9
}

// confirm takes the real step in a fresh process.
func (f *figures) confirm(ctx context.Context, c settings, p *row.Progress) error {
	c.Rung = f.Name
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	var m measured
	p.Start(f.Name, 0)
	if err := row.RunChild(ctx, string(config), &m, p); err != nil {
		return err
	}
	f.Measure(m.Stats)
	f.RSS, f.Loss, f.Image, f.Micros, f.Steps = m.RSS, m.Loss, m.Image, m.Micros, 1
	return f.Check()
}

func show(out io.Writer, o options, rows []figures) error {
	if o.json {
		return row.WriteJSON(out, rows)
	}
	fmt.Fprintf(out, "vision transformer, %d parameters, images of %d x %d; %s\n", rows[0].Parameters, o.Image, o.Image, thimble.Features())
	for _, t := range tables {
		list := t.pick(rows)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s:\n\n", t.title)
		if err := row.Table(out, plain(list), columns(list, rows[0].planned)...); err != nil {
			return err
		}
		fmt.Fprintln(out)
		for _, r := range t.rungs {
			if slices.ContainsFunc(list, func(f figures) bool { return f.Name == r.name }) {
				fmt.Fprintf(out, "%s: %s\n", r.name, r.what)
			}
		}
	}
	return nil
}

// pick gives the rows of a table, behind the baseline if there is one.
func (t table) pick(rows []figures) (list []figures) {
	for _, r := range t.rungs {
		if i := slices.IndexFunc(rows, func(f figures) bool { return f.Name == r.name }); i >= 0 {
			list = append(list, rows[i])
		}
	}
	if base := tables[0].rungs[0].name; len(list) > 0 && rows[0].Name == base && list[0].Name != base {
		list = append([]figures{rows[0]}, list...)
	}
	return list
}

// columns are what the table shows beside those that all examples have. Comparisons are of arenas by dry runs.
func columns(list []figures, base int64) []row.Column {
	gb := func(n int64) row.Number { return row.Num(float64(n) / 1e9) }
	published := func(i int) float64 {
		if p := list[i].Published; p != nil {
			return float64(*p)
		}
		return math.NaN()
	}
	return []row.Column{
		{Head: "ms/image", Cell: func(i int) string { return list[i].Image.Format(0, "") }},
		{Head: "GB", Cell: func(i int) string { return gb(list[i].planned).Format(3, "") }},
		{Head: "published", Cell: func(i int) string { return row.Num(published(i)/1e9).Format(2, "") }},
		{Head: "of theirs", Cell: func(i int) string { return row.Num(100*float64(list[i].planned)/published(i)).Format(0, "%") }},
		{Head: "less", Cell: func(i int) string { return row.Num(float64(base)/float64(list[i].planned)).Format(1, "x") }},
	}
}

func plain(rows []figures) (list []row.Row) {
	for _, f := range rows {
		list = append(list, f.Row)
	}
	return list
}

// bars are the rows with the published figures between them.
func bars(rows []figures) (list []row.Row) {
	for _, f := range rows {
		f.Note = "" // too long for a picture
		list = append(list, f.Row)
		if f.Published == nil {
			continue
		}
		p := row.Row{Name: "published"}
		p.Measure(memory.Stats{Peak: *f.Published, ArenaPeak: *f.Published, PeakByKind: [memory.NumKinds]int64{memory.Other: *f.Published}})
		list = append(list, p)
	}
	return list
}
