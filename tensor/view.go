package tensor

import (
	"fmt"
	"slices"
)

// All views share the buffer and its version and take no reference of their own: they live as long as the base's.
// Dimensions may be negative, counting from the end; positions may not.

// Slice is the elements with positions lo up to and without hi along dim.
func (t *Tensor) Slice(dim, lo, hi int) (Tensor, error) {
	d, err := t.spec.axis(dim)
	if err != nil {
		return Tensor{}, fmt.Errorf("tensor: slice %v: %w", t.spec, err)
	}
	if n := t.spec.Shape[d]; lo < 0 || hi < lo || hi > n {
		return Tensor{}, fmt.Errorf("tensor: slice %v: [%d:%d] of dim %d, of size %d", t.spec, lo, hi, d, n)
	}
	shape, strides := t.room()
	shape[d] = hi - lo
	return t.with(shape, strides, t.offset+lo*strides[d]), nil
}

// SliceStep is every step-th of the elements with positions lo up to and without hi along dim, the one at lo first.
func (t *Tensor) SliceStep(dim, lo, hi, step int) (Tensor, error) {
	v, err := t.Slice(dim, lo, hi)
	switch {
	case err != nil:
		return Tensor{}, err
	case step < 1:
		return Tensor{}, fmt.Errorf("tensor: slice %v: step %d: want 1 or more", t.spec, step)
	}
	d, _ := t.spec.axis(dim)
	step = min(step, max(1, hi-lo)) // more is the same, and might overflow
	shape, strides := v.room()
	shape[d] = (hi - lo + step - 1) / step
	strides[d] = step * t.Stride(d)
	return t.with(shape, strides, v.offset), nil
}

// Select is the elements with position i along dim, which goes away.
func (t *Tensor) Select(dim, i int) (Tensor, error) {
	d, err := t.spec.axis(dim)
	if err != nil {
		return Tensor{}, fmt.Errorf("tensor: select %v: %w", t.spec, err)
	}
	if n := t.spec.Shape[d]; i < 0 || i >= n {
		return Tensor{}, fmt.Errorf("tensor: select %v: [%d] of dim %d, of size %d: want 0 to %d", t.spec, i, d, n, n-1)
	}
	shape, strides := t.room()
	offset := t.offset + i*strides[d]
	return t.with(slices.Delete(shape, d, d+1), slices.Delete(strides, d, d+1), offset), nil
}

// Transpose swaps two dimensions.
func (t *Tensor) Transpose(i, j int) (Tensor, error) {
	a, err := t.spec.axis(i)
	if err != nil {
		return Tensor{}, fmt.Errorf("tensor: transpose %v: %w", t.spec, err)
	}
	b, err := t.spec.axis(j)
	if err != nil {
		return Tensor{}, fmt.Errorf("tensor: transpose %v: %w", t.spec, err)
	}
	shape, strides := t.room()
	shape[a], shape[b] = shape[b], shape[a]
	strides[a], strides[b] = strides[b], strides[a]
	return t.with(shape, strides, t.offset), nil
}

// Permute puts dimension dims[i] at place i. Each dimension must be named once.
func (t *Tensor) Permute(dims ...int) (Tensor, error) {
	if len(dims) != t.Rank() {
		return Tensor{}, fmt.Errorf("tensor: permute %v by %v: want %d dims", t.spec, slices.Clone(dims), t.Rank())
	}
	shape, strides := t.room()
	for i, dim := range dims {
		d, err := t.spec.axis(dim)
		if err != nil {
			return Tensor{}, fmt.Errorf("tensor: permute %v by %v: %w", t.spec, slices.Clone(dims), err)
		}
		if slices.Contains(dims[:i], d) || slices.Contains(dims[:i], d-t.Rank()) {
			return Tensor{}, fmt.Errorf("tensor: permute %v by %v: dim %d twice", t.spec, slices.Clone(dims), d)
		}
		shape[i], strides[i] = t.spec.Shape[d], t.Stride(d)
	}
	return t.with(shape, strides, t.offset), nil
}

// Unsqueeze puts a dimension of size 1 at place dim; the last place is rank, or -1.
func (t *Tensor) Unsqueeze(dim int) (Tensor, error) {
	d, err := axisOf(dim, t.Rank()+1)
	if err != nil {
		return Tensor{}, fmt.Errorf("tensor: unsqueeze %v: %w", t.spec, err)
	}
	shape, strides := t.room()
	return t.with(slices.Insert(shape, d, 1), slices.Insert(strides, d, 0), t.offset), nil
}

// Squeeze takes dimension dim away, which must be of size 1.
func (t *Tensor) Squeeze(dim int) (Tensor, error) {
	d, err := t.spec.axis(dim)
	if err != nil {
		return Tensor{}, fmt.Errorf("tensor: squeeze %v: %w", t.spec, err)
	}
	if n := t.spec.Shape[d]; n != 1 {
		return Tensor{}, fmt.Errorf("tensor: squeeze %v: dim %d is of size %d, want 1", t.spec, d, n)
	}
	return t.Select(d, 0)
}

// room is a copy of shape and strides to build a view's from, in one allocation with a place to spare for each.
func (t *Tensor) room() (shape, strides []int) {
	n := len(t.spec.Shape)
	room := make([]int, 2*n+2)
	shape = append(room[:0:n+1], t.spec.Shape...)
	strides = t.AppendStrides(room[n+1 : n+1])
	return shape, strides
}
