// Copies over one shape, each operand with its own strides:
//
//	Copy        dst = src          contiguous copies, expansion, gradients into views
//	Clear       dst = 0
//	Accumulate  dst += src         gradients that meet, and gradients added to views
//	Scale       dst = or += k*src  a copy times a number

package kernel

// Copy fills elements [lo, hi), in row-major order, of dst with those of src.
func Copy[T any](dst, src Strided[T], lo, hi int) {
	var w walk
	w.start(lo, dst.Shape, dst.Strides, src.Strides, src.Strides)
	elems := Elems(dst.Shape)
	for n := 0; lo < hi; lo += n {
		n = w.run(hi - lo)
		d, s, sd, ss := dst.Data[w.off[0]:], src.Data[w.off[1]:], w.step[0], w.step[1]
		if sd != 1 || ss != 1 || !copyStream(d[:n], s[:n], elems) {
			copyRun(d, s, n, sd, ss)
		}
		w.next(n)
	}
}

// copyRun copies n elements of s to d.
func copyRun[T any](d, s []T, n, sd, ss int) {
	if sd == 1 && ss == 1 {
		copy(d[:n], s[:n])
		return
	}
	for i := range n {
		d[i*sd] = s[i*ss]
	}
}

// Clear sets elements [lo, hi), in row-major order, of dst to zero.
func Clear[T any](dst Strided[T], lo, hi int) {
	var zero T
	var w walk
	w.start(lo, dst.Shape, dst.Strides, dst.Strides, dst.Strides)
	for n := 0; lo < hi; lo += n {
		n = w.run(hi - lo)
		d := dst.Data[w.off[0]:]
		for i := range n {
			d[i*w.step[0]] = zero
		}
		w.next(n)
	}
}

// Accumulate adds elements [lo, hi), in row-major order, of src to those of dst.
func Accumulate[T Number](dst, src Strided[T], lo, hi int) { Add(dst, dst, src, lo, hi) }

// Scale fills elements [lo, hi), in row-major order, of dst with k*src, or adds k*src to them.
func Scale[T Number](dst, src Strided[T], k T, add bool, lo, hi int) {
	var w walk
	w.start(lo, dst.Shape, dst.Strides, src.Strides, src.Strides)
	for n := 0; lo < hi; lo += n {
		n = w.run(hi - lo)
		sd, ss := w.step[0], w.step[1]
		d, s := dst.Data[w.off[0]:], src.Data[w.off[1]:]
		if sd == 1 && ss == 1 {
			scaleRow(d[:n], s[:n], k, add)
		} else {
			scaleRun(d, s, n, sd, ss, k, add)
		}
		w.next(n)
	}
}

func scaleRow[T Number](d, s []T, k T, add bool) {
	if scaleFast(d, add, s, k) {
		return
	}
	s = s[:len(d)]
	if add {
		for i := range d {
			d[i] += k * s[i]
		}
		return
	}
	for i := range d {
		d[i] = k * s[i]
	}
}

func scaleRun[T Number](d, s []T, n, sd, ss int, k T, add bool) {
	if add {
		for i := range n {
			d[i*sd] += k * s[i*ss]
		}
		return
	}
	for i := range n {
		d[i*sd] = k * s[i*ss]
	}
}
