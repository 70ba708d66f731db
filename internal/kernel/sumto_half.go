package kernel

// SumPartHalf is [SumPart] of halves: they are widened a block at a time, and summed as that sums them.
func SumPartHalf(h Half, p *SumTo, dst Strided[float32], add bool, src []uint16, shared []float64, c int) {
	r0, r1, c0, c1, part := p.grid.cell(c)
	var acc [sumBlock]float64
	for c0 < c1 {
		n := sumHalves(h, p, &acc, src, r0, r1, c0, c1)
		if p.grid.nr == 1 {
			store(dst, add, acc[:n], c0)
		} else {
			copy(shared[part*p.grid.cols+c0:], acc[:n])
		}
		c0 += n
	}
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
