package data

import (
	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/tensor"
)

// elemsOf is the elements of t as a slice of their type.
func elemsOf(t *tensor.Tensor) any {
	switch t.DType() {
	case tensor.Float32:
		return tensor.Data[float32](t)
	case tensor.Float64:
		return tensor.Data[float64](t)
	case tensor.Float16:
		return tensor.Data[float16.Float16](t)
	case tensor.BFloat16:
		return tensor.Data[tensor.BF16](t)
	case tensor.Int64:
		return tensor.Data[int64](t)
	case tensor.Int32:
		return tensor.Data[int32](t)
	case tensor.Uint8:
		return tensor.Data[uint8](t)
	default:
		return tensor.Data[bool](t)
	}
}
