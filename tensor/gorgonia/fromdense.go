package gorgonia

import (
	"errors"
	"fmt"
	"slices"

	gt "gorgonia.org/tensor"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// FromDense is a contiguous tensor on dev with a copy of d's elements, of d's shape and in row-major order, whatever the
// order of d: a slice, a transposed or a column-major Dense is laid out anew. d stays as it is. The caller releases the
// tensor. Refused are dtypes without a counterpart, masked tensors, memory that Go cannot read, and, as the package
// comment explains, a Dense that was both sliced and transposed. *memory.OOMError is the device's.
func FromDense(dev *memory.Device, k memory.Kind, at memory.Site, d *gt.Dense) (*tensor.Tensor, error) {
	if d == nil || d.Dtype().Type == nil {
		return nil, errors.New("gorgonia: from dense: it is nil or has no dtype")
	}
	strides, err := readable(d)
	if err != nil {
		return nil, fmt.Errorf("gorgonia: from dense %v%v: %w", d.Dtype(), d.Shape(), err)
	}
	switch d.Dtype() {
	case gt.Float32:
		return from(dev, k, at, d, strides, elems[float32])
	case gt.Float64:
		return from(dev, k, at, d, strides, elems[float64])
	case gt.Int64:
		return from(dev, k, at, d, strides, elems[int64])
	case gt.Int32:
		return from(dev, k, at, d, strides, elems[int32])
	case gt.Uint8:
		return from(dev, k, at, d, strides, elems[uint8])
	case gt.Bool:
		return from(dev, k, at, d, strides, elems[bool])
	case gt.Int:
		return from(dev, k, at, d, strides, ints)
	}
	return nil, fmt.Errorf("gorgonia: from dense %v%v: a tensor has no such dtype: want float32, float64, int, int64, int32, uint8 or bool",
		d.Dtype(), d.Shape())
}

// from copies what strides reach of data(d) to a new tensor.
func from[T tensor.Elem](
	dev *memory.Device, k memory.Kind, at memory.Site, d *gt.Dense, strides []int, data func(d *gt.Dense) []T,
) (*tensor.Tensor, error) {
	t, err := tensor.New(dev, k, at, tensor.Of(tensor.DTypeOf[T](), d.Shape()...))
	if err != nil {
		return nil, err
	}
	if dst := tensor.Data[T](t); dst != nil {
		gather(dst, data(d), t.Shape(), strides)
	}
	return t, nil
}

// elems is d's memory: a slice of it, but the value itself for a scalar.
func elems[T any](d *gt.Dense) []T {
	if d.IsScalar() {
		return []T{d.ScalarValue().(T)}
	}
	return d.Data().([]T)
}

// ints is elems of Go's ints, widened.
func ints(d *gt.Dense) []int64 {
	data := elems[int](d)
	wide := make([]int64, len(data))
	for i, v := range data {
		wide[i] = int64(v)
	}
	return wide
}

var (
	errMasked     = errors.New("it is masked, and a tensor has no mask: take SetMask(nil), after Filled perhaps")
	errNative     = errors.New("its engine's memory is not accessible to Go")
	errTransposed = errors.New("it was sliced and transposed, which Gorgonia reads in two ways: Materialize after the first of the two")
	errLayout     = errors.New("its strides do not fit its shape and data")
)

// readable is the strides with which d's memory gives its elements, or why it cannot be trusted to.
func readable(d *gt.Dense) ([]int, error) {
	shape := d.Shape()
	rowMajor, n := contiguous(shape)
	switch {
	case n == 0:
		return rowMajor, nil
	case !d.IsNativelyAccessible():
		return nil, errNative
	case d.IsMasked():
		return nil, errMasked
	}
	have := 1
	if !d.IsScalar() {
		have = d.DataSize()
	}
	strides := d.Strides()
	switch {
	case !d.IsView() && have == n && vector(shape): // a column-major one has fewer strides than dimensions
		return rowMajor, nil
	case len(strides) != len(shape) || reach(shape, strides) > have:
		return nil, errLayout
	case d.IsView() && d.DataOrder().IsTransposed() && !(have == n && slices.Equal(strides, rowMajor)):
		return nil, errTransposed // but a slice of what Transpose has moved is fine; Gorgonia leaves the flag on it
	}
	return strides, nil
}

// contiguous is the strides of a row-major tensor, and its number of elements.
func contiguous(shape []int) (strides []int, elems int) {
	strides, elems = make([]int, len(shape)), 1
	for i, d := range slices.Backward(shape) {
		strides[i] = elems
		elems *= d
	}
	return strides, elems
}

// vector reports whether at most one dimension is not 1, so that there is but one order.
func vector(shape []int) bool {
	long := 0
	for _, d := range shape {
		if d != 1 {
			long++
		}
	}
	return long <= 1
}

// reach is how many elements lie between the first and the last, both counted.
func reach(shape, strides []int) int {
	last := 0
	for i, d := range shape {
		last += (d - 1) * strides[i]
	}
	return last + 1
}
