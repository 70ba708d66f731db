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
