package tensor

import (
	"errors"
	"fmt"
	"slices"
)

// Reshape is the same elements in the same order under another shape. One size may be -1, for what is left. Of a view
// that is not contiguous the elements may not lie so that strides could reach them: then the error says to take
// Contiguous first.
func (t *Tensor) Reshape(shape ...int) (Tensor, error) {
	to, err := t.reshaped(shape)
	if err != nil {
		return Tensor{}, fmt.Errorf("tensor: reshape %v to %v: %w", t.spec, slices.Clone(shape), err)
	}
	if t.strides == nil {
		return t.with(to, nil, t.offset), nil
	}
	strides, ok := regroup(t.spec.Shape, t.strides, to)
	if !ok {
		return Tensor{}, fmt.Errorf("tensor: reshape %v to %v: strides %v allow no such view: take Contiguous first",
			t.spec, to, t.strides)
	}
	return t.with(to, strides, t.offset), nil
}

// reshaped is a copy of shape with -1 resolved and the count of elements checked.
func (t *Tensor) reshaped(shape []int) ([]int, error) {
	to := slices.Clone(shape)
	elems := t.spec.Elems()
	free := slices.Index(to, -1)
	if free >= 0 {
		to[free] = 1
		rest := product(to)
		if slices.Contains(to, -1) {
			return nil, errors.New("-1 may stand once")
		}
		if rest <= 0 || elems%rest != 0 {
			return nil, fmt.Errorf("no size for -1 gives %d elements", elems)
		}
		to[free] = elems / rest
	}
	if err := (Spec{t.spec.DType, to}).Validate(); err != nil {
		return nil, errors.New("a size is negative or too large")
	}
	if got := product(to); got != elems {
		return nil, fmt.Errorf("want %d elements, got %d", elems, got)
	}
	return to, nil
}

// regroup finds the strides with which shape to walks over the elements that (shape, strides) reaches, in the same order.
// The two shapes are cut, from the left, into the smallest groups of equal product; inside a group the old dimensions
// must follow one another without a gap, and the new ones divide what they span.
func regroup(shape, strides, to []int) ([]int, bool) {
	if slices.Contains(shape, 0) {
		return nil, true // no elements, no strides
	}
	shape, strides = without1(shape, strides)
	out := make([]int, len(to))
	i, j := 0, 0
	for i < len(shape) && j < len(to) {
		first := j
		have, want := shape[i], to[j]
		i, j = i+1, j+1
		for have != want {
			if have < want {
				if strides[i-1] != shape[i]*strides[i] {
					return nil, false
				}
				have *= shape[i]
				i++
			} else {
				want *= to[j]
				j++
			}
		}
		step := strides[i-1]
		for k := j - 1; k >= first; k-- {
			out[k] = step
			step *= to[k]
		}
	}
	return out, true // what is left of to are ones, whose strides do not matter
}

// without1 drops the dimensions of size 1.
func without1(shape, strides []int) ([]int, []int) {
	var n, s []int
	for i, d := range shape {
		if d != 1 {
			n, s = append(n, d), append(s, strides[i])
		}
	}
	return n, s
}
