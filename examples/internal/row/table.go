package row

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/thimble-ml/thimble/memory"
)

// Column is a column that an example adds to the table of its figures.
type Column[F Figures] struct {
	Head string
	Cell func(f F) string
}

// Table writes rows for people to read: the figures, then the peak of each row in its kinds, then the notes. "of base"
// is the peak in percent of the first row's; "diff" is the predicted minus the measured peak. A column without a figure in
// any row is left out.
func Table[F Figures](w io.Writer, list []F, more ...Column[F]) error {
	if len(list) == 0 {
		return nil
	}
	rows := Plain(list)
	marks, notes := footnotes(rows)
	g := figures(rows, marks)
	for _, c := range more {
		g[0] = append(g[0], c.Head)
		for i, f := range list {
			g[i+1] = append(g[i+1], c.Cell(f))
		}
	}
	_, err := fmt.Fprintf(w, "%s\npeak by kind\n%s%s", g.filled(), kinds(rows, marks), notes)
	return err
}

// figures are the columns that all examples have.
func figures(rows []Row, marks []string) grid {
	g := grid{{"name", "predicted", "measured", "diff", "of base", "arena", "rss", "ms/step", "loss", "accuracy"}}
	for i := range rows {
		line := rows[i].cells(&rows[0])
		line[0] += marks[i]
		g = append(g, line)
	}
	return g
}

func (r *Row) cells(base *Row) []string {
	diff := "-"
	if r.PredictedPeak != nil && r.MeasuredPeak != nil {
		diff = Bytes(*r.PredictedPeak - *r.MeasuredPeak)
	}
	acc := r.Accuracy
	acc.v *= 100
	return []string{r.Name, maybe(r.PredictedPeak), maybe(r.MeasuredPeak), diff, r.share(base).Format(1, "%"),
		maybe(r.Arena), maybe(r.RSS), r.StepMS.Format(2, ""), r.Loss.Format(4, ""), acc.Format(2, "%")}
}

// share returns the peak in percent of base's.
func (r *Row) share(base *Row) Number {
	return Num(100 * float64(r.Peak()) / float64(base.Peak()))
}

// kinds is the table of the peaks' parts: a column for each kind that occurs.
func kinds(rows []Row, marks []string) string {
	g := make(grid, len(rows)+1)
	g[0] = []string{"name"}
	for i, r := range rows {
		g[i+1] = []string{r.Name + marks[i]}
	}
	for _, k := range present(rows) {
		g[0] = append(g[0], k.String())
		for i, r := range rows {
			cell := "-"
			if r.ByKind[k] != 0 {
				cell = Bytes(r.ByKind[k])
			}
			g[i+1] = append(g[i+1], cell)
		}
	}
	return g.String()
}

// present returns the kinds that occur in any row.
func present(rows []Row) []memory.Kind {
	return slices.DeleteFunc(memory.Kinds(), func(k memory.Kind) bool {
		return !slices.ContainsFunc(rows, func(r Row) bool { return r.ByKind[k] != 0 })
	})
}

// footnotes returns a mark for each row's name and the lines that explain the marks. Equal notes share a mark.
func footnotes(rows []Row) (marks []string, lines string) {
	var notes []string
	for _, r := range rows {
		if r.Note == "" {
			marks = append(marks, "")
			continue
		}
		at := slices.Index(notes, r.Note)
		if at < 0 {
			at = len(notes)
			notes = append(notes, r.Note)
			lines += fmt.Sprintf("\n[%d] %s", at+1, r.Note)
		}
		marks = append(marks, fmt.Sprintf(" [%d]", at+1))
	}
	if lines != "" {
		lines += "\n"
	}
	return marks, lines
}

// grid is a table of cells; the first line is its head. The first column is set to the left, the others to the right.
type grid [][]string

// filled is g without the columns that say nothing in any line.
func (g grid) filled() grid {
	for i := len(g[0]) - 1; i >= 0; i-- {
		if slices.ContainsFunc(g[1:], func(line []string) bool { return line[i] != "-" }) {
			continue
		}
		for n := range g {
			g[n] = slices.Delete(g[n], i, i+1)
		}
	}
	return g
}

func (g grid) String() string {
	width := make([]int, len(g[0]))
	for _, line := range g {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, line := range g {
		for i, cell := range line {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString(cell + pad)
			} else {
				b.WriteString("  " + pad + cell)
			}
		}
		b.WriteByte('\n')
		if n == 0 {
			b.WriteString(rule(width))
		}
	}
	return b.String()
}

func rule(width []int) string {
	parts := make([]string, len(width))
	for i, n := range width {
		parts[i] = strings.Repeat("-", n)
	}
	return strings.Join(parts, "  ") + "\n"
}
