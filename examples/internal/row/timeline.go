package row

import (
	"bytes"
	"fmt"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/memory/report"
)

// Lane is a line of a timeline: what one part of a program did, and when.
type Lane struct {
	Name  string
	Spans []Span
}

// Span is a piece of time, in milliseconds.
type Span struct {
	From, To float64
	Kind     memory.Kind // gives the colour that bytes of that kind have in charts
	Text     string      // is written into it, if it has room
}

// Timeline draws lanes as a PNG at path, the first on top, over a common axis of milliseconds, and a legend of the kinds that
// occur, memory.Other left out.
func Timeline(path, title string, lanes []Lane) error {
	if len(lanes) == 0 {
		return fmt.Errorf("row: timeline %s: no lanes", path)
	}
	l := legend{kinds: kindsOf(lanes)}
	height := max(vg.Length(len(lanes))*rowHeight, l.height()) + frameHeight
	img := vgimg.NewWith(vgimg.UseWH(chartWidth, height), vgimg.UseDPI(chartDPI))
	canvas := draw.Crop(draw.New(img), margin, -margin, margin, -margin)
	newTimeline(title, lanes).Draw(draw.Crop(canvas, 0, -legendWidth, 0, 0))
	l.draw(draw.Crop(canvas, canvas.Max.X-canvas.Min.X-legendWidth+2*margin, 0, 0, -0.4*vg.Inch))
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(&b); err != nil {
		return fmt.Errorf("row: timeline %s: %w", path, err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("row: timeline: %w", err)
	}
	return nil
}

// newTimeline is the frame of a chart with another axis, and lanes in it.
func newTimeline(title string, lanes []Lane) *plot.Plot {
	var names []Row
	var end float64
	for _, lane := range lanes {
		names = append(names, Row{Name: lane.Name})
		for _, s := range lane.Spans {
			end = max(end, s.To)
		}
	}
	p := newPlot(title, names)
	p.X.Label.Text, p.X.Max = "milliseconds", max(end, 1e-3)
	frame := plot.New()
	frame.Title, frame.X, frame.Y = p.Title, p.X, p.Y
	frame.Add(&spans{lanes})
	return frame
}

// spans draws lanes within the frame, lane 0 on top.
type spans struct{ lanes []Lane }

// Plot draws the rails of the axis, then lane after lane.
func (t *spans) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, tick := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(draw.LineStyle{Color: rail, Width: 0.7}, toX(tick.Value), c.Min.Y, toX(tick.Value), c.Max.Y)
	}
	for i, lane := range t.lanes {
		y := toY(float64(len(t.lanes) - 1 - i))
		for _, s := range lane.Spans {
			s.draw(&c, toX(s.From), toX(s.To), y)
		}
	}
}

func (s *Span) draw(c *draw.Canvas, from, to, y vg.Length) {
	c.FillPolygon(report.Color(s.Kind), rect(from, y-barHeight/2, max(to, from+0.2), y+barHeight/2))
	style := label(textSize, ink, draw.XCenter)
	if s.Text != "" && style.Width(s.Text) < to-from {
		c.FillText(style, vg.Point{X: (from + to) / 2, Y: y + baseline}, s.Text)
	}
}

// kindsOf lists the kinds of the spans in their order.
func kindsOf(lanes []Lane) (list []memory.Kind) {
	var seen [memory.NumKinds]bool
	for _, lane := range lanes {
		for _, s := range lane.Spans {
			seen[s.Kind] = true
		}
	}
	for _, k := range memory.Kinds() {
		if seen[k] && k != memory.Other {
			list = append(list, k)
		}
	}
	return list
}
