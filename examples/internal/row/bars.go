package row

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/memory/report"
)

// bars draws the rows within the frame that newPlot makes. Row 0 is on top, at the highest y.
type bars struct {
	rows  []Row
	scale scale
}

// scale is the unit of the axis.
type scale struct {
	name  string
	bytes float64
}

// scaleOf returns the unit in which the longest bar has the fewest digits before the point.
func scaleOf(rows []Row) scale {
	s := scale{"KiB", 1 << 10}
	for _, larger := range []scale{{"MiB", 1 << 20}, {"GiB", 1 << 30}} {
		if float64(end(rows)) >= 2*larger.bytes {
			s = larger
		}
	}
	return s
}

// end returns the highest figure of any row, in bytes.
func end(rows []Row) (n int64) {
	for i := range rows {
		n = max(n, rows[i].reach())
	}
	return n
}

// reach returns how far a row's marks reach, in bytes.
func (r *Row) reach() int64 {
	if r.RSS != nil {
		return max(r.Peak(), *r.RSS)
	}
	return r.Peak()
}

func (b *bars) longest() float64 { return float64(end(b.rows)) / b.scale.bytes }

func (b *bars) y(i int) float64 { return float64(len(b.rows) - 1 - i) }

func (b *bars) names() []plot.Tick {
	ticks := make([]plot.Tick, len(b.rows))
	for i, r := range b.rows {
		ticks[i] = plot.Tick{Value: b.y(i), Label: r.Name}
	}
	return ticks
}

// figure is the text behind the bar of row i.
func (b *bars) figure(i int) string {
	r := &b.rows[i]
	s := Bytes(r.Peak())
	if i > 0 {
		s += "   " + r.share(&b.rows[0]).Format(0, "%")
	}
	if r.MeasuredPeak == nil {
		s += "   predicted"
	}
	if r.Note != "" {
		s += "   " + r.Note
	}
	return s
}

var figureStyle = label(textSize, ink, draw.XLeft)

// GlyphBoxes makes room for the figures behind the bars.
func (b *bars) GlyphBoxes(p *plot.Plot) []plot.GlyphBox {
	boxes := make([]plot.GlyphBox, len(b.rows))
	for i := range b.rows {
		boxes[i] = plot.GlyphBox{
			X:         p.X.Norm(float64(b.rows[i].reach()) / b.scale.bytes),
			Y:         p.Y.Norm(b.y(i)),
			Rectangle: figureStyle.Rectangle(b.figure(i)).Add(vg.Point{X: margin}),
		}
	}
	return boxes
}

// Plot draws the rails of the axis, then row after row.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	x := func(bytes int64) vg.Length { return toX(float64(bytes) / b.scale.bytes) }
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(draw.LineStyle{Color: rail, Width: 0.7}, toX(t.Value), c.Min.Y, toX(t.Value), c.Max.Y)
	}
	for i := range b.rows {
		r, y := &b.rows[i], toY(b.y(i))
		r.drawStack(&c, x, y)
		if r.RSS != nil {
			drawDiamond(&c, vg.Point{X: x(*r.RSS), Y: y})
		}
		b.drawFigure(&c, i, vg.Point{X: x(r.reach()) + margin, Y: y})
	}
}

// drawFigure draws the text behind a bar, on white so that no rail crosses it.
func (b *bars) drawFigure(c *draw.Canvas, i int, at vg.Point) {
	s := b.figure(i)
	c.FillPolygon(color.White, rect(at.X-2, at.Y-barHeight/2, at.X+figureStyle.Width(s)+2, at.Y+barHeight/2))
	c.FillText(figureStyle, at.Add(vg.Point{Y: baseline}), s)
}

// baseline lifts text that is centred with its descenders to where it looks centred.
const baseline = vg.Length(1)

// drawStack draws the kinds of the peak one behind the other, each with a thin white edge.
func (r *Row) drawStack(c *draw.Canvas, x func(int64) vg.Length, y vg.Length) {
	var from int64
	for k, n := range r.ByKind {
		if n == 0 {
			continue
		}
		box := rect(x(from), y-barHeight/2, x(from+n), y+barHeight/2)
		c.FillPolygon(report.Color(memory.Kind(k)), box)
		c.StrokeLines(draw.LineStyle{Color: color.White, Width: 0.5}, append(box, box[0]))
		from += n
	}
}

func rect(x0, y0, x1, y1 vg.Length) []vg.Point {
	return []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
}

// drawDiamond draws the mark of the resident set, white within so that it shows on any colour.
func drawDiamond(c *draw.Canvas, at vg.Point) {
	const r = vg.Length(4.5)
	d := []vg.Point{{X: at.X, Y: at.Y - r}, {X: at.X + r, Y: at.Y}, {X: at.X, Y: at.Y + r}, {X: at.X - r, Y: at.Y}, {X: at.X, Y: at.Y - r}}
	c.FillPolygon(color.White, d)
	c.StrokeLines(draw.LineStyle{Color: ink, Width: 1.3}, d)
}

// legend names the colours that occur, and the diamond.
type legend struct {
	kinds []memory.Kind
	rss   bool
}

func newLegend(rows []Row) legend {
	l := legend{kinds: present(rows)}
	for _, r := range rows {
		l.rss = l.rss || r.RSS != nil
	}
	return l
}

const entryHeight = vg.Length(15)

func (l legend) height() vg.Length { return entryHeight * vg.Length(len(l.kinds)+1) }

// draw sets the entries from the top left of c down.
func (l legend) draw(c draw.Canvas) {
	const side = vg.Length(9)
	style := label(textSize, ink, draw.XLeft)
	x, y := c.Min.X, c.Max.Y-entryHeight/2
	for _, k := range l.kinds {
		c.FillPolygon(report.Color(k), rect(x, y-side/2, x+side, y+side/2))
		c.FillText(style, vg.Point{X: x + 15, Y: y + baseline}, k.String())
		y -= entryHeight
	}
	if l.rss {
		drawDiamond(&c, vg.Point{X: x + side/2, Y: y})
		c.FillText(style, vg.Point{X: x + 15, Y: y + baseline}, "resident set")
	}
}
