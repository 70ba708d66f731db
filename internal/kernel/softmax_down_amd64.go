//go:build amd64 && !purego

package kernel

import "math"

// Softmax of lines side by side with AVX2, row by row: what the rows of softmax_amd64.go have in a register, these have in
// a strip, one number a line.

// topDownFloats raises each top to x, NaN left out.
//
//go:noescape
func topDownFloats(n int, top, x *float32)

// expDownFloats fills dst, unless nil, with e^x shifted, and adds that to sums.
//
//go:noescape
func expDownFloats(n int, dst, x, base, magic, floor *float32, sums *float64)

// dotDownFloats adds x y to sums.
//
//go:noescape
func dotDownFloats(n int, sums *float64, x, y *float32)

// softmaxBackwardDownFloats fills d with y (dy - mean), or adds it.
//
//go:noescape
func softmaxBackwardDownFloats(n int, d *float32, add bool, dy, y, mean *float32)

// subtractDownFloats fills y with x - high - low.
//
//go:noescape
func subtractDownFloats(n int, y, x, high, low *float32)

// logSoftmaxBackwardDownFloats fills d with dy - e^y sum, or adds it.
//
//go:noescape
func logSoftmaxBackwardDownFloats(n int, d *float32, add bool, dy, y, sum *float32)

// strip32 is a number for each of the lines side by side.
type strip32 = [lineStrip]float32

// linesOf is x as float32, and whether lines of T run with AVX2.
func linesOf[T Float](x []T) (rows []float32, ok bool) {
	if !useAVX2 {
		return nil, false
	}
	rows, ok = any(x).([]float32)
	return rows, ok
}

// softmaxDownFast is softmaxDown, if there is a faster one for T on this processor.
func softmaxDownFast[T Float](l Lines, y, x []T, w int) bool {
	from, ok := linesOf(x)
	if ok {
		to, _ := linesOf(y)
		softmaxDownAVX2(l, to, from, w)
	}
	return ok
}

func softmaxDownAVX2(l Lines, y, x []float32, w int) {
	var top, base, magic, floor strip32
	var sum strip
	topsDown(l, top[:w], x)
	for i, v := range top[:w] {
		by, _ := shiftBy(v)
		base[i], magic[i], floor[i] = by.base, by.magic, by.floor
	}
	for r := range l.N {
		from, to := rowOf(l, x, r, w), rowOf(l, y, r, w)
		expDownFloats(w, to, from, &base[0], &magic[0], &floor[0], &sum[0])
	}
	for i, v := range sum[:w] {
		base[i] = float32(1 / v)
	}
	for r := range l.N {
		row := rowOf(l, y, r, w)
		rowMul(w, row, row, &base[0])
	}
}

// rowOf is where row r of a strip of w lines begins.
func rowOf(l Lines, x []float32, r, w int) *float32 {
	row := x[r*l.Inner:][:w]
	if raceEnabled {
		touchRead(row)
	}
	return &row[0]
}

// topsDown fills top with the largest x of each line, NaN left out.
func topsDown(l Lines, top, x []float32) {
	for i := range top {
		top[i] = float32(math.Inf(-1))
	}
	for r := range l.N {
		topDownFloats(len(top), &top[0], rowOf(l, x, r, len(top)))
	}
}

// softmaxBackwardDownFast is softmaxBackwardDown, if there is a faster one for T on this processor.
func softmaxBackwardDownFast[T Float](l Lines, dx []T, add bool, g, y []T, w int) bool {
	dys, ok := linesOf(g)
	if ok {
		d, _ := linesOf(dx)
		ys, _ := linesOf(y)
		softmaxBackwardDownAVX2(l, d, add, dys, ys, w)
	}
	return ok
}

func softmaxBackwardDownAVX2(l Lines, d []float32, add bool, dy, y []float32, w int) {
	var sum strip
	var mean strip32
	for r := range l.N {
		dotDownFloats(w, &sum[0], rowOf(l, dy, r, w), rowOf(l, y, r, w))
	}
	for i, v := range sum[:w] {
		mean[i] = float32(v)
	}
	for r := range l.N {
		softmaxBackwardDownFloats(w, rowOf(l, d, r, w), add, rowOf(l, dy, r, w), rowOf(l, y, r, w), &mean[0])
	}
}

// logSoftmaxDownFast is logSoftmaxDown, if there is a faster one for T on this processor.
func logSoftmaxDownFast[T Float](l Lines, y, x []T, w int) bool {
	from, ok := linesOf(x)
	if ok {
		to, _ := linesOf(y)
		logSoftmaxDownAVX2(l, to, from, w)
	}
	return ok
}

// logSoftmaxDownAVX2 takes each line relative to its largest element: see expSumFast.
func logSoftmaxDownAVX2(l Lines, y, x []float32, w int) {
	var top, magic, floor, low strip32
	var sum strip
	topsDown(l, top[:w], x)
	for i := range w {
		magic[i], floor[i] = expMagic, expUnder
	}
	for r := range l.N {
		expDownFloats(w, nil, rowOf(l, x, r, w), &top[0], &magic[0], &floor[0], &sum[0])
	}
	for i, v := range top[:w] {
		lse := float64(v) + math.Log(sum[i])
		top[i] = float32(lse)
		low[i] = float32(lse - float64(top[i]))
	}
	for r := range l.N {
		subtractDownFloats(w, rowOf(l, y, r, w), rowOf(l, x, r, w), &top[0], &low[0])
	}
}

// logSoftmaxBackwardDownFast is logSoftmaxBackwardDown, if there is a faster one for T on this processor.
func logSoftmaxBackwardDownFast[T Float](l Lines, dx []T, add bool, g, y []T, w int) bool {
	dys, ok := linesOf(g)
	if ok {
		d, _ := linesOf(dx)
		ys, _ := linesOf(y)
		logSoftmaxBackwardDownAVX2(l, d, add, dys, ys, w)
	}
	return ok
}

func logSoftmaxBackwardDownAVX2(l Lines, d []float32, add bool, dy, y []float32, w int) {
	var sum strip
	var total strip32
	for r := range l.N {
		downAdd(w, &sum[0], rowOf(l, dy, r, w), l.Inner)
	}
	for i, v := range sum[:w] {
		total[i] = float32(v)
	}
	for r := range l.N {
		logSoftmaxBackwardDownFloats(w, rowOf(l, d, r, w), add, rowOf(l, dy, r, w), rowOf(l, y, r, w), &total[0])
	}
}
