// Gather: elements of x along dimension dim, by index. The other dimensions of x are at least as long as index's.
//
//	forward   y[.. j ..]             = x[.. index[.. j ..] ..]      reads x and index
//	backward  dx[.. index[.. j ..] ..] += g[.. j ..]                reads g and index
//
// y and g have index's shape. An index that is the same for all of a run (stride 0, as in an index select) moves the run
// whole.
//
// Elements of g meet in dx only along dim, so backward is cut along another dimension: whoever meets is added by one
// chunk, in ascending order of j, and there are no atomic additions.

package kernel

// Gather fills elements [lo, hi), in row-major order, of y, which is contiguous. It leaves those out whose index is no
// position of x along dim, and tells whether there were none.
func Gather[T any, I Index](y []T, x Strided[T], index Strided[I], dim, lo, hi int) (ok bool) {
	if len(x.Data) == 0 {
		return lo >= hi
	}
	var room [MaxRank]int
	xs := fullStrides(&room, x)
	along, n := xs[dim], uint64(x.Shape[dim])
	xs[dim] = 0
	var w walk
	w.start(lo, index.Shape, nil, index.Strides, xs)
	ok = true
	for k := 0; lo < hi; lo += k {
		k = w.run(hi - lo)
		d, j, s := y[w.off[0]:], index.Data[w.off[1]:], x.Data[w.off[2]:]
		if w.step[1] == 0 {
			if uint64(j[0]) < n {
				copyRun(d, s[int(j[0])*along:], k, w.step[0], w.step[2])
			} else {
				ok = false
			}
		} else {
			ok = gatherRun(d, s, j, k, w.step, along, n) && ok
		}
		w.next(k)
	}
	return ok
}

// gatherRun is a run of k elements, each with an index of its own.
func gatherRun[T any, I Index](d, s []T, j []I, k int, step [3]int, along int, n uint64) (ok bool) {
	ok = true
	sd, sj, ss := step[0], step[1], step[2]
	for i := range k {
		v := uint64(j[i*sj])
		if v >= n {
			ok = false
			continue
		}
		d[i*sd] = s[int(v)*along+i*ss]
	}
	return ok
}

// NoPosition is the first element, in row-major order, of an index that is not from 0 to n-1, or -1.
func NoPosition[I Index](index Strided[I], n int) int {
	var w walk
	w.start(0, index.Shape, index.Strides, index.Strides, index.Strides)
	w.turned = false // in row-major order
	elems := Elems(index.Shape)
	for at, k := 0, 0; at < elems; at += k {
		k = w.run(elems - at)
		for i := range k {
			if uint64(index.Data[w.off[0]+i*w.step[0]]) >= uint64(n) {
				return at + i
			}
		}
		w.next(k)
	}
	return -1
}

// GatherChunks is the number of chunks of GatherBackward for an index of this shape.
func GatherChunks(shape []int, dim int) int {
	if Elems(shape) == 0 {
		return 0
	}
	_, _, chunks := gatherCut(shape, dim)
	return chunks
}

// gatherCut cuts along that dimension but dim which gives most chunks, the outermost of those. In the last one, whose
// elements are neighbours, chunks are not too narrow.
func gatherCut(shape []int, dim int) (cut, per, chunks int) {
	cut, chunks = -1, 1
	elems := Elems(shape)
	for d, n := range shape {
		if d == dim {
			continue
		}
		least := 1
		if d == len(shape)-1 {
			least = colsPerChunk
		}
		p := max(least, ChunkSize/(elems/n))
		if c := (n + p - 1) / p; c > chunks {
			cut, per, chunks = d, p, c
		}
	}
	return cut, per, chunks
}

// GatherBackward does chunk c of dx += g. Every index is a position of dx along dim.
func GatherBackward[T Float, I Index](dx, g Strided[T], index Strided[I], dim, c int) {
	var shape, dr, gr, jr [MaxRank]int
	rank := len(index.Shape)
	copy(shape[:], index.Shape)
	ds, gs, js := fullStrides(&dr, dx), fullStrides(&gr, g), fullStrides(&jr, index)
	d0, g0, j0 := 0, 0, 0
	if cut, per, _ := gatherCut(index.Shape, dim); cut >= 0 {
		lo := c * per
		shape[cut] = min(per, shape[cut]-lo)
		d0, g0, j0 = lo*ds[cut], lo*gs[cut], lo*js[cut]
	}
	along := ds[dim]
	ds[dim] = 0
	var w walk
	w.start(0, shape[:rank], ds, gs, js)
	for left, k := Elems(shape[:rank]), 0; left > 0; left -= k {
		k = w.run(left)
		d, s, j := dx.Data[d0+w.off[0]:], g.Data[g0+w.off[1]:], index.Data[j0+w.off[2]:]
		if w.step[2] == 0 {
			addRun(d[int(j[0])*along:], s, k, w.step[0], w.step[1])
		} else {
			scatterRun(d, s, j, k, w.step, along)
		}
		w.next(k)
	}
}

// scatterRun is a run of k elements, each with an index of its own.
func scatterRun[T Float, I Index](d, s []T, j []I, k int, step [3]int, along int) {
	sd, ss, sj := step[0], step[1], step[2]
	for i := range k {
		d[int(j[i*sj])*along+i*sd] += s[i*ss]
	}
}

// addRun adds n elements of s to d.
func addRun[T Float](d, s []T, n, sd, ss int) {
	if sd == 1 && ss == 1 {
		addRow(d[:n], d[:n], s[:n])
		return
	}
	for i := range n {
		d[i*sd] += s[i*ss]
	}
}

// fullStrides are the strides of s, written to room where s has none.
func fullStrides[T any](room *[MaxRank]int, s Strided[T]) []int {
	strides := room[:len(s.Shape)]
	if s.Strides != nil {
		copy(strides, s.Strides)
		return strides
	}
	step := 1
	for d := len(s.Shape) - 1; d >= 0; d-- {
		strides[d] = step
		step *= s.Shape[d]
	}
	return strides
}
