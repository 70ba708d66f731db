package row

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

var (
	ink  = color.RGBA{0x22, 0x22, 0x22, 0xff}
	soft = color.RGBA{0x66, 0x66, 0x66, 0xff}
	rail = color.RGBA{0xe2, 0xe2, 0xe2, 0xff}
)

// The measures of the picture; a point is 1/72 inch.
const (
	chartDPI    = 144
	chartWidth  = 9.5 * vg.Inch
	legendWidth = 1.45 * vg.Inch
	rowHeight   = 0.40 * vg.Inch
	barHeight   = 0.24 * vg.Inch
	frameHeight = 0.95 * vg.Inch // title, axis and its label
	margin      = vg.Length(10)
	textSize    = vg.Length(9.5)
)

// Chart draws rows as a PNG at path: a bar for each, the first on top, its peak stacked of its kinds; behind it the
// bytes and their percentage of the first row's; a diamond at the resident set where it is known.
func Chart[F Figures](path, title string, list []F) error {
	rows := Plain(list)
	if len(rows) == 0 {
		return fmt.Errorf("row: chart %s: no rows", path)
	}
	legend := newLegend(rows)
	height := max(vg.Length(len(rows))*rowHeight, legend.height()) + frameHeight
	img := vgimg.NewWith(vgimg.UseWH(chartWidth, height), vgimg.UseDPI(chartDPI))
	canvas := draw.Crop(draw.New(img), margin, -margin, margin, -margin)
	newPlot(title, rows).Draw(draw.Crop(canvas, 0, -legendWidth, 0, 0))
	legend.draw(draw.Crop(canvas, canvas.Max.X-canvas.Min.X-legendWidth+2*margin, 0, 0, -0.4*vg.Inch))

	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(&b); err != nil {
		return fmt.Errorf("row: chart %s: %w", path, err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("row: chart: %w", err)
	}
	return nil
}

// newPlot is the frame around the bars: title, the names to the left, the axis below.
func newPlot(title string, rows []Row) *plot.Plot {
	b := &bars{rows: rows, scale: scaleOf(rows)}
	p := plot.New()
	p.Title.Text, p.Title.TextStyle, p.Title.Padding = title, label(12, ink, draw.XCenter), margin
	p.Title.TextStyle.YAlign = draw.YTop
	p.X.Label.Text, p.X.Label.TextStyle, p.X.Label.Padding = b.scale.name+" at the peak", label(textSize, soft, draw.XCenter), 3
	p.X.Label.TextStyle.YAlign = draw.YBottom
	p.X.Tick.Label, p.Y.Tick.Label = label(textSize, soft, draw.XCenter), label(textSize, ink, draw.XRight)
	p.X.Tick.Label.YAlign = draw.YTop
	p.X.Width, p.X.Tick.LineStyle.Width, p.X.Tick.Length = 0, 0, 2
	p.Y.Width, p.Y.Tick.LineStyle.Width, p.Y.Tick.Length = 0, 0, 2
	p.X.Tick.Marker = majors{}
	p.Y.Tick.Marker = plot.ConstantTicks(b.names())
	p.Y.Min, p.Y.Max = -0.5, float64(len(rows))-0.5
	p.X.Min, p.X.Max = 0, max(b.longest(), 1e-9)
	p.Add(b)
	return p
}

// majors sets a tick at the multiples of 1, 2 or 5 times a power of ten that gives four to eight of them.
type majors struct{}

func (majors) Ticks(lo, hi float64) (ticks []plot.Tick) {
	const most = 8
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/most)))
	for _, f := range []float64{2, 2.5, 2} { // 2, 5, 10
		if (hi-lo)/step > most {
			step *= f
		}
	}
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'g', 6, 64)})
	}
	return ticks
}

func label(size vg.Length, c color.Color, x draw.XAlignment) text.Style {
	return text.Style{
		Color: c, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		XAlign: x, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler,
	}
}
