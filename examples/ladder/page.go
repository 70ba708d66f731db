package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"os"
	"path/filepath"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory/report"
)

// The page of -html: the tables, the chart, and a step of the baseline and of the last rung to explore.

// records tells which rungs leave a recording of one step for the page, and where.
type records struct {
	dir   string            // "": none do
	names []string          // of the rungs
	files map[string]string // of those that have run
}

// newRecords makes the folder, if there is a page. Whoever calls it removes the folder.
func newRecords(o options, shown []table) (r records, err error) {
	if o.html == "" {
		return r, nil
	}
	first := shown[0].rungs
	r.names, r.files = []string{first[0].name}, map[string]string{}
	if n := len(first); n > 1 {
		r.names = append(r.names, first[n-1].name)
	}
	r.dir, err = os.MkdirTemp("", "thimble-ladder-")
	return r, err
}

// file is where a training leaves its recording; "" if it leaves none.
func (r records) file(name string) string {
	for _, want := range r.names {
		if name == want && r.files[name] == "" {
			r.files[name] = filepath.Join(r.dir, name+".gob")
			return r.files[name]
		}
	}
	return ""
}

// write writes the page.
func (r records) write(path string, o options, done []climbed) error {
	var text bytes.Buffer
	if err := tell(&text, o, done); err != nil {
		return err
	}
	chart := filepath.Join(r.dir, "chart.png")
	if err := draw(chart, o, done); err != nil {
		return err
	}
	png, err := os.ReadFile(chart)
	if err != nil {
		return err
	}
	page := report.Page{
		Title: "Peak memory of one training step, technique by technique",
		Lead:  titles[o.Model] + ". Predicted by dry runs, then measured; to the byte.",
		Sections: []report.Section{
			{PNG: png},
			{Title: "Figures", Pre: text.String()},
		},
	}
	for _, name := range r.names {
		rec, err := load(r.files[name])
		if err != nil {
			return err
		}
		page.Sections = append(page.Sections, report.Section{Title: "A step of " + name, Recording: rec})
	}
	var html bytes.Buffer
	if err := report.WriteHTML(&html, page); err != nil {
		return err
	}
	return os.WriteFile(path, html.Bytes(), 0o644)
}

// record leaves a recording of one more update, which runs dry, if there is to be one: its events are those of a real one.
func (j *job) record(ctx context.Context) (err error) {
	if j.Record == "" {
		return nil
	}
	if j.epoch, err = j.loader.Open(ctx, 0); err != nil {
		return err
	}
	defer j.epoch.Close()
	rec := report.Recording{Device: j.dev.Name(), Held: j.dev.Holders()}
	plan, err := j.sess.Plan(j.update, autograd.PlanConfig{Steps: 1, Events: true})
	if err != nil {
		return err
	}
	rec.Events, rec.Predicted = plan.Steps[0].Events, plan.Peak()
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(rec); err != nil {
		return err
	}
	return os.WriteFile(j.Record, b.Bytes(), 0o600)
}

// load reads what record wrote.
func load(file string) (*report.Recording, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	rec := new(report.Recording)
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(rec); err != nil {
		return nil, fmt.Errorf("ladder: recording %s: %w", file, err)
	}
	return rec, nil
}
