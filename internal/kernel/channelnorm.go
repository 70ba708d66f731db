// Batch norm (Ioffe and Szegedy, 2015) and group norm (Wu and He, 2018) of x [N C P], P pixels a plane:
//
//	y = (x - mean) rstd w[c] + b[c]     rstd = 1/sqrt(var+eps)
//
// with mean and biased variance over n and p for each channel, or over the channels of a group and p for each image. w
// and b may be nil.
//
//	dw[c] = sum over n and p of g xhat     db[c] = sum over n and p of g     xhat = (x - mean) rstd
//
// Sums by channel (the statistics of batch norm, dw and db of both) are a grid over rows (n, p) and columns c, as in
// sumto.go: each cell leaves two numbers a channel in shared scratch, and a Finish function puts them together in order.
// Planes lie in x as runs of P elements; where P is 1, x is a matrix and everything goes along its rows.
//
// mean and rstd are rounded to T before they are used, so that backward sees the very xhat that forward used.

package kernel

import "math"

// ChannelNorm is the plan: pure shape.
type ChannelNorm struct {
	n, c, p int
	groups  int // 0: batch norm
	grid    grid
}

// NewBatchNorm plans batch norm.
func NewBatchNorm(n, c, p int) ChannelNorm { return newChannelNorm(n, c, p, 0) }

// NewGroupNorm plans group norm; groups divides c.
func NewGroupNorm(n, c, p, groups int) ChannelNorm { return newChannelNorm(n, c, p, groups) }

func newChannelNorm(n, c, p, groups int) ChannelNorm {
	minCols := 1
	if p == 1 {
		minCols = gridCols
	}
	return ChannelNorm{n, c, p, groups, newGrid(n*p, c, minCols, 1)}
}

// Chunks is how many cells the sums by channel have.
func (k *ChannelNorm) Chunks() int { return k.grid.chunks() }

// Parts is the room for partial sums, in float64: two numbers a channel and row range.
func (k *ChannelNorm) Parts() int { return k.grid.nr * k.grid.cols * 2 }

// RowChunks is how many pieces go along x where there is nothing to sum: planes, or rows where P is 1; whole groups for
// group norm.
func (k *ChannelNorm) RowChunks() int { return RowChunks(k.rows()) }

// rows is how many rows x has, and how long they are.
func (k *ChannelNorm) rows() (rows, cols int) {
	switch {
	case k.groups > 0:
		return k.n * k.groups, k.c / k.groups * k.p
	case k.p == 1:
		return k.n, k.c
	}
	return k.n * k.c, k.p
}

// stat is where (mean, rstd) of channel c in image n lies.
func (k *ChannelNorm) stat(n, c int) int {
	if k.groups == 0 {
		return 2 * c
	}
	return 2 * (n*k.groups + c/(k.c/k.groups))
}

// planeRuns is the loop over the runs of one channel in rows [r0, r1), as a state. next gives where the next
// run lies, its length (0 at the end) and its image.
type planeRuns struct {
	k         *ChannelNorm
	c, r, end int
}

func (w *planeRuns) next() (at, length, image int) {
	if w.r >= w.end {
		return 0, 0, 0
	}
	p := w.k.p
	n, i := w.r/p, w.r%p
	length = min(p-i, w.end-w.r)
	w.r += length
	return (n*w.k.c+w.c)*p + i, length, n
}

// moments are the mean of some numbers and the sum of their squared distances from it.
type moments struct{ mean, m2 float64 }

// mergeMoments gives the moments of na and nb numbers together (Chan, Golub and LeVeque, 1983).
func mergeMoments(a moments, na int, b moments, nb int) moments {
	switch {
	case na == 0:
		return b
	case nb == 0:
		return a
	}
	d, part := b.mean-a.mean, float64(nb)/float64(na+nb)
	return moments{a.mean + d*part, a.m2 + b.m2 + d*d*float64(na)*part}
}

// momentsOf takes two passes over x, which is short enough for a cache.
func momentsOf[T Float](x []T) moments {
	m := sumRow(x) / float64(len(x))
	return moments{m, squaredDistance(x, m)}
}

// momentsRun is how many elements are taken at a time: 16 KiB of float32.
const momentsRun = 1 << 12

// BatchNormPart leaves the moments of chunk c's rows and channels in parts.
func BatchNormPart[T Float](k *ChannelNorm, x []T, parts []float64, c int) {
	r0, r1, c0, c1, part := k.grid.cell(c)
	means, m2 := k.part(parts, part, c0, c1)
	if k.p == 1 {
		momentsDown(means, m2, x, k.c, r0, r1, c0)
		return
	}
	for i := range means {
		var all moments
		n := 0
		w := planeRuns{k, c0 + i, r0, r1}
		for at, length, _ := w.next(); length > 0; at, length, _ = w.next() {
			for run := x[at:][:length]; len(run) > 0; {
				piece := run[:min(momentsRun, len(run))]
				all = mergeMoments(all, n, momentsOf(piece), len(piece))
				n += len(piece)
				run = run[len(piece):]
			}
		}
		means[i], m2[i] = all.mean, all.m2
	}
}

// part is the two numbers of channels [c0, c1) in row range r.
func (k *ChannelNorm) part(parts []float64, r, c0, c1 int) (a, b []float64) {
	at := 2 * r * k.c
	return parts[at+c0 : at+c1], parts[at+k.c+c0 : at+k.c+c1]
}

// momentsDown is the moments of columns of a matrix, in blocks of a few rows and as many columns as have room on the stack.
func momentsDown[T Float](means, m2 []float64, x []T, cols, r0, r1, c0 int) {
	clear(means)
	clear(m2)
	for len(means) > 0 {
		n := min(sumBlock, len(means))
		momentsBlock(means[:n], m2[:n], x, cols, r0, r1, c0)
		means, m2, c0 = means[n:], m2[n:], c0+n
	}
}

func momentsBlock[T Float](means, m2 []float64, x []T, cols, r0, r1, c0 int) {
	const block = 16
	var room [2][sumBlock]float64
	mean, squares := room[0][:len(means)], room[1][:len(means)]
	for r, n := r0, 0; r < r1; {
		rows := min(block, r1-r)
		clear(mean)
		clear(squares)
		addDown(mean, x[r*cols+c0:], rows, cols)
		for i := range mean {
			mean[i] /= float64(rows)
		}
		for j := range rows {
			distanceDown(squares, x[(r+j)*cols+c0:][:len(mean)], mean)
		}
		for i := range means {
			all := mergeMoments(moments{means[i], m2[i]}, n, moments{mean[i], squares[i]}, rows)
			means[i], m2[i] = all.mean, all.m2
		}
		r, n = r+rows, n+rows
	}
}

// BatchNormFinish puts the moments together: mean and rstd of each channel in stats, the mean and the unbiased variance
// in mean and variance. Of no numbers at all both are 0.
func BatchNormFinish[T Float](k *ChannelNorm, stats, mean, variance []T, parts []float64, eps float64) {
	total := k.n * k.p
	for c := range k.c {
		var all moments
		n := 0
		for r := range k.grid.nr {
			m := min(k.grid.perRow, total-r*k.grid.perRow)
			all = mergeMoments(all, n, moments{parts[2*r*k.c+c], parts[(2*r+1)*k.c+c]}, m)
			n += m
		}
		stats[2*c], stats[2*c+1] = T(all.mean), T(1/math.Sqrt(all.m2/float64(max(1, n))+eps))
		mean[c], variance[c] = T(all.mean), T(all.m2/float64(max(1, n-1)))
	}
}

// BatchNormGiven fills stats from a given mean and variance. mean may be nil where it is not read.
func BatchNormGiven[T Float](stats, mean, variance []T, eps float64) {
	for c, v := range variance {
		stats[2*c], stats[2*c+1] = orElse(mean, c, 0), T(1/math.Sqrt(float64(v)+eps))
	}
}

// BatchNormApply fills piece number c of y.
func BatchNormApply[T Float](k *ChannelNorm, y, x, stats, w, b []T, c int) {
	rows, cols := k.rows()
	lo, hi := RowRange(rows, cols, c)
	for r := lo; r < hi; r++ {
		out, row := y[r*cols:][:cols], x[r*cols:][:cols]
		if k.p == 1 {
			affineEach(out, row, stats, w, b)
			continue
		}
		ch := r % k.c
		affineAll(out, row, stats[2*ch], stats[2*ch+1], orElse(w, ch, 1), orElse(b, ch, 0))
	}
}

// orElse is x[i], or a default where there is no x.
func orElse[T Float](x []T, i int, otherwise T) T {
	if x == nil {
		return otherwise
	}
	return x[i]
}

// affineAll fills y with (x-mean) rstd w + b.
func affineAll[T Float](y, x []T, mean, rstd, w, b T) {
	y = y[:len(x)]
	if affineAllFast(y, x, mean, rstd, w, b) {
		return
	}
	for i, v := range x {
		y[i] = (v-mean)*rstd*w + b
	}
}

// affineEach is affineAll where each element is of another channel.
func affineEach[T Float](y, x, stats, w, b []T) {
	y, stats = y[:len(x)], stats[:2*len(x)]
	if affineEachFast(y, x, stats, w, b) {
		return
	}
	for i, v := range x {
		v = (v - stats[2*i]) * stats[2*i+1]
		if w != nil {
			v *= w[i]
		}
		if b != nil {
			v += b[i]
		}
		y[i] = v
	}
}

// GroupNormForward fills piece number c of y, and of stats unless it is nil.
func GroupNormForward[T Float](k *ChannelNorm, y, stats, x, w, b []T, eps float64, c int) {
	rows, cols := k.rows()
	lo, hi := RowRange(rows, cols, c)
	for r := lo; r < hi; r++ {
		out, row := y[r*cols:][:cols], x[r*cols:][:cols]
		mean, rstd := rowStats(row, eps)
		if stats != nil {
			stats[2*r], stats[2*r+1] = mean, rstd
		}
		c0, c1 := k.channels(r)
		if k.p == 1 {
			affine(out, row, Cut(w, c0, c1), Cut(b, c0, c1), mean, rstd)
			continue
		}
		for i := range c1 - c0 {
			affineAll(out[i*k.p:][:k.p], row[i*k.p:][:k.p], mean, rstd, orElse(w, c0+i, 1), orElse(b, c0+i, 0))
		}
	}
}

// channels of row r of group norm.
func (k *ChannelNorm) channels(r int) (c0, c1 int) {
	per := k.c / k.groups
	c0 = r % k.groups * per
	return c0, c0 + per
}
