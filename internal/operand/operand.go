// Package operand shows tensors to kernels.
package operand

import (
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// Of gives t as a kernel's strided operand. It is a view, valid as long as t; on a virtual device its Data is nil.
func Of[T tensor.Elem](t *tensor.Tensor) kernel.Strided[T] {
	o := kernel.Strided[T]{Data: tensor.Raw[T](t), Shape: t.Shape()}
	if !t.IsContiguous() {
		o.Strides = t.Strides()
	}
	return o
}

// Words is Of for code that moves elements by their size alone: W is as large as an element of t, whatever that is.
func Words[W uint8 | uint16 | uint32 | uint64](t *tensor.Tensor) kernel.Strided[W] {
	var data []W
	if mem := t.Buffer().Bytes(); mem != nil && t.Elems() > 0 {
		data = kernel.View[W](mem[t.Offset()*t.DType().Size():])
	}
	o := kernel.Strided[W]{Data: data, Shape: t.Shape()}
	if !t.IsContiguous() {
		o.Strides = t.Strides()
	}
	return o
}

// Half shows a tensor of a half type as its bits.
func Half(t *tensor.Tensor) (kernel.Half, kernel.Strided[uint16]) {
	return HalfOf(t.DType()), Words[uint16](t)
}

// HalfOf is a half type as kernels name it.
func HalfOf(dt tensor.DType) kernel.Half {
	if dt == tensor.BFloat16 {
		return kernel.BF16
	}
	return kernel.F16
}

// SumSquares is the sum of squares of elements [lo, hi) of a contiguous tensor of a float dtype, in float64.
func SumSquares(t *tensor.Tensor, lo, hi int) float64 {
	switch t.DType() {
	case tensor.Float32:
		return kernel.SumSquares(tensor.Data[float32](t)[lo:hi])
	case tensor.Float64:
		return kernel.SumSquares(tensor.Data[float64](t)[lo:hi])
	}
	h, x := Half(t)
	return h.SumSquares(x.Data[lo:hi])
}
