package kernel

// Lines sees a contiguous tensor as [outer n inner], for what goes along the dimension in the middle: outer x inner lines
// of n elements, inner apart. Work is cut into strips of at most lineStrip neighbouring lines, whole lines always.
type Lines struct{ Outer, N, Inner int }

// lineStrip is how many neighbouring lines are worked on side by side: what fits on the stack and in the first cache.
const lineStrip = 64

// LinesAlong are the lines along dimension d of a shape.
func LinesAlong(shape []int, d int) Lines {
	return Lines{Elems(shape[:d]), shape[d], Elems(shape[d+1:])}
}

// Elems is the number of elements.
func (l Lines) Elems() int { return l.Outer * l.N * l.Inner }

// strips of one outer index.
func (l Lines) strips() int { return (l.Inner + lineStrip - 1) / lineStrip }

// stripsPerChunk is how many make about one flat chunk.
func (l Lines) stripsPerChunk() int { return rowsPerChunk(l.N * min(l.Inner, lineStrip)) }

// Chunks is the number of pieces that the work is cut into.
func (l Lines) Chunks() int {
	per := l.stripsPerChunk()
	return (l.Outer*l.strips() + per - 1) / per
}

// chunk gives the strips of chunk c.
func (l Lines) chunk(c int) (lo, hi int) {
	per := l.stripsPerChunk()
	return c * per, min(l.Outer*l.strips(), (c+1)*per)
}

// strip is where strip i starts, and how many lines it has.
func (l Lines) strip(i int) (at, width int) {
	n := l.strips()
	in := i % n * lineStrip
	return i/n*l.N*l.Inner + in, min(lineStrip, l.Inner-in)
}
