package kernel

// MixedSum is a sum as [SumPart] makes it, where source or destination are of a half type: halves are widened a block at a
// time, summed as float32 is, and rounded once. Of each pair one is given.
type MixedSum struct {
	*SumTo
	Half    Half
	Src     []float32
	SrcBits []uint16
	Dst     Strided[float32]
	DstBits Strided[uint16]
	Add     bool
}

// Part sums chunk c: into the destination if one row range holds all rows, into shared otherwise.
func (s *MixedSum) Part(shared []float64, c int) {
	p := s.SumTo
	r0, r1, c0, c1, part := p.grid.cell(c)
	var acc [sumBlock]float64
	for c0 < c1 {
		var n int
		if s.SrcBits != nil {
			n = sumHalves(s.Half, p, &acc, s.SrcBits, r0, r1, c0, c1)
		} else {
			n = sumColumns(p, &acc, s.Src, r0, r1, c0, c1)
		}
		if p.grid.nr == 1 {
			s.store(acc[:n], c0)
		} else {
			copy(shared[part*p.grid.cols+c0:], acc[:n])
		}
		c0 += n
	}
}

// Finish adds the partial sums up. It is called once, after all chunks, and does nothing where there are none.
func (s *MixedSum) Finish(shared []float64) {
	nr, cols := s.grid.nr, s.grid.cols
	var acc [sumBlock]float64
	for c0 := 0; c0 < cols && nr > 1; c0 += sumBlock {
		n := min(sumBlock, cols-c0)
		clear(acc[:n])
		for r := range nr {
			addSums(acc[:n], shared[r*cols+c0:][:n])
		}
		s.store(acc[:n], c0)
	}
}

// store puts sums into the destination from element number at on.
func (s *MixedSum) store(sums []float64, at int) {
	if s.DstBits.Data == nil {
		store(s.Dst, s.Add, sums, at)
		return
	}
	var room [sumBlock]float32
	for i, v := range sums {
		room[i] = float32(v)
	}
	PutHalf(s.Half, s.DstBits, s.Add, room[:len(sums)], at)
}

// sumHalves is sumColumns of halves.
func sumHalves(h Half, p *SumTo, acc *[sumBlock]float64, src []uint16, r0, r1, c0, c1 int) int {
	var at [sumBlock]int
	var room [4 * sumBlock]float32
	run, runs := p.block(&at, c0, c1)
	clear(acc[:run*runs])
	for n := 0; r0 < r1; r0 += n {
		n = r1 - r0
		if p.reduced.rank > 0 {
			n = min(n, p.reduced.size[0]-r0%p.reduced.size[0])
		}
		base := p.reduced.offset(r0, 0)
		for k, off := range at[:runs] {
			x := src[base+off:]
			if p.inner {
				acc[k] += halfSum(h, x[:n], room[:])
			} else {
				addDownHalf(h, acc[k*run:][:run], x, n, p.reduced.stride[0], room[:])
			}
		}
	}
	return run * runs
}

// halfSum is the sum of x.
func halfSum(h Half, x []uint16, room []float32) (sum float64) {
	for len(x) > 0 {
		n := min(len(x), len(room))
		h.Widen(room[:n], x[:n])
		sum += sumRow(room[:n])
		x = x[n:]
	}
	return sum
}

// addDownHalf is addDown of halves: four rows at a time, as it takes them.
func addDownHalf(h Half, acc []float64, x []uint16, n, stride int, room []float32) {
	m := len(acc)
	for i := 0; i < n; i += 4 {
		rows := min(4, n-i)
		for r := range rows {
			h.Widen(room[r*m:][:m], x[(i+r)*stride:][:m])
		}
		addDown(acc, room, rows, m)
	}
}
