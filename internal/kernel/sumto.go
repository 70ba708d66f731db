// dst[T] = or += the sum of src[S] over the dimensions in which T was broadcast to S. Reads src, which is contiguous.
//
// Dimensions of S are kept (as long in T) or reduced (1 in T, or missing on the left). Neighbours of a kind are one
// dimension, so nearly every case is one of
//
//	[R K]      bias of a linear layer, position table     rows added up
//	[K R]      sum over the last dimension                each run added up
//	[R K R]    bias of a convolution's channels           each run added up, then rows
//	[R]        everything into one number
//
// The sum is a matrix with the kept elements as columns and the reduced ones as rows, cut as a grid (see chunk.go). Each
// cell goes through its columns in blocks whose float64 accumulators lie on the stack. Sums stay in one order: by row
// inside a cell, then cell by cell. Integers are summed in int64 (SumInts).

package kernel

// SumTo is the plan of one such sum: pure shape, cheap to make (a fraction of a microsecond), so each chunk may make its own.
type SumTo struct {
	kept, reduced dims
	inner         bool // the innermost dimension is reduced
	grid          grid
}

// dims are merged dimensions of src, index 0 innermost.
type dims struct {
	rank         int
	size, stride [MaxRank]int
}

func (d *dims) push(n, stride int, merge bool) {
	if merge {
		d.size[d.rank-1] *= n
		return
	}
	d.size[d.rank], d.stride[d.rank] = n, stride
	d.rank++
}

// offset is where element i of the row-major order over the dimensions from number from outwards lies.
func (d *dims) offset(i, from int) int {
	off := 0
	for ; from < d.rank-1; from++ {
		off += i % d.size[from] * d.stride[from]
		i /= d.size[from]
	}
	if from < d.rank {
		off += i * d.stride[from]
	}
	return off
}

// sumBlock is how many columns are summed at a time: 2 KiB of accumulators.
const sumBlock = 256

// NewSumTo plans the sum of shape s down to shape t, which is s with some dimensions 1 or missing on the left.
func NewSumTo(s, t []int) SumTo {
	var p SumTo
	const none, keep, reduce = 0, 1, 2
	last, stride := none, 1
	kn, rn := 1, 1
	for i := len(s) - 1; i >= 0; i-- {
		n, j := s[i], i-len(s)+len(t)
		if n == 1 {
			continue
		}
		if j >= 0 && t[j] == n {
			p.kept.push(n, stride, last == keep)
			last, kn = keep, kn*n
		} else {
			p.inner = p.inner || last == none
			p.reduced.push(n, stride, last == reduce)
			last, rn = reduce, rn*n
		}
		stride *= n
	}
	minCols, unit := gridCols, p.unit()
	if p.inner {
		minCols = 1
	}
	p.grid = newGrid(rn, kn, minCols, unit)
	return p
}

// unit is how many neighbouring columns are never separated: short runs stay whole.
func (p *SumTo) unit() int {
	if p.inner || p.kept.rank == 0 || p.kept.size[0] > sumBlock {
		return 1
	}
	return max(1, p.kept.size[0])
}

// Chunks is how many pieces SumPart works in.
func (p *SumTo) Chunks() int { return p.grid.chunks() }

// SharedBytes is the room for partial sums that all chunks of a call share: float64, none for a single row range.
func (p *SumTo) SharedBytes() int64 { return int64(p.partials()) * 8 }

func (p *SumTo) partials() int {
	if p.grid.nr == 1 {
		return 0
	}
	return p.grid.nr * p.grid.cols
}

// summand is what can be summed, and accumulator what it is summed in.
type (
	summand     interface{ Number | uint8 }
	accumulator interface{ float64 | int64 }
)

// SumPart sums chunk c: into dst (of shape t) if one row range holds all rows, into shared otherwise.
func SumPart[T Float](p *SumTo, dst Strided[T], add bool, src []T, shared []float64, c int) {
	r0, r1, c0, c1, part := p.grid.cell(c)
	var acc [sumBlock]float64
	for c0 < c1 {
		n := sumColumns(p, &acc, src, r0, r1, c0, c1)
		if p.grid.nr == 1 {
			store(dst, add, acc[:n], c0)
		} else {
			copy(shared[part*p.grid.cols+c0:], acc[:n])
		}
		c0 += n
	}
}

// SumFinish adds the partial sums up. It is called once, after all chunks, and does nothing where there are none.
func SumFinish[T Float](p *SumTo, dst Strided[T], add bool, shared []float64) {
	if p.grid.nr > 1 {
		finishColumns(dst, add, shared, p.grid.nr, p.grid.cols, p.grid.cols)
	}
}

// SumInts sums chunk c of integers, or of bytes, into dst if one row range holds all rows, into shared otherwise. It wraps
// around where int64 ends.
func SumInts[T int32 | int64 | uint8](p *SumTo, dst []int64, src []T, shared []int64, c int) {
	r0, r1, c0, c1, part := p.grid.cell(c)
	var acc [sumBlock]int64
	for c0 < c1 {
		n := sumColumns(p, &acc, src, r0, r1, c0, c1)
		if p.grid.nr == 1 {
			copy(dst[c0:], acc[:n])
		} else {
			copy(shared[part*p.grid.cols+c0:], acc[:n])
		}
		c0 += n
	}
}

// SumIntsFinish is SumFinish after SumInts.
func SumIntsFinish(p *SumTo, dst []int64, shared []int64) {
	if p.grid.nr == 1 {
		return
	}
	clear(dst)
	for r := range p.grid.nr {
		for i, v := range shared[r*p.grid.cols:][:p.grid.cols] {
			dst[i] += v
		}
	}
}

// finishColumns adds up nr rows of cols partial sums that lie stride apart.
func finishColumns[T Float](dst Strided[T], add bool, shared []float64, nr, cols, stride int) {
	var acc [sumBlock]float64
	for c0 := 0; c0 < cols; c0 += sumBlock {
		n := min(sumBlock, cols-c0)
		clear(acc[:n])
		for r := range nr {
			addSums(acc[:n], shared[r*stride+c0:][:n])
		}
		store(dst, add, acc[:n], c0)
	}
}

func addSums(sums, x []float64) {
	if addSumsFast(sums, x) {
		return
	}
	for i, v := range x {
		sums[i] += v
	}
}

// store puts sums into elements [lo, lo+len(sums)) of dst, rounding each once.
func store[T Float](dst Strided[T], add bool, sums []float64, lo int) {
	var w walk
	w.start(lo, dst.Shape, dst.Strides, nil, nil)
	for at, end := lo, lo+len(sums); at < end; {
		n := w.run(end - at)
		d, s := dst.Data[w.off[0]:], sums[w.off[1]-lo:]
		if w.step[0] == 1 && w.step[1] == 1 {
			putRow(d[:n], add, s[:n])
		} else {
			for i := range n {
				putOne(d, add, i*w.step[0], s[i*w.step[1]])
			}
		}
		w.next(n)
		at += n
	}
}

// sumColumns sums rows [r0, r1) of as many columns from c0 on as make a block, and says how many those are. A block is
// some whole runs of neighbouring columns, or a piece of one.
func sumColumns[T summand, A accumulator](p *SumTo, acc *[sumBlock]A, src []T, r0, r1, c0, c1 int) int {
	var at [sumBlock]int // where each run's first row lies
	run, runs := p.block(&at, c0, c1)
	clear(acc[:run*runs])
	for n := 0; r0 < r1; r0 += n {
		n = r1 - r0
		if p.reduced.rank > 0 {
			n = min(n, p.reduced.size[0]-r0%p.reduced.size[0])
		}
		base := p.reduced.offset(r0, 0)
		for k, off := range at[:runs] {
			if p.inner {
				acc[k] += rowSum[A](src[base+off:][:n])
			} else {
				addDown(acc[k*run:][:run], src[base+off:], n, p.reduced.stride[0])
			}
		}
	}
	return run * runs
}

// block fills in where the runs of the block that starts at column c0 lie.
func (p *SumTo) block(at *[sumBlock]int, c0, c1 int) (run, runs int) {
	unit := p.unit()
	if unit == 1 && !p.inner && p.kept.rank > 0 { // a piece of one long run
		in := c0 % p.kept.size[0]
		at[0] = in + p.kept.offset(c0/p.kept.size[0], 1)
		return min(sumBlock, p.kept.size[0]-in, c1-c0), 1
	}
	from := 1 // the run itself is dimension 0
	if p.inner {
		from = 0
	}
	runs = min(sumBlock, c1-c0) / unit
	for i := range runs {
		at[i] = p.kept.offset(c0/unit+i, from)
	}
	return unit, runs
}

// sumRow is the sum of x.
func sumRow[T Float](x []T) float64 { return rowSum[float64](x) }

// rowSum is the sum of x in four interleaved chains.
func rowSum[A accumulator, T summand](x []T) A {
	if s, ok := sumFast(x); ok {
		return A(s)
	}
	var s0, s1, s2, s3 A
	for len(x) >= 4 {
		s0 += A(x[0])
		s1 += A(x[1])
		s2 += A(x[2])
		s3 += A(x[3])
		x = x[4:]
	}
	for _, v := range x {
		s0 += A(v)
	}
	return (s0 + s1) + (s2 + s3)
}

// addDown adds n rows of x, stride apart, to acc: four at a time, so that the rows' cache misses overlap.
func addDown[T summand, A accumulator](acc []A, x []T, n, stride int) {
	if addDownFast(acc, x, n, stride) {
		return
	}
	m := len(acc)
	for ; n >= 4; n -= 4 {
		a, b, c, d := x[:m], x[stride:][:m], x[2*stride:][:m], x[3*stride:][:m]
		for i := range acc {
			acc[i] += (A(a[i]) + A(b[i])) + (A(c[i]) + A(d[i]))
		}
		x = x[min(4*stride, len(x)):]
	}
	for ; n > 0; n-- {
		for i, v := range x[:m] {
			acc[i] += A(v)
		}
		x = x[min(stride, len(x)):]
	}
}
