package tensor

import (
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/memory"
)

// Tensor is an n-dimensional view of a counted buffer.
//
// It is a handle: copying the struct takes no reference, and views share their base's buffer and version without one.
// Whoever was given the tensor by New, Zeros, From, Contiguous or To owns one reference and calls Release. The zero
// Tensor is empty: it has no buffer.
type Tensor struct {
	buf     *memory.Buffer
	spec    Spec
	strides []int // in elements; nil exactly if the view is contiguous, row-major
	offset  int   // of the first element, in elements
}

// New is a contiguous tensor on d, its content undefined. The error is from s.Validate or the device (*memory.OOMError).
func New(d *memory.Device, k memory.Kind, at memory.Site, s Spec) (*Tensor, error) {
	t, err := Make(d, k, at, s)
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// Make is New by value, for engines: nothing is allocated beyond the buffer.
func Make(d *memory.Device, k memory.Kind, at memory.Site, s Spec) (t Tensor, err error) {
	err = t.Init(d, k, at, s)
	return t, err
}

// Init makes t, which must be empty, what Make gives: for tensors that lie in an array. After an error it is still empty.
func (t *Tensor) Init(d *memory.Device, k memory.Kind, at memory.Site, s Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	b, err := d.Alloc(s.Bytes(), k, at)
	if err != nil {
		return err
	}
	if d.Tracing() {
		b.Describe(s.String(), "")
	}
	t.buf, t.spec = b, s
	return nil
}

// Over is the contiguous tensor that lies at the start of b. It takes no reference. It panics if b is too small.
func Over(b *memory.Buffer, s Spec) Tensor {
	if err := s.Validate(); err != nil {
		panic(err.Error())
	}
	if s.Bytes() > b.Size() {
		panic(fmt.Sprintf("tensor: %v takes %d bytes: the buffer has %d", s, s.Bytes(), b.Size()))
	}
	return Tensor{buf: b, spec: s}
}

// Part is the contiguous tensor that lies in b from element number offset on: a piece of scratch, or some rows of another
// tensor. It takes no reference and copies nothing of s. It panics if b is too small.
func Part(b *memory.Buffer, s Spec, offset int) Tensor {
	if end := (int64(offset) + int64(s.Elems())) * int64(s.DType.Size()); offset < 0 || end > b.Size() {
		panic(fmt.Sprintf("tensor: elements %d on of %v reach to byte %d: the buffer has %d", offset, s, end, b.Size()))
	}
	return Tensor{buf: b, spec: s, offset: offset}
}

// Unbacked is a contiguous tensor without a buffer, hence Empty: a stand-in on which the view functions say what shape and
// strides they would give, or what is wrong.
func Unbacked(s Spec) Tensor { return Tensor{spec: s} }

// On is the same view, spec, strides and offset, of another buffer: where a storage that was away has come back. It takes
// no reference. It panics if the view does not fit into b.
func (t *Tensor) On(b *memory.Buffer) Tensor {
	if end := int64(t.offset+t.reach()) * int64(t.spec.DType.Size()); end > b.Size() {
		panic(fmt.Sprintf("tensor: a view %v reaches to byte %d: the buffer has %d", t.spec, end, b.Size()))
	}
	v := *t
	v.buf = b
	return v
}

// Zeros is New with every element zero (false, for Bool).
func Zeros(d *memory.Device, k memory.Kind, at memory.Site, s Spec) (*Tensor, error) {
	t, err := New(d, k, at, s)
	if err != nil {
		return nil, err
	}
	if t.writable() {
		clear(t.buf.Bytes())
	}
	return t, nil
}

// From is a contiguous tensor with a copy of data, in row-major order. data must have as many elements as shape; without
// a shape, it is a scalar's.
func From[T Elem](d *memory.Device, k memory.Kind, at memory.Site, data []T, shape ...int) (*Tensor, error) {
	s := Of(DTypeOf[T](), shape...)
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Elems() != len(data) {
		return nil, fmt.Errorf("tensor: from %d elements to %v: want %d", len(data), s, s.Elems())
	}
	t, err := New(d, k, at, s)
	if err != nil {
		return nil, err
	}
	if t.writable() {
		copy(Data[T](t), data)
	}
	return t, nil
}

// writable reports whether there are bytes to write: not on a virtual device, and not while the device is forked, when a
// dry run walks through the real buffers.
func (t *Tensor) writable() bool {
	return t.buf != nil && t.buf.Bytes() != nil && !t.buf.Device().Forked()
}

// Spec is the element type and the shape.
func (t *Tensor) Spec() Spec { return t.spec }

// DType is the element type.
func (t *Tensor) DType() DType { return t.spec.DType }

// Shape is the dimensions, shared: do not modify it.
func (t *Tensor) Shape() []int { return slices.Clip(t.spec.Shape) }

// Rank is the number of dimensions.
func (t *Tensor) Rank() int { return len(t.spec.Shape) }

// Dim is the size of dimension i; negative i counts from the end. It panics if there is none.
func (t *Tensor) Dim(i int) int { return t.spec.Dim(i) }

// Elems is the number of elements of the view.
func (t *Tensor) Elems() int { return t.spec.Elems() }

// Bytes is what the elements of the view take: of an expanded view, as many bytes as a copy would.
func (t *Tensor) Bytes() int64 { return t.spec.Bytes() }

// Offset is where the first element lies in the buffer, in elements.
func (t *Tensor) Offset() int { return t.offset }

// IsContiguous reports whether the elements lie without gaps in row-major order.
func (t *Tensor) IsContiguous() bool { return t.strides == nil }

// Buffer is the storage, nil for an empty tensor.
func (t *Tensor) Buffer() *memory.Buffer { return t.buf }

// Empty reports whether t has no buffer: the zero Tensor. (A tensor of no elements has one.)
func (t *Tensor) Empty() bool { return t.buf == nil }

// Version counts the writes to the storage, through whichever view; 0 for an empty tensor.
func (t *Tensor) Version() uint32 {
	if t.buf == nil {
		return 0
	}
	return t.buf.Version()
}

// Bump counts a write to the storage. The functions of this package that write call it; kernels that write through Data
// or Raw leave it to the engine.
func (t *Tensor) Bump() {
	if t.buf != nil {
		t.buf.Bump()
	}
}

// Retain takes a reference to the storage and returns t.
func (t *Tensor) Retain() *Tensor {
	if t.buf != nil {
		t.buf.Retain()
	}
	return t
}

// Release gives up a reference; the last one frees the storage, under every view of it. It does nothing to an empty
// tensor.
func (t *Tensor) Release() {
	if t.buf != nil {
		t.buf.Release()
	}
}
