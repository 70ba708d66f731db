package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// axis is dimension dim counted from the start, where negative dim counts from the end.
func axis(dim, rank int) (int, error) {
	switch {
	case rank == 0:
		return 0, fmt.Errorf("dim %d of a scalar: want a tensor with dimensions", dim)
	case dim < -rank || dim >= rank:
		return 0, fmt.Errorf("dim %d of rank %d: want %d to %d", dim, rank, -rank, rank-1)
	case dim < 0:
		dim += rank
	}
	return dim, nil
}

// wantRank refuses more dimensions than kernels walk over.
func wantRank(shape []int) error {
	if len(shape) > kernel.MaxRank {
		return fmt.Errorf("want at most %d dimensions, got %d", kernel.MaxRank, len(shape))
	}
	return nil
}

// addShape appends to sh an output of shape [lead... tail...].
func addShape(sh *autograd.Shapes, dt tensor.DType, lead []int, tail ...int) {
	var room [kernel.MaxRank]int
	sh.Add(dt, append(append(room[:0], lead...), tail...)...)
}

// matrix sees s as rows x cols, the columns being its last n dimensions.
func matrix(s tensor.Spec, n int) (rows, cols int) {
	at := len(s.Shape) - n
	return product(s.Shape[:at]), product(s.Shape[at:])
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// place is the indices of element i, in row-major order, of a tensor of this shape: how errors name an element.
func place(i int, shape []int) []int {
	idx := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		idx[d] = i % shape[d]
		i /= shape[d]
	}
	return idx
}
