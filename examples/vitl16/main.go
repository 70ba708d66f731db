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
	row.ServeChild(run)
	row.Main(vitl16)
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
	f := row.NewFlags("vitl16", errw)
	f.JSON(&o.json)
	f.Chart(&o.chart, "vitl16.png")
	f.OneOf(&o.Rung, "rung", "", row.Names(all()), "this rung only")
	f.OneOf(&o.real, "real", reals[0], reals, "which rungs take a real step (fit: what memory and -for allow, the smallest first)")
	f.DurationVar(&o.time, "for", time.Minute, "no real step starts after this time")
	f.Float64Var(&o.memory, "memory", 0, "GB at hand for real steps (default: what the system says, else 4)")
	f.Folder(&o.Dir, "dir", "folder for the files (default: the system's for temporary files, which should not be in memory)")
	f.Multiple(&o.Image, "image", article.Image, patch, "height and width")
	f.Multiple(&o.Dim, "dim", article.Dim, head, "channels")
	f.Int(&o.Layers, "layers", article.Layers, 1, "blocks")
	f.Run(&o.Seed, "weights and images", &o.Threads)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if !(o.memory >= 0) {
		return o, fmt.Errorf("vitl16: -memory %g: want GB, or 0 for what the system says", o.memory)
	}
	return o, nil
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
	if err := show(out, o, rows); err != nil {
		return err
	}
	return row.Draw(errw, "chart", o.chart, func(path string) error {
		return row.Chart(path, "Peak memory of one training step, ViT-L/16 on 224 x 224", bars(rows))
	})
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
	var m measured
	p.Start(f.Name, 0)
	if err := row.RunChild(ctx, p, f.Name, c, &m); err != nil {
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
		if err := row.Table(out, list, columns(rows[0].planned)...); err != nil {
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
func columns(base int64) []row.Column[figures] {
	gb := func(n float64) row.Number { return row.Num(n / 1e9) }
	return []row.Column[figures]{
		{Head: "ms/image", Cell: func(f figures) string { return f.Image.Format(0, "") }},
		{Head: "GB", Cell: func(f figures) string { return gb(float64(f.planned)).Format(3, "") }},
		{Head: "published", Cell: func(f figures) string { return gb(f.published()).Format(2, "") }},
		{Head: "of theirs", Cell: func(f figures) string { return row.Num(100*float64(f.planned)/f.published()).Format(0, "%") }},
		{Head: "less", Cell: func(f figures) string { return row.Num(float64(base)/float64(f.planned)).Format(1, "x") }},
	}
}

// published is what the article measured, or not a number.
func (f figures) published() float64 {
	if f.Published == nil {
		return math.NaN()
	}
	return float64(*f.Published)
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
