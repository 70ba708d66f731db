package gorgonia

import (
	"fmt"
	"slices"

	gt "gorgonia.org/tensor"

	"github.com/thimble-ml/thimble/tensor"
)

// ToDense is t as a Gorgonia tensor of the same shape and dtype, row-major.
//
// If t is contiguous and of Float32 or Float64, shared is true and the Dense is over t's own bytes: nothing is copied,
// writes on either side are seen on the other, and t's storage must outlive it. Else the Dense is a copy on Go's heap,
// which no device counts. Half types, tensors without elements or without bytes (of a virtual device, of a dry run) are
// errors.
func ToDense(t *tensor.Tensor) (d *gt.Dense, shared bool, err error) {
	switch {
	case t.Empty() || t.Buffer().Bytes() == nil:
		return nil, false, fmt.Errorf("gorgonia: to dense of %v: it has no bytes", t.Spec())
	case t.Elems() == 0:
		return nil, false, fmt.Errorf("gorgonia: to dense of %v: a Dense has at least one element", t.Spec())
	}
	switch t.DType() {
	case tensor.Float32:
		d, shared = share[float32](t)
	case tensor.Float64:
		d, shared = share[float64](t)
	case tensor.Int64:
		d = copied[int64](t)
	case tensor.Int32:
		d = copied[int32](t)
	case tensor.Uint8:
		d = copied[uint8](t)
	case tensor.Bool:
		d = copied[bool](t)
	default:
		return nil, false, fmt.Errorf("gorgonia: to dense of %v: Gorgonia has no half types: convert it (To) to float32 first", t.Spec())
	}
	return d, shared, nil
}

// share is a Dense over t's bytes, or a copy if t has gaps.
func share[T tensor.Elem](t *tensor.Tensor) (d *gt.Dense, shared bool) {
	if !t.IsContiguous() {
		return copied[T](t), false
	}
	return dense(tensor.Data[T](t), t.Shape()), true
}

func copied[T tensor.Elem](t *tensor.Tensor) *gt.Dense {
	data := make([]T, t.Elems())
	gather(data, tensor.Raw[T](t), t.Shape(), t.Strides())
	return dense(data, t.Shape())
}

// dense is a Dense over data. Gorgonia takes the dimensions into its pools some day, hence a copy.
func dense[T tensor.Elem](data []T, shape []int) *gt.Dense {
	return gt.New(gt.WithShape(slices.Clone(shape)...), gt.WithBacking(data))
}

// gather fills dst with the elements that shape and strides reach in src, in row-major order, and gives how many.
func gather[T any](dst, src []T, shape, strides []int) int {
	if len(shape) == 0 {
		dst[0] = src[0]
		return 1
	}
	n, step := shape[0], strides[0]
	switch {
	case len(shape) > 1:
		done := 0
		for i := range n {
			done += gather(dst[done:], src[i*step:], shape[1:], strides[1:])
		}
		return done
	case step == 1:
		return copy(dst[:n], src)
	}
	for i := range n {
		dst[i] = src[i*step]
	}
	return n
}
