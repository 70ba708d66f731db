package report

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// phases shades the ground of a picture and names the phases above it.
type phases struct{ *series }

// group is phases that have one name: a backward pass with what it recomputes.
type group struct {
	name     string
	from, to int // states
	again    bool
}

// Plot implements plot.Plotter.
func (s *phases) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(draw.LineStyle{Color: pale, Width: 0.7}, c.Min.X, toY(t.Value), c.Max.X, toY(t.Value))
	}
	var groups []group
	for i, ph := range s.d.Phase {
		name, from, to := s.d.Text[ph[1]], ph[0], len(s.by)
		if i+1 < len(s.d.Phase) {
			to = s.d.Phase[i+1][0]
		}
		shade, known := phaseColors[name]
		if !known || to <= from {
			continue
		}
		groups = join(groups, group{name, from, to, false})
		x0, x1 := toX(s.x[from]), toX(s.x[to])
		ground := shade
		if name == "recompute" {
			ground = phaseColors["backward"]
		}
		c.FillPolygon(faint(ground), box(x0, c.Min.Y, x1, c.Max.Y))
		c.FillPolygon(shade, box(x0, c.Max.Y+2, max(x1-0.5, x0+0.2), c.Max.Y+5))
	}
	name(&c, toX, s.x, groups)
}

// join adds g, to the last group if both belong to one backward pass.
func join(groups []group, g group) []group {
	inner := g.name == "backward" || g.name == "recompute"
	if n := len(groups); inner && n > 0 && groups[n-1].name == "backward" && groups[n-1].to == g.from {
		groups[n-1].to, groups[n-1].again = g.to, true
		return groups
	}
	if inner {
		g.name = "backward"
	}
	return append(groups, g)
}

// name writes the names that have room; where a step has several micro-batches they are numbered.
func name(c *draw.Canvas, toX func(float64) vg.Length, x []float64, groups []group) {
	batches := 0
	for _, g := range groups {
		if g.name == "forward" {
			batches++
		}
	}
	batch, style := 0, label(8.5, soft, draw.XCenter)
	style.YAlign = draw.YBottom
	for _, g := range groups {
		text := g.name
		if g.name == "forward" {
			batch++
		}
		if g.again {
			text += ", recompute"
		}
		if batches > 1 && g.name != "step" {
			text += fmt.Sprint(" ", batch)
		}
		x0, x1 := toX(x[g.from]), toX(x[g.to])
		if style.Width(text)+4 < x1-x0 {
			c.FillText(style, vg.Point{X: (x0 + x1) / 2, Y: c.Max.Y + 7}, text)
		}
	}
}

// faint is c at a tenth on white.
func faint(c color.RGBA) color.RGBA {
	mix := func(v uint8) uint8 { return uint8(255 - (255-int(v))/10) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 0xff}
}

func box(x0, y0, x1, y1 vg.Length) []vg.Point {
	return []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
}

// rules draws the end of the arena, the limit, the foretold peak, and the peak.
type rules struct{ *series }

// Plot implements plot.Plotter.
func (s *rules) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	heights := make([]int64, columnsOfPicture)
	for i, at := range s.columns(len(heights)) {
		heights[i] = s.d.State.Arena[at]
	}
	c.StrokeLines(draw.LineStyle{Color: soft, Width: 0.6}, s.edge(&c, toY, heights))

	free := c.Max.Y // labels do not lie on each other
	rule := func(bytes int64, text string, clr color.Color, dashes ...vg.Length) {
		y := toY(float64(bytes) / s.scale)
		c.StrokeLine2(draw.LineStyle{Color: clr, Width: 1, Dashes: dashes}, c.Min.X, y, c.Max.X, y)
		style := label(8.5, clr, draw.XRight)
		style.YAlign = draw.YBottom
		at := min(y+1.5, free-9)
		free = at
		c.FillPolygon(color.NRGBA{0xff, 0xff, 0xff, 0xb0}, box(c.Max.X-style.Width(text)-5, at, c.Max.X-1, at+9))
		c.FillText(style, vg.Point{X: c.Max.X - 3, Y: at}, text)
	}
	if s.near() {
		rule(s.r.Limit, "limit "+size(s.r.Limit), warning)
	}
	switch {
	case s.r.Predicted == s.peak:
		rule(s.peak, "peak, as foretold "+size(s.peak), accent, 5, 3)
	case s.r.Predicted > 0:
		rule(s.r.Predicted, "foretold "+size(s.r.Predicted), accent, 5, 3)
		fallthrough
	default:
		rule(s.peak, "peak "+size(s.peak)+": no placement needs less", ink, 2, 2.5)
	}
	dot := vg.Point{X: toX((s.x[s.at] + s.x[s.at+1]) / 2), Y: toY(float64(s.peak) / s.scale)}
	c.DrawGlyph(draw.GlyphStyle{Color: color.White, Radius: 3.4, Shape: draw.CircleGlyph{}}, dot)
	c.DrawGlyph(draw.GlyphStyle{Color: ink, Radius: 3, Shape: draw.RingGlyph{}}, dot)
}
