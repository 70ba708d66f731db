package main

import (
	"fmt"
	"io"
	"math"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func show(out io.Writer, o options, rows []figures) error {
	if o.json {
		return row.WriteJSON(out, rows)
	}
	fmt.Fprintf(out, "GPT of %d blocks of %d channels, %d sequences of %d bytes an update; %s\n\n", o.Layers, o.Dim, o.Batch, o.Context, thimble.Features())
	err := row.Table(out, rows,
		row.Column[figures]{Head: "first loss", Cell: func(f figures) string { return f.LossFirst.Format(4, "") }},
		row.Column[figures]{Head: fmt.Sprintf("last %d", ending), Cell: func(f figures) string { return f.LossLast.Format(4, "") }},
		row.Column[figures]{Head: "against first", Cell: func(f figures) string { return against(f, rows[0]) }},
		row.Column[figures]{Head: "skipped", Cell: func(f figures) string { return fmt.Sprint(f.Skipped) }})
	if err != nil {
		return err
	}
	base := rows[0].ByKind[memory.Activation]
	fmt.Fprintln(out)
	for _, f := range rows[1:] {
		fmt.Fprintf(out, "%s: activations %.2f times smaller\n", f.Name, float64(base)/float64(f.ByKind[memory.Activation]))
	}
	return nil
}

// against is how far the last losses are from the base's, in percent.
func against(f, base figures) string {
	a, ok := f.LossLast.Value()
	b, both := base.LossLast.Value()
	if !ok || !both {
		return "-"
	}
	return fmt.Sprintf("%+.2f%%", 100*(a-b)/b)
}

// draw draws the losses, each the mean of some updates before it, and the scale beside them.
func draw(path string, rows []figures) error {
	const points, over = 250, 20
	losses, scale := row.Panel{Title: "loss, nats a byte, means of 20 updates", Zoom: true}, row.Panel{Title: "scale of the loss, as a power of 2", Zoom: true}
	var marks []int
	steps := len(rows[0].Losses)
	every := (steps + points - 1) / points
	for at := every; at <= steps; at += every {
		marks = append(marks, at)
	}
	for _, f := range rows {
		if _, ok := f.LossLast.Value(); !ok {
			continue
		}
		losses.Lines = append(losses.Lines, f.line(marks, func(at int) float64 {
			v, _ := mean(f.Losses[max(0, at-over):at]).Value()
			return v
		}))
		if f.Scales[0] != 1 {
			scale.Lines = append(scale.Lines, f.line(marks, func(at int) float64 { return math.Log2(f.Scales[at-1]) }))
		}
	}
	panels := []row.Panel{losses}
	if len(scale.Lines) > 0 {
		panels = append(panels, scale)
	}
	return row.Lines(path, "updates", marks, panels)
}

func (f figures) line(marks []int, y func(at int) float64) row.Line {
	l := row.Line{Name: f.Name}
	for _, at := range marks {
		l.Y = append(l.Y, y(at))
	}
	return l
}
