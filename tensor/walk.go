package tensor

import "slices"

// walk is the one loop over strides: it goes through two operands of one shape in row-major order and yields runs, inner
// loops in which each operand moves by a constant step. Dimensions that follow one another without a gap in both operands
// are joined first, so that two contiguous tensors are one run whatever their rank.
//
//	var room [maxAxes]axis
//	for w := over(room[:0], dst, src); w.next(); {
//		for k, i, j := 0, w.a, w.b; k < w.n; k, i, j = k+1, i+w.stepA, j+w.stepB {
//
// Positions count from each operand's first element, as Raw and words do.
type walk struct {
	n            int // elements of a run
	a, b         int // where the run starts
	stepA, stepB int

	axes    []axis // the dimensions around the run, innermost first
	started bool
}

// axis is one dimension: its size, the operands' strides, and where the walk is.
type axis struct{ n, a, b, i int }

// maxAxes is how many joined dimensions a walk has room for on the stack; more are taken from the heap.
const maxAxes = 16

// over starts a walk over a and b, which have one shape; for one operand, pass it twice. room is cut to length 0.
func over(room []axis, a, b *Tensor) walk {
	w := walk{n: 1, axes: room}
	fullA, fullB := 1, 1 // strides of a contiguous tensor, of dimensions handled so far
	inner := axis{n: 1}
	for i, d := range slices.Backward(a.spec.Shape) {
		x := axis{n: d, a: fullA, b: fullB}
		if a.strides != nil {
			x.a = a.strides[i]
		}
		if b.strides != nil {
			x.b = b.strides[i]
		}
		fullA, fullB = fullA*d, fullB*d
		switch {
		case d == 0:
			return walk{}
		case d == 1:
		case inner.n == 1:
			inner = x
		case x.a == inner.a*inner.n && x.b == inner.b*inner.n:
			inner.n *= d
		default:
			w.axes = append(w.axes, inner)
			inner = x
		}
	}
	w.axes = append(w.axes, inner)
	run := w.axes[0]
	w.n, w.stepA, w.stepB, w.axes = run.n, run.a, run.b, w.axes[1:]
	return w
}

// next moves to the next run, or to the first; false says that there is none.
func (w *walk) next() bool {
	if !w.started {
		w.started = true
		return w.n > 0
	}
	for k := range w.axes {
		x := &w.axes[k]
		if x.i++; x.i < x.n {
			w.a, w.b = w.a+x.a, w.b+x.b
			return true
		}
		w.a, w.b, x.i = w.a-(x.n-1)*x.a, w.b-(x.n-1)*x.b, 0
	}
	return false
}
