// Strided operands: element (i0, i1, ...) of an operand is Data[i0*Strides[0] + i1*Strides[1] + ...].
//
// A walk goes through the elements [lo, hi) of the row-major order of a shape, in runs along its last dimension, and
// keeps one offset an operand. It divides once, at the start; from then on it only adds. Dimensions are merged where
// all operands allow it, so contiguous operands are one run, and a bias over [8 256 384] is a walk over [2048 384].
//
// Where an operand is transposed, its neighbours lie in the next row and not in the next column. Then several whole rows
// are taken side by side and the runs go across them, which uses each cache line that was fetched.

package kernel

// MaxRank is the largest rank of a strided operand.
const MaxRank = 16

// Strided is one operand: a view's elements from its first one on, its shape, and its strides in elements, none
// negative. Stride 0 repeats a dimension. No strides at all mean contiguous. Operands of one call have one shape.
type Strided[T any] struct {
	Data    []T
	Shape   []int
	Strides []int
}

// Contiguous is an operand without gaps.
func Contiguous[T any](data []T, shape []int) Strided[T] { return Strided[T]{Data: data, Shape: shape} }

// Elems is the number of elements of a shape.
func Elems(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// walk is the state of one pass over three operands. Index 0 of its arrays is the innermost dimension.
type walk struct {
	rank   int
	size   [MaxRank]int
	stride [3][MaxRank]int
	index  [MaxRank]int
	turned bool   // an operand is transposed
	across int    // rows side by side; 0 for runs along a row
	off    [3]int // where each operand's current run starts
	step   [3]int // and its stride
}

// start merges dimensions and goes to element lo. Operands may be named twice where there are fewer than three.
func (w *walk) start(lo int, shape, s0, s1, s2 []int) {
	contiguous := 1
	for d := len(shape) - 1; d >= 0; d-- {
		n := shape[d]
		if n != 1 {
			w.push(n, [3]int{pick(s0, d, contiguous), pick(s1, d, contiguous), pick(s2, d, contiguous)})
			contiguous *= n
		}
	}
	if w.rank == 0 {
		w.push(1, [3]int{1, 1, 1})
	}
	w.step = [3]int{w.stride[0][0], w.stride[1][0], w.stride[2][0]}
	for k := range w.stride {
		w.turned = w.turned || w.rank > 1 && w.stride[k][1] == 1 && w.stride[k][0] > 1
	}
	w.seek(lo)
}

func pick(strides []int, d, contiguous int) int {
	if strides == nil {
		return contiguous
	}
	return strides[d]
}

// push appends an outer dimension, or makes the last one longer.
func (w *walk) push(n int, s [3]int) {
	r := w.rank
	if r > 0 {
		m := w.size[r-1]
		if s[0] == m*w.stride[0][r-1] && s[1] == m*w.stride[1][r-1] && s[2] == m*w.stride[2][r-1] {
			w.size[r-1] = m * n
			return
		}
	}
	w.size[r] = n
	for k := range s {
		w.stride[k][r] = s[k]
	}
	w.rank++
}

func (w *walk) seek(pos int) {
	for d := range w.rank {
		i := pos
		if n := w.size[d]; d < w.rank-1 && n > 0 {
			i, pos = pos%n, pos/n
		}
		w.index[d] = i
		for k := range w.off {
			w.off[k] += i * w.stride[k][d]
		}
	}
}

// run is the length of the run that starts here, at most limit. Its strides are w.step.
func (w *walk) run(limit int) int {
	if w.across > 0 {
		return w.across
	}
	if w.turned && w.index[0] == 0 {
		if n := min(rowsAcross, w.size[1]-w.index[1], limit/w.size[0]); n > 1 {
			w.across = n
			w.step = [3]int{w.stride[0][1], w.stride[1][1], w.stride[2][1]}
			return n
		}
	}
	return min(limit, w.size[0]-w.index[0])
}

// rowsAcross is half a cache line of float32: with more rows, operands whose rows are a power of two apart drive each
// other out of the first cache.
const rowsAcross = 8

// next goes on by the run of n elements that starts here.
func (w *walk) next(n int) {
	if w.across == 0 {
		w.move(0, n)
		return
	}
	w.index[0]++
	for k := range w.off {
		w.off[k] += w.stride[k][0]
	}
	if w.index[0] == w.size[0] { // the last column
		w.index[0] = 0
		for k := range w.off {
			w.off[k] -= w.size[0] * w.stride[k][0]
		}
		w.move(1, w.across)
		w.across = 0
		w.step = [3]int{w.stride[0][0], w.stride[1][0], w.stride[2][0]}
	}
}

// move goes n steps along dimension d, and out of its end on to the next row of it.
func (w *walk) move(d, n int) {
	w.index[d] += n
	for k := range w.off {
		w.off[k] += n * w.stride[k][d]
	}
	for ; w.index[d] == w.size[d] && d < w.rank-1; d++ {
		w.index[d] = 0
		w.index[d+1]++
		for k := range w.off {
			w.off[k] += w.stride[k][d+1] - w.size[d]*w.stride[k][d]
		}
	}
}
