// What norm.go does, for halves: they are widened by the block, on the stack, and rounded to nearest even where they are
// written.

package kernel

// SumSquares is the sum of x^2 in float64. It is finite exactly if all elements are.
func (h Half) SumSquares(x []uint16) (sum float64) {
	var room [expBlock]float32
	for at := 0; at < len(x); at += expBlock {
		sum += SumSquares(h.block(&room, x, at))
	}
	return sum
}

// Multiply scales x in place, in float32.
func (h Half) Multiply(x []uint16, k float32) {
	var room [expBlock]float32
	for at := 0; at < len(x); at += expBlock {
		v := h.block(&room, x, at)
		Multiply(v, k)
		h.Round(x[at:at+len(v)], v)
	}
}

// ClipTo brings each element into [-limit, limit]; a limit between two halves is rounded. NaN stays NaN.
func (h Half) ClipTo(x []uint16, limit float32) {
	var room [expBlock]float32
	for at := 0; at < len(x); at += expBlock {
		v := h.block(&room, x, at)
		ClipTo(v, limit)
		h.Round(x[at:at+len(v)], v)
	}
}

// FirstNonFinite is the index of the first NaN or Inf, or -1.
func (h Half) FirstNonFinite(x []uint16) int {
	var room [expBlock]float32
	for at := 0; at < len(x); at += expBlock {
		if i := FirstNonFinite(h.block(&room, x, at)); i >= 0 {
			return at + i
		}
	}
	return -1
}

// block is the values of the elements from at on that fit into room.
func (h Half) block(room *[expBlock]float32, x []uint16, at int) []float32 {
	v := room[:min(len(x)-at, expBlock)]
	h.Widen(v, x[at:at+len(v)])
	return v
}
