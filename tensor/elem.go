package tensor

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// BF16 is the Go type of an element of a BFloat16 tensor: its bits, the upper half of a float32's. It has no arithmetic.
// That of a Float16 tensor is float16.Float16.
type BF16 uint16

// ToBF16 is the nearest BF16, the even one of two. From 0x1.ffp127 on that is an infinity; NaN keeps its sign and comes
// out quiet.
func ToBF16(v float32) BF16 {
	var h [1]uint16
	kernel.F32ToBF16(h[:], []float32{v})
	return BF16(h[0])
}

// Float32 is the value, exactly.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// String is the value in as few digits as tell it from its neighbours'.
func (b BF16) String() string {
	return string(appendShortest(nil, float64(b.Float32()), 'g', BFloat16))
}

// Elem are the Go types of elements, one for each DType.
type Elem interface {
	float32 | float64 | float16.Float16 | BF16 | int64 | int32 | uint8 | bool
}

// DTypeOf is the DType whose elements are of type T.
func DTypeOf[T Elem]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case float16.Float16:
		return Float16
	case BF16:
		return BFloat16
	case int64:
		return Int64
	case int32:
		return Int32
	case uint8:
		return Uint8
	default:
		return Bool
	}
}

// Data is the elements of a contiguous tensor: exactly t.Elems() of them, in row-major order, shared with t. It is nil
// when there are no bytes: on a virtual device, for what a dry run makes, for an empty tensor. Who writes into it calls
// t.Bump. It must not be used after the storage was released.
//
// Data panics if T is not t's element type, and for a view that is not contiguous: take Contiguous first, or index Raw
// by strides.
func Data[T Elem](t *Tensor) []T {
	if !t.IsContiguous() {
		panic(fmt.Sprintf("tensor: data of a view %v with strides %v is not contiguous: use Contiguous, or Raw with strides",
			t.spec, t.Strides()))
	}
	return Raw[T](t)
}

// Raw is the elements from t's first to its last, with whatever lies between them: element (i, j, ...) is at
// i*t.Stride(0) + j*t.Stride(1) + ... It is for kernels that index by strides. It is nil when there are no bytes, and
// panics if T is not t's element type.
func Raw[T Elem](t *Tensor) []T {
	if dt := DTypeOf[T](); dt != t.spec.DType {
		panic(fmt.Sprintf("tensor: data of %v asked as %v", t.spec, dt))
	}
	return words[T](t)
}

// words is Raw without the check, for code that moves elements by their size alone.
func words[T any](t *Tensor) []T {
	if t.buf == nil {
		return nil
	}
	bytes := t.buf.Bytes()
	n := t.reach()
	if bytes == nil || n == 0 {
		return nil
	}
	var e T
	size := int(unsafe.Sizeof(e))
	bytes = bytes[t.offset*size : (t.offset+n)*size]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(bytes))), n)
}
