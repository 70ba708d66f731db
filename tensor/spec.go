package tensor

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// Spec says what a tensor is without its data: an element type and a shape. A rank 0 shape is a scalar, of one element.
//
// A Shape is never modified after it was made: specs, tensors and views share it. Who builds a Spec as a literal gives
// the slice away.
type Spec struct {
	DType DType
	Shape []int
}

// Of is the spec of the given element type and dimensions, which it copies.
func Of(dt DType, shape ...int) Spec { return Spec{dt, slices.Clone(shape)} }

// Rank is the number of dimensions.
func (s Spec) Rank() int { return len(s.Shape) }

// Dim is the size of dimension i; negative i counts from the end, -1 being the last. It panics if there is none.
func (s Spec) Dim(i int) int {
	d, err := s.axis(i)
	if err != nil {
		panic(fmt.Sprintf("tensor: %v: %v", s, err))
	}
	return s.Shape[d]
}

// axis is dimension i counted from the start.
func (s Spec) axis(i int) (int, error) { return axisOf(i, len(s.Shape)) }

func axisOf(i, rank int) (int, error) {
	switch {
	case rank == 0:
		return 0, fmt.Errorf("dim %d of rank 0: there is no dim", i)
	case i < -rank || i >= rank:
		return 0, fmt.Errorf("dim %d of rank %d: want %d to %d", i, rank, -rank, rank-1)
	case i < 0:
		i += rank
	}
	return i, nil
}

// Elems is the number of elements: the product of the dimensions.
func (s Spec) Elems() int { return product(s.Shape) }

// Bytes is what the elements take, contiguous.
func (s Spec) Bytes() int64 { return int64(s.Elems()) * int64(s.DType.Size()) }

// Equal reports whether dtype and shape are the same.
func (s Spec) Equal(o Spec) bool { return s.DType == o.DType && slices.Equal(s.Shape, o.Shape) }

// SameShape reports whether the shapes are the same.
func (s Spec) SameShape(o Spec) bool { return slices.Equal(s.Shape, o.Shape) }

// Validate reports an unknown dtype, a negative dimension, and a size that an int cannot count. Dimensions of 0 count
// as 1 for the latter, so that no stride overflows either.
func (s Spec) Validate() error {
	if !s.DType.Valid() {
		return fmt.Errorf("tensor: spec %v: unknown dtype", s)
	}
	size := uint64(s.DType.Size())
	for i, n := range s.Shape {
		if n < 0 {
			return fmt.Errorf("tensor: spec %v: dim %d is negative", s, i)
		}
		high, low := bits.Mul64(size, uint64(max(n, 1)))
		if high > 0 || low > math.MaxInt {
			return fmt.Errorf("tensor: spec %v: too many elements", s)
		}
		size = low
	}
	return nil
}

// String is dtype and shape, as in "float32[8 256 384]".
func (s Spec) String() string {
	text := append(make([]byte, 0, 48), s.DType.String()...)
	text = append(text, '[')
	for i, n := range s.Shape {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, int64(n), 10)
	}
	return string(append(text, ']'))
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
