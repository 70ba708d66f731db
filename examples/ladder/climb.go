package main

import (
	"context"
	"io"

	"github.com/thimble-ml/thimble/examples/internal/row"
)

// briefSteps are the updates of a rung in a table that is about memory.
const briefSteps = 10

// result is what a rung came to.
type result struct {
	row.Row
	AccuracyLow  row.Number `json:"accuracy_low"`  // of the seeds, and Accuracy is their mean
	AccuracyHigh row.Number `json:"accuracy_high"` //
	Seeds        int        `json:"seeds"`         // trainings; memory, time and loss are the first's

	rung rung
}

// climbed is a table that has been run.
type climbed struct {
	table
	rows []result
}

// climb runs the rungs of all tables, each training in a fresh process, and none twice.
func climb(ctx context.Context, o options, shown []table, keep records, errw io.Writer) (done []climbed, err error) {
	p := row.NewProgress(errw, trainings(o, shown))
	ran := map[settings]row.Row{}
	for _, t := range shown {
		c := climbed{table: t}
		for _, r := range t.rungs {
			got := result{rung: r}
			for _, s := range o.trainings(t, r) {
				if _, ok := ran[s]; !ok {
					if ran[s], err = measure(ctx, s, keep.file(r.name), p); err != nil {
						return nil, err
					}
				}
				got.add(ran[s])
			}
			c.rows = append(c.rows, got)
		}
		done = append(done, c)
	}
	return done, nil
}

// trainings counts what climb runs.
func trainings(o options, shown []table) int {
	all := map[settings]bool{}
	for _, t := range shown {
		for _, r := range t.rungs {
			for _, s := range o.trainings(t, r) {
				all[s] = true
			}
		}
	}
	return len(all)
}

// trainings are those of a rung in a table: one a seed, one where the bits are known, a brief one where memory is all.
func (o options) trainings(t table, r rung) (list []settings) {
	s := o.settings
	s.Rung = r.name
	if t.brief && s.Steps == 0 {
		s.Steps, s.Epochs, s.Accuracy = briefSteps, 0, false
	}
	for i := range o.seeds {
		if i > 0 && (t.brief || r.kind&exact != 0) {
			break
		}
		list = append(list, s)
		s.Seed++
	}
	return list
}

// measure trains once in a child process, which leaves a recording in the file unless that is "".
func measure(ctx context.Context, s settings, file string, p *row.Progress) (row.Row, error) {
	s.Record = file
	return row.Measure[row.Row](ctx, p, s.Rung, s)
}

// add takes in the training of one more seed.
func (r *result) add(got row.Row) {
	a, ok := got.Accuracy.Value()
	if r.Seeds++; r.Seeds == 1 {
		r.Row, r.AccuracyLow, r.AccuracyHigh = got, got.Accuracy, got.Accuracy
		r.Note = r.rung.note
		return
	}
	if !ok {
		return
	}
	mean, _ := r.Accuracy.Value()
	low, _ := r.AccuracyLow.Value()
	high, _ := r.AccuracyHigh.Value()
	r.Accuracy = row.Num(mean + (a-mean)/float64(r.Seeds))
	r.AccuracyLow, r.AccuracyHigh = row.Num(min(low, a)), row.Num(max(high, a))
}
