package tensor

import "slices"

// Stride is how many elements lie between neighbours along dimension i; negative i counts from the end. It panics if
// there is no such dimension.
func (t *Tensor) Stride(i int) int {
	if i < 0 {
		i += len(t.spec.Shape)
	}
	rest := t.spec.Shape[i:][1:]
	if t.strides != nil {
		return t.strides[i]
	}
	return product(rest)
}

// Strides is Stride of every dimension. Of a contiguous tensor they are computed: AppendStrides avoids the allocation.
// The caller must not modify them.
func (t *Tensor) Strides() []int {
	if t.strides != nil {
		return t.strides
	}
	return t.AppendStrides(make([]int, 0, len(t.spec.Shape)))
}

// AppendStrides appends the strides to dst, a caller's array cut to length 0.
func (t *Tensor) AppendStrides(dst []int) []int {
	if t.strides != nil {
		return append(dst, t.strides...)
	}
	n := len(dst)
	dst = append(dst, t.spec.Shape...)
	rowMajor(dst[n:], t.spec.Shape)
	return dst
}

// rowMajor fills strides with those of a contiguous tensor.
func rowMajor(strides, shape []int) {
	step := 1
	for i, d := range slices.Backward(shape) {
		strides[i] = step
		step *= d
	}
}

// contiguous reports whether strides are those of a contiguous tensor. Where a dimension is 1 its stride does not matter,
// and where there is no element none does.
func contiguous(shape, strides []int) bool {
	step, ok := 1, true
	for i, d := range slices.Backward(shape) {
		if d != 1 && strides[i] != step {
			ok = false
		}
		step *= d
	}
	return ok || step == 0
}

// reach is the number of elements between the first and the last of the view, both counted: 0 if there are none.
func (t *Tensor) reach() int {
	n := t.spec.Elems()
	if t.strides == nil || n == 0 {
		return n
	}
	last := 0
	for i, d := range t.spec.Shape {
		last += (d - 1) * t.strides[i]
	}
	return last + 1
}

// with is the view of t's storage of the given shape, which must fit; strides are kept only where they say something.
func (t *Tensor) with(shape, strides []int, offset int) Tensor {
	v := Tensor{buf: t.buf, spec: Spec{t.spec.DType, slices.Clip(shape)}, offset: offset}
	if strides != nil && !contiguous(shape, strides) {
		v.strides = slices.Clip(strides)
	}
	return v
}
