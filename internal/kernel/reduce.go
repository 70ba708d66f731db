// Reductions over any set of dimensions of x, which is contiguous. The elements that stay are columns, those that are
// taken together rows, cut into cells as in sumto.go. A cell leaves one or two float64 a column, a and b, of its own rows;
// cells are merged in order.
//
//	                a          b                     result
//	sum, mean       sum x                            a, a/n
//	norm 1, norm 2  sum |x|, sum x^2                 a, sqrt a
//	max, min        max x, -x  how many are as large a, -a
//	norm inf        max |x|    how many are as large a
//	argmax, argmin  max x, -x  its first row         b
//	var, std        mean x     sum (x-a)^2           b/(n-correction), its root
//	logsumexp       max x      sum exp(x-a)          a + log b
//
// Where b needs a, a cell goes through its rows twice. NaN anywhere makes the result NaN, and is what argmax and argmin
// find. As in torch, no rows have sum and norm 0, mean and variance NaN, logsumexp -Inf; a maximum they have not.

package kernel

import "math"

// Reduction is what is computed.
type Reduction uint8

// The reductions.
const (
	ReduceSum Reduction = iota
	ReduceMean
	ReduceNorm1
	ReduceNorm2
	ReduceMax
	ReduceMin
	ReduceNormInf
	ReduceArgMax
	ReduceArgMin
	ReduceVar
	ReduceStd
	ReduceLogSumExp
)

// Reduce is the plan of one reduction: pure shape, cheap to make, so each chunk may make its own.
type Reduce struct {
	op   Reduction
	less float64 // what the variance divides by is n - less
	plan SumTo
}

// NewReduce plans the reduction of shape s to shape t, which has the same rank and size 1 in reduced dimensions.
// correction is that of var and std.
func NewReduce(op Reduction, s, t []int, correction int) Reduce {
	return Reduce{op: op, less: float64(correction), plan: NewSumTo(s, t)}
}

// Chunks is how many pieces ReducePart works in.
func (p *Reduce) Chunks() int { return p.plan.Chunks() }

// SharedBytes is the room for cells' numbers that all chunks of a call share; none for a single row range.
func (p *Reduce) SharedBytes() int64 { return p.plan.SharedBytes() * int64(p.op.words()) }

// words is how many numbers a column has.
func (r Reduction) words() int {
	if r <= ReduceNorm2 {
		return 1
	}
	return 2
}

// sign of min and argmin is -1: they are the max of -x.
func (r Reduction) sign() float64 {
	if r == ReduceMin || r == ReduceArgMin {
		return -1
	}
	return 1
}

// passes over the rows of a cell; stat says whether someone wants b.
func (r Reduction) passes(stat bool) int {
	switch r {
	case ReduceVar, ReduceStd, ReduceLogSumExp:
		return 2
	case ReduceMax, ReduceMin, ReduceNormInf:
		if stat {
			return 2
		}
	}
	return 1
}

// ReducePart works on chunk c: into dst, one number a column, if one row range holds all rows, into shared otherwise.
// D is int64 for argmax and argmin, T for the others. stat, of the same size, may be nil; it gets the mean for var and
// std, and for max, min and norm inf how many elements are as large.
func ReducePart[T Float, D Float | int64](p *Reduce, dst []D, stat, src []T, shared []float64, c int) {
	g := &p.plan.grid
	r0, r1, c0, c1, part := g.cell(c)
	var a, b [sumBlock]float64
	words, passes := p.op.words(), p.op.passes(stat != nil)
	for c0 < c1 {
		n := reduceColumns(p, &a, &b, src, passes, r0, r1, c0, c1)
		if g.nr == 1 {
			reduceStore(p, dst, stat, a[:n], b[:n], c0)
		} else {
			copy(shared[part*words*g.cols+c0:], a[:n])
			if words > 1 {
				copy(shared[(part*words+1)*g.cols+c0:], b[:n])
			}
		}
		c0 += n
	}
}

// ReduceFinish merges the cells. It is called once, after all chunks, and does nothing where there is one row range.
func ReduceFinish[T Float, D Float | int64](p *Reduce, dst []D, stat []T, shared []float64) {
	g := &p.plan.grid
	if g.nr == 1 {
		return
	}
	var a, b [sumBlock]float64
	words := p.op.words()
	for c0 := 0; c0 < g.cols; c0 += sumBlock {
		n := min(sumBlock, g.cols-c0)
		for part := range g.nr {
			x := shared[part*words*g.cols+c0:][:n]
			y := x
			if words > 1 {
				y = shared[(part*words+1)*g.cols+c0:][:n]
			}
			if part == 0 {
				copy(a[:n], x)
				copy(b[:n], y)
				continue
			}
			before, rows := part*g.perRow, min(g.rows-part*g.perRow, g.perRow)
			p.op.merge(a[:n], b[:n], x, y, float64(before), float64(rows))
		}
		reduceStore(p, dst, stat, a[:n], b[:n], c0)
	}
}

// merge takes the numbers x and y of n2 more rows into a and b, which are of n1 rows.
func (r Reduction) merge(a, b, x, y []float64, n1, n2 float64) {
	b, x, y = b[:len(a)], x[:len(a)], y[:len(a)]
	switch r {
	case ReduceMax, ReduceMin, ReduceNormInf:
		for i, v := range x {
			if v == a[i] {
				b[i] += y[i]
			} else if a[i] = max(a[i], v); a[i] == v {
				b[i] = y[i]
			}
		}
	case ReduceArgMax, ReduceArgMin:
		for i, v := range x {
			if v > a[i] || v != v && a[i] == a[i] {
				a[i], b[i] = v, y[i]
			}
		}
	case ReduceVar, ReduceStd: // Chan, Golub and LeVeque (1979)
		for i, v := range x {
			d := v - a[i]
			a[i] += d * (n2 / (n1 + n2))
			b[i] += y[i] + d*d*(n1*n2/(n1+n2))
		}
	case ReduceLogSumExp:
		for i, v := range x {
			top := max(a[i], v)
			b[i] = rescaled(a[i], b[i], top) + rescaled(v, y[i], top)
			a[i] = top
		}
	default:
		for i, v := range x {
			a[i] += v
		}
	}
}

// rescaled is sum exp(x-top) from b = sum exp(x-a).
func rescaled(a, b, top float64) float64 {
	if math.IsInf(a, -1) {
		return 0
	}
	return b * math.Exp(a-top)
}

// reduceStore makes results of a and b and puts them into columns [c0, c0+len(a)).
func reduceStore[T Float, D Float | int64](p *Reduce, dst []D, stat []T, a, b []float64, c0 int) {
	p.results(a, b)
	for i, v := range a {
		dst[c0+i] = D(v)
	}
	if stat != nil {
		for i, v := range b {
			stat[c0+i] = T(v)
		}
	}
}

// results replaces a by the result and b by what a gradient wants to know.
func (p *Reduce) results(a, b []float64) {
	n := float64(p.plan.grid.rows)
	b = b[:len(a)]
	switch p.op {
	case ReduceMean:
		for i := range a {
			a[i] /= n
		}
	case ReduceNorm2:
		for i, v := range a {
			a[i] = math.Sqrt(v)
		}
	case ReduceMin:
		for i, v := range a {
			a[i] = -v
		}
	case ReduceArgMax, ReduceArgMin:
		copy(a, b)
	case ReduceVar, ReduceStd:
		by := max(0, n-p.less)
		for i, v := range b {
			a[i], b[i] = v/by, a[i]
			if p.op == ReduceStd {
				a[i] = math.Sqrt(a[i])
			}
		}
	case ReduceLogSumExp:
		for i, v := range a {
			if !math.IsInf(v, 0) {
				a[i] = v + math.Log(b[i])
			}
		}
	}
}

// reduceColumns is sumColumns for all reductions.
func reduceColumns[T Float](p *Reduce, a, b *[sumBlock]float64, src []T, passes, r0, r1, c0, c1 int) int {
	var at [sumBlock]int
	if passes > 1 && p.plan.inner { // a row's second pass should find it in the cache
		c1 = min(c1, c0+max(1, ChunkSize/4/max(1, r1-r0)))
	}
	run, runs := p.plan.block(&at, c0, c1)
	n := run * runs
	p.op.begin(a[:n], b[:n])
	for pass := range passes {
		reducePass(p, pass, a, b, src, at[:runs], run, r0, r1)
		if pass == 0 && (p.op == ReduceVar || p.op == ReduceStd) {
			for i := range a[:n] {
				a[i] /= float64(r1 - r0)
			}
		}
	}
	return n
}

// begin sets a and b to what no rows give.
func (r Reduction) begin(a, b []float64) {
	clear(a)
	clear(b)
	if r == ReduceMax || r == ReduceMin || r == ReduceArgMax || r == ReduceArgMin || r == ReduceLogSumExp {
		for i := range a {
			a[i] = math.Inf(-1)
		}
	}
}

// reducePass goes through rows [r0, r1) of the runs of columns that start at the given places.
func reducePass[T Float](p *Reduce, pass int, a, b *[sumBlock]float64, src []T, at []int, run, r0, r1 int) {
	rows, inner := &p.plan.reduced, p.plan.inner
	for n := 0; r0 < r1; r0 += n {
		n = r1 - r0
		if rows.rank > 0 {
			n = min(n, rows.size[0]-r0%rows.size[0])
		}
		base := rows.offset(r0, 0)
		for k, off := range at {
			if inner {
				reduceRow(p.op, pass, &a[k], &b[k], src[base+off:][:n], r0)
			} else {
				reduceDown(p.op, pass, a[k*run:][:run], b[k*run:][:run], src[base+off:], n, rows.stride[0], r0)
			}
		}
	}
}

// reduceRow takes the elements x of one column, rows r and on, into its a and b.
func reduceRow[T Float](op Reduction, pass int, a, b *float64, x []T, r int) {
	switch op {
	case ReduceSum, ReduceMean:
		*a += sumRow(x)
	case ReduceNorm1:
		*a += absRow(x)
	case ReduceNorm2:
		*a += squaredDistance(x, 0)
	case ReduceMax, ReduceMin:
		if pass == 0 {
			*a = max(*a, maxRow(x, op.sign()))
		} else {
			*b += countRow(x, *a*op.sign())
		}
	case ReduceNormInf:
		if pass == 0 {
			*a = max(*a, maxAbsRow(x))
		} else {
			*b += countRow(x, *a)
			if *a != 0 {
				*b += countRow(x, -*a)
			}
		}
	case ReduceArgMax, ReduceArgMin:
		argRow(a, b, x, op.sign(), r)
	case ReduceVar, ReduceStd:
		if pass == 0 {
			*a += sumRow(x)
		} else {
			*b += squaredDistance(x, *a)
		}
	case ReduceLogSumExp:
		if pass == 0 {
			*a = max(*a, maxRow(x, 1))
		} else {
			*b += expRow(x, *a)
		}
	}
}

// reduceDown takes n rows of x, stride apart, from row r on, into the columns' a and b.
func reduceDown[T Float](op Reduction, pass int, a, b []float64, x []T, n, stride, r int) {
	if op <= ReduceMean || pass == 0 && (op == ReduceVar || op == ReduceStd) {
		addDown(a, x, n, stride)
		return
	}
	for ; n > 0; n-- {
		downRow(op, pass, a, b, x[:len(a)], r)
		x = x[min(stride, len(x)):]
		r++
	}
}

// downRow takes row r, one element a column.
func downRow[T Float](op Reduction, pass int, a, b []float64, x []T, r int) {
	switch op {
	case ReduceNorm1:
		absDown(a, x)
	case ReduceNorm2:
		squaresDown(a, x)
	case ReduceMax, ReduceMin:
		if pass == 0 {
			maxDown(a, x, op.sign())
		} else {
			countDown(b, x, a, op.sign())
		}
	case ReduceNormInf:
		if pass == 0 {
			maxAbsDown(a, x)
		} else {
			countAbsDown(b, x, a)
		}
	case ReduceArgMax, ReduceArgMin:
		argDown(a, b, x, op.sign(), r)
	case ReduceVar, ReduceStd:
		distanceDown(b, x, a)
	case ReduceLogSumExp:
		if pass == 0 {
			maxDown(a, x, 1)
		} else {
			expDown(b, x, a)
		}
	}
}
