package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// readable reports whether there are bytes to read.
func (t *Tensor) readable() bool { return t.buf != nil && t.buf.Bytes() != nil }

// At is one element as a float64 (integers beyond 2^53 are rounded), 0 where there are no bytes. It panics if the number
// of indices is not the rank or one is out of range. It is for tests and printing: kernels use Data.
func (t *Tensor) At(idx ...int) float64 {
	if len(idx) != len(t.spec.Shape) {
		panic(fmt.Sprintf("tensor: at %v of %v: want %d indices", slices.Clone(idx), t.spec, len(t.spec.Shape)))
	}
	at := 0
	for i, x := range idx {
		if x < 0 || x >= t.spec.Shape[i] {
			panic(fmt.Sprintf("tensor: at %v of %v: dim %d is out of range", slices.Clone(idx), t.spec, i))
		}
		at += x * t.Stride(i)
	}
	return t.load(at)
}

// Item is the element of a tensor that has only one, of whatever rank; 0 where there are no bytes.
func (t *Tensor) Item() (float64, error) {
	if n := t.Elems(); n != 1 {
		return 0, fmt.Errorf("tensor: item of %v: want 1 element, got %d", t.spec, n)
	}
	return t.load(0), nil
}

// load is the element at places behind the first, as a float64.
func (t *Tensor) load(at int) float64 {
	if !t.readable() {
		return 0
	}
	size := t.spec.DType.Size()
	b := t.buf.Bytes()[(t.offset+at)*size:]
	switch t.spec.DType {
	case Float32:
		return float64(math.Float32frombits(binary.NativeEndian.Uint32(b)))
	case Float64:
		return math.Float64frombits(binary.NativeEndian.Uint64(b))
	case Float16, BFloat16:
		return fromHalf(t.spec.DType, binary.NativeEndian.Uint16(b))
	case Int64:
		return float64(int64(binary.NativeEndian.Uint64(b)))
	case Int32:
		return float64(int32(binary.NativeEndian.Uint32(b)))
	default:
		return float64(b[0])
	}
}

// loadInt64 is load for an Int64 tensor, exact.
func (t *Tensor) loadInt64(at int) int64 {
	return int64(binary.NativeEndian.Uint64(t.buf.Bytes()[(t.offset+at)*8:]))
}
