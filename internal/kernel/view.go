package kernel

import (
	"fmt"
	"unsafe"
)

// View returns b's memory as a slice of T, of as many elements as fit wholly; the bytes after them are left out. Both
// slices name the same memory, so b must live as long as the result. It panics if b does not start on a boundary of T:
// scratch and tensors, which start on 64 bytes, always do.
func View[T interface {
	~bool | ~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}](b []byte) []T {
	var zero T
	n := len(b) / int(unsafe.Sizeof(zero))
	if n == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%unsafe.Alignof(zero) != 0 {
		panic(fmt.Sprintf("kernel: View of %T: the bytes start at %#x, want a multiple of %d", zero, uintptr(p), unsafe.Alignof(zero)))
	}
	return unsafe.Slice((*T)(p), n)
}
