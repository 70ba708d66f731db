package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

// show prints the first table as JSON, or all of them for people.
func show(out io.Writer, o options, done []climbed) error {
	if o.json {
		return row.WriteJSON(out, done[0].rows)
	}
	return tell(out, o, done)
}

// tell prints the tables for people.
func tell(out io.Writer, o options, done []climbed) error {
	fmt.Fprintf(out, "%s; %s\n", titles[o.Model], thimble.Features())
	for _, c := range done {
		fmt.Fprintf(out, "\n%s:\n\n", c.title)
		if err := row.Table(out, c.rows, c.columns()...); err != nil {
			return err
		}
		if n := c.rows[0].Seeds; n > 1 {
			fmt.Fprintf(out, "\naccuracy: the mean of %d seeds; without a spread, that of the first, which decides such a row's bits\n", n)
		}
		fmt.Fprintf(out, "\n%s\none row: %s", c.legend(), o.command(c.table))
		if len(done) == 1 && c.name == tableNames[0] {
			fmt.Fprintf(out, "; other tables: -table %s", strings.Join(tableNames[1:], ", -table "))
		}
		fmt.Fprintln(out)
	}
	return nil
}

// draw draws the first table.
func draw(path string, o options, done []climbed) error {
	return row.Chart(path, titles[o.Model]+": peak memory of a training step", done[0].rows)
}

// columns are those that the ladder adds.
func (c climbed) columns() (list []row.Column[result]) {
	if c.name == "stack" {
		list = append(list, row.Column[result]{Head: "of above", Cell: c.ofAbove})
	}
	if c.rows[0].Seeds > 1 {
		list = append(list, row.Column[result]{Head: fmt.Sprintf("%d seeds", c.rows[0].Seeds), Cell: c.spread})
	}
	return list
}

// ofAbove is the peak in percent of the rung's that the row builds on.
func (c climbed) ofAbove(r result) string {
	i := slices.IndexFunc(c.rungs, func(other rung) bool { return other.name == r.rung.name })
	if i == 0 {
		return "-"
	}
	above := under(c.rungs[:i])
	for _, other := range c.rows[:i] {
		if other.rung.name == above.name {
			return fmt.Sprintf("%.1f%%", 100*float64(r.Peak())/float64(other.Peak()))
		}
	}
	return "-"
}

// spread is the lowest and the highest accuracy of the seeds. A rung that is exact has had one: it has those of the rung
// that it is added to.
func (c climbed) spread(r result) string {
	low, ok := r.AccuracyLow.Value()
	high, _ := r.AccuracyHigh.Value()
	if !ok || r.Seeds == 1 {
		return "-"
	}
	return fmt.Sprintf("%.2f to %.2f%%", 100*low, 100*high)
}

// legend says what each row is.
func (c climbed) legend() string {
	var b strings.Builder
	for i, r := range c.rungs {
		what := r.what
		switch {
		case r.kind&side != 0:
			what += " (beside the ladder: no row builds on it)"
		case i > 0 && c.name == "stack":
			what = "and " + what
		}
		fmt.Fprintf(&b, "%-*s  %s\n", c.width(), r.name, what)
	}
	return b.String()
}

func (c climbed) width() (n int) {
	for _, r := range c.rungs {
		n = max(n, len(r.name))
	}
	return n
}

// command gives a row of t again, as it is shown.
func (o options) command(t table) string {
	words := append([]string{"go run ./examples/ladder"}, o.given...)
	if t.brief {
		words = append(words, "-table", t.name)
	}
	name := "NAME"
	if len(t.rungs) == 1 {
		name = t.rungs[0].name
	}
	return strings.Join(append(words, "-rung", name), " ")
}
