package row

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Panel is a picture with lines in it, all over the same axis.
type Panel struct {
	Title string // with the unit: "peak, MiB"
	Lines []Line
	Zoom  bool // the axis begins at the lowest value instead of 0
}

// Line is a name and its values, one for each mark on the axis.
type Line struct {
	Name string
	Y    []float64
}

// lineColor are colours that differ for people with any kind of colour blindness: Tol's "bright" palette (see report.Color).
var lineColor = []color.RGBA{
	{0x44, 0x77, 0xaa, 0xff}, {0xee, 0x66, 0x77, 0xff}, {0x22, 0x88, 0x33, 0xff}, {0xcc, 0xbb, 0x44, 0xff},
	{0x66, 0xcc, 0xee, 0xff}, {0xaa, 0x33, 0x77, 0xff}, {0xbb, 0xbb, 0xbb, 0xff},
}

// Lines draws panels side by side as a PNG at path, over one axis of the given name and marks. A line keeps its colour and
// the shape of its points in all panels.
func Lines(path, axis string, marks []int, panels []Panel) error {
	if len(panels) == 0 || len(marks) == 0 {
		return fmt.Errorf("row: chart %s: no lines", path)
	}
	img := vgimg.NewWith(vgimg.UseWH(chartWidth, 4*vg.Inch), vgimg.UseDPI(chartDPI))
	canvas := draw.Crop(draw.New(img), margin, -margin, margin, -margin)
	width := (canvas.Max.X - canvas.Min.X) / vg.Length(len(panels))
	for i, p := range panels {
		pl, err := p.plot(axis, marks)
		if err != nil {
			return fmt.Errorf("row: chart %s: %w", path, err)
		}
		left := vg.Length(i) * width
		pl.Draw(draw.Crop(canvas, left+margin, -(canvas.Max.X - canvas.Min.X - left - width), 0, 0))
	}
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(&b); err != nil {
		return fmt.Errorf("row: chart %s: %w", path, err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("row: chart: %w", err)
	}
	return nil
}

func (p Panel) plot(axis string, marks []int) (*plot.Plot, error) {
	pl := plot.New()
	pl.Title.Text, pl.Title.TextStyle, pl.Title.Padding = p.Title, label(12, ink, draw.XCenter), margin
	pl.Title.TextStyle.YAlign = draw.YTop
	pl.X.Label.Text, pl.X.Label.TextStyle = axis, label(textSize, soft, draw.XCenter)
	pl.X.Label.TextStyle.YAlign = draw.YBottom
	pl.X.Tick.Label, pl.Y.Tick.Label = label(textSize, soft, draw.XCenter), label(textSize, soft, draw.XRight)
	pl.X.Tick.Label.YAlign = draw.YTop
	pl.X.Tick.Marker, pl.Y.Tick.Marker = ticks(marks), majors{}
	pl.Legend.Top, pl.Legend.Left = true, !p.falls()
	pl.Legend.TextStyle, pl.Legend.Padding = label(textSize, ink, draw.XLeft), 5
	for i, l := range p.Lines {
		if len(l.Y) != len(marks) {
			return nil, fmt.Errorf("line %q has %d values: want %d", l.Name, len(l.Y), len(marks))
		}
		points := make(plotter.XYs, len(marks))
		for k := range points {
			points[k] = plotter.XY{X: float64(marks[k]), Y: l.Y[k]}
		}
		line, glyphs, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = lineColor[i%len(lineColor)], 1.5
		glyphs.Color, glyphs.Shape = line.Color, plotterShapes[i%len(plotterShapes)]
		if len(marks) > fewMarks {
			pl.Add(line)
			pl.Legend.Add(l.Name, line)
			continue
		}
		pl.Add(line, glyphs)
		pl.Legend.Add(l.Name, line, glyphs)
	}
	if !p.Zoom {
		pl.Y.Min = 0
	}
	return pl, nil
}

// fewMarks are so few that each has its number, and each value its point.
const fewMarks = 12

// ticks numbers the marks, or where they are many, round numbers.
func ticks(marks []int) plot.Ticker {
	if len(marks) > fewMarks {
		return majors{}
	}
	var list []plot.Tick
	for _, m := range marks {
		list = append(list, plot.Tick{Value: float64(m), Label: strconv.Itoa(m)})
	}
	return plot.ConstantTicks(list)
}

// falls tells that the lines begin high: then the legend is on the right.
func (p Panel) falls() bool {
	return len(p.Lines) > 0 && len(p.Lines[0].Y) > 0 && p.Lines[0].Y[0] > p.Lines[0].Y[len(p.Lines[0].Y)-1]
}

var plotterShapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}, draw.PlusGlyph{}, draw.BoxGlyph{}}
