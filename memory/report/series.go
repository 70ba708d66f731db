package report

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/thimble-ml/thimble/memory"
)

// series is a recording as curves: a value for each state (see pageData), from the state's place on the axis up to the
// next's.
type series struct {
	r     *Recording
	d     *pageData
	x     []float64 // where each state begins, and where the last one ends
	by    [][memory.NumKinds]int64
	live  []int64
	peak  int64
	at    int // of the peak
	unit  string
	scale float64 // bytes of a unit
}

func newSeries(r *Recording, d *pageData, time bool) *series {
	s := &series{r: r, d: d, x: axis(d, time)}
	s.by = make([][memory.NumKinds]int64, len(d.State.Op))
	s.live = make([]int64, len(s.by))
	c := &d.Tensor
	add := func(state, kind int, bytes int64) {
		if state < len(s.by) {
			s.by[state][kind] += bytes
		}
	}
	last := append([]int(nil), c.Kind...)
	for i := range c.ID {
		add(c.Born[i], c.Kind[i], c.Bytes[i])
	}
	for i := 0; i < len(d.Change); i += 3 {
		t, state, kind := d.Change[i], d.Change[i+1], d.Change[i+2]
		add(state, last[t], -c.Bytes[t])
		add(state, kind, c.Bytes[t])
		last[t] = kind
	}
	for i := range c.ID {
		add(c.Died[i], last[i], -c.Bytes[i])
	}
	for i := range s.by {
		for k := range s.by[i] {
			if i > 0 {
				s.by[i][k] += s.by[i-1][k]
			}
			s.live[i] += s.by[i][k]
		}
		if s.live[i] > s.peak {
			s.peak, s.at = s.live[i], i
		}
	}
	s.setUnit()
	return s
}

// axis gives where states begin: in milliseconds, or in operations, of which the events share the width.
func axis(d *pageData, time bool) []float64 {
	n := len(d.State.Op)
	x := make([]float64, n+1)
	if time {
		for i := 1; i < n; i++ {
			x[i] = max(x[i-1], d.State.Time[i]/1e3)
		}
		x[n] = max(x[n-1], d.End/1e3, 1e-6)
		return x
	}
	x[n] = 1
	for i := 1; i < n; {
		e := i
		for e < n && d.State.Op[e] == d.State.Op[i] {
			e++
		}
		base := float64(d.State.Op[i] - d.State.Op[1] + 1)
		for k := i; k < e; k++ {
			x[k] = base + float64(k-i)/float64(e-i)
		}
		x[n] = base + 1
		i = e
	}
	return x
}

// setUnit chooses the unit of bytes by the highest thing drawn.
func (s *series) setUnit() {
	s.unit, s.scale = "", 1
	for _, u := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if float64(s.reach())/s.scale < 2048 {
			return
		}
		s.unit, s.scale = u, s.scale*1024
	}
}

// reach is the highest byte that is drawn but for the limit.
func (s *series) reach() int64 { return max(s.peak, s.r.ArenaPeak(), s.r.Predicted, 1) }

// near tells whether the limit is worth a line.
func (s *series) near() bool { return s.r.Limit > 0 && s.r.Limit < s.reach()*3/2 }

// top is the upper end of the axis, in units.
func (s *series) top() float64 {
	h := s.reach()
	if s.near() {
		h = max(h, s.r.Limit)
	}
	return float64(h) * 1.07 / s.scale
}

func (s *series) occurs(k memory.Kind) bool {
	for i := range s.by {
		if s.by[i][k] > 0 {
			return true
		}
	}
	return false
}

// columns gives, for each of n equal parts of the axis, the state within it that has the most live bytes.
func (s *series) columns(n int) []int {
	list := make([]int, n)
	at, last := 0, len(s.by)-1
	for c := range list {
		end := s.x[len(s.x)-1] * float64(c+1) / float64(n)
		best := at
		for at < last && s.x[at+1] < end {
			if at++; s.live[at] > s.live[best] {
				best = at
			}
		}
		list[c] = best
	}
	return list
}

// columnsOfPicture are enough for a picture: two a point.
const columnsOfPicture = 1200

// stackedArea draws live bytes, kind on kind.
type stackedArea struct{ *series }

// Plot implements plot.Plotter.
func (s *stackedArea) Plot(c draw.Canvas, p *plot.Plot) {
	_, toY := p.Transforms(&c)
	columns := s.columns(columnsOfPicture)
	below := make([]int64, len(columns))
	for _, k := range stackOrder {
		if !s.occurs(k) {
			continue
		}
		upper := make([]int64, len(columns))
		for i, at := range columns {
			upper[i] = below[i] + s.by[at][k]
		}
		c.FillPolygon(Color(k), s.ring(&c, toY, below, upper))
		below = upper
	}
}

// ring is the outline between two curves of steps; columns of equal height are one.
func (s *series) ring(c *draw.Canvas, toY func(float64) vg.Length, lower, upper []int64) []vg.Point {
	edge := s.edge(c, toY, upper)
	back := s.edge(c, toY, lower)
	for i := len(back) - 1; i >= 0; i-- {
		edge = append(edge, back[i])
	}
	return edge
}

func (s *series) edge(c *draw.Canvas, toY func(float64) vg.Length, heights []int64) (points []vg.Point) {
	width := (c.Max.X - c.Min.X) / vg.Length(len(heights))
	for i, h := range heights {
		if i > 0 && i < len(heights)-1 && heights[i-1] == h && heights[i+1] == h {
			continue
		}
		y := toY(float64(h) / s.scale)
		points = append(points, vg.Point{X: c.Min.X + vg.Length(i)*width, Y: y}, vg.Point{X: c.Min.X + vg.Length(i+1)*width, Y: y})
	}
	return points
}

// roundStep is the smallest of 1, 2 and 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*unit >= v {
			return f * unit
		}
	}
	return 10 * unit
}
