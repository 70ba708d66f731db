// Row kernels over strided operands. A row kernel takes slices without gaps. Where an operand lies in memory like that, at
// least for a while, its own elements are the row; where it is strided or repeated, as many elements as make a block are
// copied, in row-major order, to a row on the stack, and back if it is the destination. So each element-wise function
// is written once, for slices.

package kernel

// blocks is one operand, read or written up to expBlock elements at a time.
type blocks[T any] struct {
	data []T
	flat bool // no strides: no walk
	w    walk
	room [expBlock]T
}

// reach is how many of n elements are worked on at a time: all, if every operand is one row, or a block.
func reach(n int, rows bool) int {
	if rows {
		return n
	}
	return min(n, expBlock)
}

func (b *blocks[T]) open(o Strided[T]) {
	b.data, b.flat = o.Data, o.Strides == nil
	if !b.flat {
		b.w.start(0, o.Shape, o.Strides, o.Strides, o.Strides)
		b.w.turned = false // elements stay in row-major order
	}
}

// blockPair goes through elements [lo, hi) of a destination and a source, a block at a time:
//
//	for p.open(dst, src, lo, hi); p.more(); {
//		d, s := p.at()
//		...fill d, or add to it
//		p.put(d)
//	}
//
// (A function that takes the body as a value would move the blocks to Go's heap.)
type blockPair[D, S any] struct {
	d      blocks[D]
	s      blocks[S]
	lo, hi int
}

func (p *blockPair[D, S]) open(dst Strided[D], src Strided[S], lo, hi int) {
	p.d.open(dst)
	p.s.open(src)
	p.lo, p.hi = lo, hi
}

func (p *blockPair[D, S]) more() bool { return p.lo < p.hi }

func (p *blockPair[D, S]) at() (d []D, s []S) {
	n := min(expBlock, p.hi-p.lo)
	return p.d.at(p.lo, n), p.s.at(p.lo, n)
}

func (p *blockPair[D, S]) put(d []D) {
	p.d.put(p.lo, d)
	p.lo += len(d)
}

// at gives elements [pos, pos+n) of the row-major order: themselves, or a copy that lasts until the next call.
func (b *blocks[T]) at(pos, n int) []T {
	if b.flat {
		return b.data[pos:][:n]
	}
	if b.seek(pos, n) {
		return b.data[b.w.off[0]:][:n]
	}
	row := b.room[:n]
	for i := 0; i < n; {
		k := b.w.run(n - i)
		takeRow(row[i:i+k], b.data[b.w.off[0]:], b.w.step[0])
		b.w.next(k)
		i += k
	}
	return row
}

// put writes back what at(pos, len(row)) gave, if that was a copy.
func (b *blocks[T]) put(pos int, row []T) {
	if b.flat || b.seek(pos, len(row)) {
		return
	}
	for i := 0; i < len(row); {
		k := b.w.run(len(row) - i)
		d, step := b.data[b.w.off[0]:], b.w.step[0]
		for j, v := range row[i : i+k] {
			d[j*step] = v
		}
		b.w.next(k)
		i += k
	}
}

// seek goes to element pos and tells whether n elements from there on are neighbours in memory.
func (b *blocks[T]) seek(pos, n int) bool {
	b.w.off = [3]int{}
	b.w.seek(pos)
	return b.w.step[0] == 1 && b.w.run(n) == n
}

// takeRow fills row with every step-th element of src.
func takeRow[T any](row, src []T, step int) {
	switch step {
	case 1:
		copy(row, src)
	case 0:
		v := src[0]
		if fillFast(row, v) {
			return
		}
		for i := range row {
			row[i] = v
		}
	default:
		for i := range row {
			row[i] = src[i*step]
		}
	}
}
