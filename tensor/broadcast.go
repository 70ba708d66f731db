package tensor

import (
	"fmt"
	"slices"
)

// BroadcastShapes is the shape that a and b broadcast to, by NumPy's and PyTorch's rules: aligned at their last
// dimension, equal sizes stay, a size of 1 or a missing one takes the other's. If that is a or b itself, it is returned
// as it is and nothing is allocated.
func BroadcastShapes(a, b []int) ([]int, error) {
	isA, isB := len(a) >= len(b), len(b) >= len(a)
	rank := max(len(a), len(b))
	for i := 1; i <= rank; i++ {
		x, y := fromEnd(a, i), fromEnd(b, i)
		switch {
		case x == y:
		case y == 1:
			isB = false
		case x == 1:
			isA = false
		default:
			return nil, fmt.Errorf("tensor: broadcast %v with %v: dim -%d is %d and %d",
				slices.Clone(a), slices.Clone(b), i, x, y)
		}
	}
	switch {
	case isA:
		return a, nil
	case isB:
		return b, nil
	}
	out := make([]int, rank)
	for i := 1; i <= rank; i++ {
		if out[rank-i] = fromEnd(a, i); out[rank-i] == 1 {
			out[rank-i] = fromEnd(b, i)
		}
	}
	return out, nil
}

// fromEnd is the i-th size from the end, 1 where there is none.
func fromEnd(shape []int, i int) int {
	if i > len(shape) {
		return 1
	}
	return shape[len(shape)-i]
}

// BroadcastTo reports whether a tensor of shape from can be expanded to shape to: it has no more dimensions, and each of
// its sizes, aligned at the last, is 1 or equal.
func BroadcastTo(from, to []int) bool {
	if len(from) > len(to) {
		return false
	}
	for i := 1; i <= len(from); i++ {
		if x := fromEnd(from, i); x != 1 && x != fromEnd(to, i) {
			return false
		}
	}
	return true
}

// BroadcastTo is t expanded to shape, for engines that have checked it: repeated dimensions have stride 0. Of an equal
// shape it is t itself, without an allocation. It keeps shape, and panics if t cannot be expanded to it.
func (t *Tensor) BroadcastTo(shape []int) Tensor {
	if slices.Equal(t.spec.Shape, shape) {
		return *t
	}
	return t.BroadcastWith(shape, make([]int, len(shape)))
}

// BroadcastWith is BroadcastTo with room for the strides, as many as shape has dimensions and all 0, which it keeps.
func (t *Tensor) BroadcastWith(shape, strides []int) Tensor {
	if !BroadcastTo(t.spec.Shape, shape) {
		panic(fmt.Sprintf("tensor: expand %v to %v: sizes must be equal or 1", t.spec, slices.Clone(shape)))
	}
	lead := len(shape) - len(t.spec.Shape)
	for i, d := range t.spec.Shape {
		if d == shape[lead+i] {
			strides[lead+i] = t.Stride(i)
		}
	}
	return t.with(shape, strides, t.offset)
}

// Expand is the view of t with dimensions of size 1, and new leading ones, repeated to the given sizes; -1 keeps an
// existing size. Repeated dimensions have stride 0, and no bulk function writes to such a view.
func (t *Tensor) Expand(shape ...int) (Tensor, error) {
	to := slices.Clone(shape)
	lead := len(to) - len(t.spec.Shape)
	for i, d := range to {
		if d == -1 && i >= lead && lead >= 0 {
			to[i] = t.spec.Shape[i-lead]
		}
	}
	s := Spec{t.spec.DType, to}
	if err := s.Validate(); err != nil {
		return Tensor{}, fmt.Errorf("tensor: expand %v to %v: a size is negative or too large", t.spec, slices.Clone(shape))
	}
	if !BroadcastTo(t.spec.Shape, to) {
		return Tensor{}, fmt.Errorf("tensor: expand %v to %v: sizes must be equal or 1", t.spec, slices.Clone(shape))
	}
	return t.BroadcastTo(to), nil
}
