// dst = a + b, element by element over one shape, each operand with its own strides.
// Reads a and b. Broadcasting is stride 0.

package kernel

// Number is what can be added.
type Number interface {
	Float | int32 | int64
}

// Add fills elements [lo, hi), in row-major order, of dst with a + b. dst may be a or b.
func Add[T Number](dst, a, b Strided[T], lo, hi int) {
	if dst.Strides == nil && a.Strides == nil && b.Strides == nil {
		addFlat(dst.Data[lo:hi], a.Data[lo:hi], b.Data[lo:hi], len(dst.Data))
		return
	}
	var w walk
	w.start(lo, dst.Shape, dst.Strides, a.Strides, b.Strides)
	elems := Elems(dst.Shape)
	for n := 0; lo < hi; lo += n {
		n = w.run(hi - lo)
		sd, sa, sb := w.step[0], w.step[1], w.step[2]
		d, x, y := dst.Data[w.off[0]:], a.Data[w.off[1]:], b.Data[w.off[2]:]
		switch {
		case sd == 1 && sa == 1 && sb == 1:
			addFlat(d[:n], x[:n], y[:n], elems)
		case sd == 1 && sa == 1 && sb == 0:
			addScalarRow(d[:n], x[:n], y[0])
		case sd == 1 && sa == 0 && sb == 1:
			addScalarRow(d[:n], y[:n], x[0])
		default:
			for i := range n {
				d[i*sd] = x[i*sa] + y[i*sb]
			}
		}
		w.next(n)
	}
}

// AddFlat is Add of operands without gaps, to be had without building them.
func AddFlat[T Number](dst, a, b []T) { addFlat(dst, a, b, len(dst)) }

// addFlat is addRow on a piece of a tensor of that many elements.
func addFlat[T Number](d, x, y []T, elems int) {
	if !addStream(d, x, y, elems) {
		addRow(d, x, y)
	}
}

func addRow[T Number](d, x, y []T) {
	if addFast(d, x, y) {
		return
	}
	x, y = x[:len(d)], y[:len(d)]
	for i := range d {
		d[i] = x[i] + y[i]
	}
}

func addScalarRow[T Number](d, x []T, y T) {
	if addScalarFast(d, x, y) {
		return
	}
	x = x[:len(d)]
	for i := range d {
		d[i] = x[i] + y
	}
}
