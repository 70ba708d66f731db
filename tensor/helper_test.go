package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

var site = memory.Site{Op: "test", Scope: "tensor"}

// device is a device that must be empty again when the test ends.
func device(t testing.TB, c memory.Config) *memory.Device {
	d, err := memory.NewDevice(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// from is tensor.From, released when the test ends.
func from[T tensor.Elem](t testing.TB, d *memory.Device, data []T, shape ...int) *tensor.Tensor {
	x, err := tensor.From(d, memory.Other, site, data, shape...)
	require.NoError(t, err)
	t.Cleanup(x.Release)
	return x
}

// zeros is tensor.Zeros, released when the test ends.
func zeros(t testing.TB, d *memory.Device, dt tensor.DType, shape ...int) *tensor.Tensor {
	x, err := tensor.Zeros(d, memory.Other, site, tensor.Of(dt, shape...))
	require.NoError(t, err)
	t.Cleanup(x.Release)
	return x
}

// must takes the error off a view: must(t)(x.Slice(0, 1, 2)).
func must(t testing.TB) func(x tensor.Tensor, err error) *tensor.Tensor {
	return func(x tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		require.NoError(t, err)
		return &x
	}
}

// count is 0, 1, 2, ... n-1.
func count[T int32 | int64 | float32 | float64 | uint8](n int) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = T(i)
	}
	return v
}

// indices calls f with every index of shape, in row-major order. f must not keep it.
func indices(shape []int, f func(idx []int)) {
	idx := make([]int, len(shape))
	for n := elems(shape); n > 0; n-- {
		f(idx)
		for i := len(idx) - 1; i >= 0; i-- {
			if idx[i]++; idx[i] < shape[i] {
				break
			}
			idx[i] = 0
		}
	}
}

func elems(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// values reads every element through At, in row-major order.
func values(x *tensor.Tensor) []float64 {
	out := []float64{}
	indices(x.Shape(), func(idx []int) { out = append(out, x.At(idx...)) })
	return out
}
