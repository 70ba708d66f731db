// Softmax and its logarithm along a dimension, a line of n elements each (see lines.go):
//
//	softmax      y = exp(x-top) / sum exp(x-top)      dx = y (g - sum(g y))
//	log-softmax  y = (x-top) - log sum exp(x-top)     dx = g - exp(y) sum(g)
//
// with top the largest x. Backward reads g and y. Sums are float64. A line that holds NaN or +Inf, and one of -Inf alone,
// becomes NaN, as in torch; other -Inf become 0.

package kernel

import "math"

// Softmax fills the lines of chunk c of y. y may be x.
func Softmax[T Float](l Lines, y, x []T, c int) {
	for i, end := l.chunk(c); i < end; i++ {
		if at, w := l.strip(i); l.Inner == 1 {
			softmaxRow(y[at:][:l.N], x[at:][:l.N])
		} else {
			softmaxDown(l, y[at:], x[at:], w)
		}
	}
}

func softmaxRow[T Float](y, x []T) {
	if softmaxRowFast(y, x) {
		return
	}
	top := largest(x)
	var e [expBlock]float64
	var sum float64
	out := y
	for len(x) > 0 {
		n := min(len(x), expBlock)
		expBelow(e[:n], x[:n], top)
		sum += sumRow(e[:n])
		putRow(y[:n], false, e[:n])
		x, y = x[n:], y[n:]
	}
	by := 1 / sum
	for i, v := range out {
		out[i] = T(float64(v) * by)
	}
}

// largest is the largest x, NaN left out: a sum of exp(x-top) shows it.
func largest[T Float](x []T) float64 {
	if m, ok := topFast(x); ok {
		return float64(m)
	}
	m := T(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return float64(m)
}

// strip is one number for each of the lines side by side.
type strip = [lineStrip]float64

func softmaxDown[T Float](l Lines, y, x []T, w int) {
	if softmaxDownFast(l, y, x, w) {
		return
	}
	var top, sum, e strip
	largestDown(l, top[:w], x)
	for r := range l.N {
		row := x[r*l.Inner:][:w]
		expBelowEach(e[:w], row, top[:w])
		for i, v := range e[:w] {
			sum[i] += v
		}
		putRow(y[r*l.Inner:][:w], false, e[:w])
	}
	for i, v := range sum[:w] {
		sum[i] = 1 / v
	}
	for r := range l.N {
		row := y[r*l.Inner:][:w]
		for i, v := range row {
			row[i] = T(float64(v) * sum[i])
		}
	}
}

// largestDown is largest of len(top) lines.
func largestDown[T Float](l Lines, top []float64, x []T) {
	for i := range top {
		top[i] = math.Inf(-1)
	}
	for r := range l.N {
		for i, v := range x[r*l.Inner:][:len(top)] {
			if float64(v) > top[i] {
				top[i] = float64(v)
			}
		}
	}
}

// expBelowEach fills e with exp(x-top), element by element.
func expBelowEach[T Float](e []float64, x []T, top []float64) {
	x, top = x[:len(e)], top[:len(e)]
	for i, v := range x {
		e[i] = float64(v) - top[i]
	}
	exp[T](e)
}

// SoftmaxBackward fills the lines of chunk c of dx with the gradient, or adds it. dx may be g.
func SoftmaxBackward[T Float](l Lines, dx []T, add bool, g, y []T, c int) {
	for i, end := l.chunk(c); i < end; i++ {
		if at, w := l.strip(i); l.Inner == 1 {
			d, g, y := dx[at:][:l.N], g[at:][:l.N], y[at:][:l.N]
			softmaxBackwardRow(d, add, g, y, products(g, y))
		} else {
			softmaxBackwardDown(l, dx[at:], add, g[at:], y[at:], w)
		}
	}
}

// softmaxBackwardRow fills d with y (g - m), or adds it.
func softmaxBackwardRow[T Float](d []T, add bool, g, y []T, m float64) {
	if softmaxBackwardRowFast(d, add, g, y, m) {
		return
	}
	d, g = d[:len(y)], g[:len(y)]
	for i, v := range y {
		putOne(d, add, i, float64(v)*(float64(g[i])-m))
	}
}

func softmaxBackwardDown[T Float](l Lines, dx []T, add bool, g, y []T, w int) {
	if softmaxBackwardDownFast(l, dx, add, g, y, w) {
		return
	}
	var m strip
	for r := range l.N {
		a, b := g[r*l.Inner:][:w], y[r*l.Inner:][:w]
		for i, v := range a {
			m[i] += float64(v) * float64(b[i])
		}
	}
	for r := range l.N {
		d, a, b := dx[r*l.Inner:][:w], g[r*l.Inner:][:w], y[r*l.Inner:][:w]
		for i, v := range b {
			putOne(d, add, i, float64(v)*(float64(a[i])-m[i]))
		}
	}
}

// products is the sum of x y in four interleaved chains.
func products[T Float](x, y []T) float64 {
	if sum, ok := dotFast(x, y); ok {
		return sum
	}
	var s0, s1, s2, s3 float64
	y = y[:len(x)]
	for len(x) >= 4 && len(y) >= 4 {
		s0 += float64(x[0]) * float64(y[0])
		s1 += float64(x[1]) * float64(y[1])
		s2 += float64(x[2]) * float64(y[2])
		s3 += float64(x[3]) * float64(y[3])
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		s0 += float64(v) * float64(y[i])
	}
	return (s0 + s1) + (s2 + s3)
}

// LogSoftmax fills the lines of chunk c of y. y may be x.
func LogSoftmax[T Float](l Lines, y, x []T, c int) {
	for i, end := l.chunk(c); i < end; i++ {
		if at, w := l.strip(i); l.Inner == 1 {
			logSoftmaxRow(y[at:][:l.N], x[at:][:l.N])
		} else {
			logSoftmaxDown(l, y[at:], x[at:], w)
		}
	}
}

func logSoftmaxRow[T Float](y, x []T) {
	top, sum := logSumExp(x)
	if logSoftmaxRowFast(y, x, top+sum) {
		return
	}
	for i, v := range x {
		y[i] = T(float64(v) - top - sum)
	}
}

func logSoftmaxDown[T Float](l Lines, y, x []T, w int) {
	if logSoftmaxDownFast(l, y, x, w) {
		return
	}
	var top, sum, e strip
	largestDown(l, top[:w], x)
	for r := range l.N {
		expBelowEach(e[:w], x[r*l.Inner:][:w], top[:w])
		for i, v := range e[:w] {
			sum[i] += v
		}
	}
	for i, v := range sum[:w] {
		sum[i] = math.Log(v)
	}
	for r := range l.N {
		out := y[r*l.Inner:][:w]
		for i, v := range x[r*l.Inner:][:w] {
			out[i] = T(float64(v) - top[i] - sum[i])
		}
	}
}

// LogSoftmaxBackward fills the lines of chunk c of dx with the gradient, or adds it. dx may be g.
func LogSoftmaxBackward[T Float](l Lines, dx []T, add bool, g, y []T, c int) {
	for i, end := l.chunk(c); i < end; i++ {
		if at, w := l.strip(i); l.Inner == 1 {
			logSoftmaxBackwardRow(dx[at:][:l.N], add, g[at:][:l.N], y[at:][:l.N])
		} else {
			logSoftmaxBackwardDown(l, dx[at:], add, g[at:], y[at:], w)
		}
	}
}

func logSoftmaxBackwardRow[T Float](d []T, add bool, g, y []T) {
	sum := sumRow(g)
	if logSoftmaxBackwardRowFast(d, add, g, y, sum) {
		return
	}
	var e [expBlock]float64
	for len(y) > 0 {
		n := min(len(y), expBlock)
		expBelow(e[:n], y[:n], 0)
		for i, v := range g[:n] {
			putOne(d, add, i, float64(v)-e[i]*sum)
		}
		d, g, y = d[n:], g[n:], y[n:]
	}
}

func logSoftmaxBackwardDown[T Float](l Lines, dx []T, add bool, g, y []T, w int) {
	if logSoftmaxBackwardDownFast(l, dx, add, g, y, w) {
		return
	}
	var sum, e strip
	for r := range l.N {
		for i, v := range g[r*l.Inner:][:w] {
			sum[i] += float64(v)
		}
	}
	for r := range l.N {
		expBelow(e[:w], y[r*l.Inner:][:w], 0)
		d := dx[r*l.Inner:][:w]
		for i, v := range g[r*l.Inner:][:w] {
			putOne(d, add, i, float64(v)-e[i]*sum[i])
		}
	}
}
