package report

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/thimble-ml/thimble/memory"
)

// PictureConfig of WritePNG and WriteSVG.
type PictureConfig struct {
	Title string
	// ByTime puts time on the axis, where it is known; otherwise it has operations, as many as ran, whose events share
	// the width of one.
	ByTime bool
	// Width and Height in inches; 0: 9.5 by 4.2.
	Width, Height float64
}

// Color is the colour of a kind in every picture, from Paul Tol's "muted" palette, whose colours people with any kind of
// colour blindness can tell apart (Tol, "Colour schemes", SRON/EPS/TN/09-002, 2021), so chosen that neighbours differ in
// brightness too.
func Color(k memory.Kind) color.RGBA { return colors[k] }

var colors = [memory.NumKinds]color.RGBA{
	memory.Param:      {0x33, 0x22, 0x88, 0xff}, // indigo
	memory.Grad:       {0x88, 0xcc, 0xee, 0xff}, // cyan
	memory.OptState:   {0x11, 0x77, 0x33, 0xff}, // green
	memory.Activation: {0xdd, 0xcc, 0x77, 0xff}, // sand
	memory.Temporary:  {0xcc, 0x66, 0x77, 0xff}, // rose
	memory.Scratch:    {0xaa, 0x44, 0x99, 0xff}, // purple
	memory.Input:      {0x44, 0xaa, 0x99, 0xff}, // teal
	memory.Staging:    {0x88, 0x22, 0x55, 0xff}, // wine
	memory.CastCopy:   {0x99, 0x99, 0x33, 0xff}, // olive
	memory.Other:      {0xbb, 0xbb, 0xbb, 0xff}, // grey
}

// phaseColors shade the ground.
var phaseColors = map[string]color.RGBA{
	"forward":   {0x44, 0x77, 0xaa, 0xff},
	"backward":  {0xcc, 0x66, 0x77, 0xff},
	"recompute": {0xaa, 0x77, 0x00, 0xff},
	"step":      {0x22, 0x88, 0x33, 0xff},
}

var (
	ink     = color.RGBA{0x1d, 0x1f, 0x24, 0xff}
	soft    = color.RGBA{0x6b, 0x6f, 0x78, 0xff}
	pale    = color.RGBA{0xe4, 0xe4, 0xdf, 0xff}
	accent  = color.RGBA{0x2a, 0x5b, 0xd7, 0xff}
	warning = color.RGBA{0xc0, 0x36, 0x2c, 0xff}
)

// WritePNG draws live bytes, stacked by kind, over operations or time: phases shaded, the end of the arena as a line, and lines
// for the limit (where it is near), the peak that a dry run foretold, and the most live bytes, below which no placement goes.
func (r *Recording) WritePNG(w io.Writer, c PictureConfig) error {
	width, height := c.size()
	img := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))
	if err := r.draw(draw.New(img), c); err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(w); err != nil {
		return fmt.Errorf("report: png: %w", err)
	}
	return nil
}

// WriteSVG is WritePNG as SVG.
func (r *Recording) WriteSVG(w io.Writer, c PictureConfig) error {
	width, height := c.size()
	img := vgsvg.New(width, height)
	if err := r.draw(draw.New(img), c); err != nil {
		return err
	}
	if _, err := img.WriteTo(w); err != nil {
		return fmt.Errorf("report: svg: %w", err)
	}
	return nil
}

func (c PictureConfig) size() (width, height vg.Length) {
	if c.Width <= 0 {
		c.Width = 9.5
	}
	if c.Height <= 0 {
		c.Height = 4.2
	}
	return vg.Length(c.Width) * vg.Inch, vg.Length(c.Height) * vg.Inch
}

func (r *Recording) draw(canvas draw.Canvas, c PictureConfig) error {
	d, err := r.pageData()
	if err != nil {
		return err
	}
	if c.ByTime && len(d.State.Time) == 0 {
		return fmt.Errorf("report: picture over time of a recording without times: want PictureConfig.ByTime false")
	}
	s := newSeries(r, d, c.ByTime)
	p := s.frame(c)
	p.Add(&phases{s}, &stackedArea{s}, &rules{s})
	p.Draw(draw.Crop(canvas, margin, -legendWidth, margin, -margin))
	s.legend(draw.Crop(canvas, canvas.Max.X-canvas.Min.X-legendWidth+margin, 0, 0, -legendTop))
	return nil
}

// The measures of a picture; a point is 1/72 inch.
const (
	margin      = vg.Length(10)
	legendWidth = vg.Length(94)
	legendTop   = vg.Length(52)
	lineHeight  = vg.Length(14)
	square      = vg.Length(8)
)

// legend names the kinds that occur, in the order in which they lie on each other, and the line.
func (s *series) legend(c draw.Canvas) {
	style := label(9, ink, draw.XLeft)
	y := c.Max.Y
	entry := func(text string) {
		c.FillText(style, vg.Point{X: c.Min.X + square + 5, Y: y + square/2 + 1}, text)
		y -= lineHeight
	}
	for i := len(stackOrder) - 1; i >= 0; i-- {
		if k := stackOrder[i]; s.occurs(k) {
			c.FillPolygon(Color(k), box(c.Min.X, y, c.Min.X+square, y+square))
			entry(k.String())
		}
	}
	c.StrokeLine2(draw.LineStyle{Color: soft, Width: 0.8}, c.Min.X, y+square/2, c.Min.X+square, y+square/2)
	entry("end of arena")
}

// stackOrder is the order of the kinds from below: what lives long comes first. page/data.js has the same.
var stackOrder = []memory.Kind{memory.Param, memory.OptState, memory.Other, memory.Input, memory.Staging, memory.Grad, memory.Activation, memory.CastCopy, memory.Temporary, memory.Scratch}

// frame is the plot around the stack: title, axes, their units.
func (s *series) frame(c PictureConfig) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Title.TextStyle, p.Title.Padding = c.Title, label(12, ink, draw.XCenter), 22
	p.Title.TextStyle.YAlign = draw.YTop
	p.X.Label.Text = map[bool]string{true: "milliseconds", false: "operations"}[c.ByTime]
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle = label(9.5, soft, draw.XCenter)
		a.Tick.Label = label(9, soft, draw.XCenter)
		a.LineStyle.Width, a.Tick.LineStyle.Width, a.Tick.Length, a.Padding = 0, 0, 2, 2
		a.Min = 0
	}
	p.X.Tick.Label.YAlign, p.X.Label.TextStyle.YAlign = draw.YTop, draw.YBottom
	p.Y.Tick.Label.XAlign, p.Y.Tick.Label.YAlign = draw.XRight, draw.YCenter
	p.X.Tick.Marker, p.Y.Tick.Marker = rounds{}, rounds{" " + s.unit + "B"}
	p.X.Max, p.Y.Max = s.x[len(s.x)-1], s.top()
	return p
}

func label(points vg.Length, c color.Color, x draw.XAlignment) text.Style {
	return text.Style{
		Color: c, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, points),
		XAlign: x, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler,
	}
}

// rounds sets ticks at multiples of 1, 2 or 5 times a power of ten, four to eight of them, with a unit.
type rounds struct{ unit string }

// Ticks implements plot.Ticker.
func (r rounds) Ticks(lo, hi float64) (ticks []plot.Tick) {
	step := roundStep((hi - lo) / 8)
	for i := 0; float64(i)*step <= hi; i++ {
		v := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.6g", v) + r.unit})
	}
	return ticks
}
