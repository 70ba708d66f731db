package tensor

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/memory"
)

// Copy copies src's elements to dst, bit for bit. Shapes and dtypes must be equal, strides may be any. Views of one
// storage may overlap only if both are contiguous or lie element on element; otherwise the copy is refused. A dst that
// was expanded is refused too.
func Copy(dst, src *Tensor) error {
	if !dst.spec.Equal(src.spec) {
		return fmt.Errorf("tensor: copy %v to %v: want equal dtypes and shapes", src.spec, dst.spec)
	}
	oneRun := dst.IsContiguous() && src.IsContiguous() // which the built-in copy moves rightly even onto itself
	if err := checkWrite(dst, src); err != nil && !(oneRun && errors.Is(err, errOverlap)) {
		return fmt.Errorf("tensor: copy %v: %w", src.spec, err)
	}
	dst.Bump()
	if !dst.writable() || !src.readable() {
		return nil
	}
	switch dst.spec.DType.Size() {
	case 1:
		copyWords[uint8](dst, src)
	case 2:
		copyWords[uint16](dst, src)
	case 4:
		copyWords[uint32](dst, src)
	case 8:
		copyWords[uint64](dst, src)
	}
	return nil
}

func copyWords[W uint8 | uint16 | uint32 | uint64](dst, src *Tensor) {
	d, s := words[W](dst), words[W](src)
	var room [maxAxes]axis
	for w := over(room[:0], dst, src); w.next(); {
		if w.stepA == 1 && w.stepB == 1 {
			copy(d[w.a:w.a+w.n], s[w.b:w.b+w.n])
			continue
		}
		for k, i, j := 0, w.a, w.b; k < w.n; k, i, j = k+1, i+w.stepA, j+w.stepB {
			d[i] = s[j]
		}
	}
}

// Contiguous is a contiguous copy of t on the same device, always with a buffer of its own: who would rather share asks
// IsContiguous first. The caller releases it.
func (t *Tensor) Contiguous(k memory.Kind, at memory.Site) (*Tensor, error) {
	return t.To(t.spec.DType, k, at)
}

// To is a contiguous copy of t with its elements converted, as Convert does, always with a buffer of its own. The caller
// releases it.
func (t *Tensor) To(dt DType, k memory.Kind, at memory.Site) (*Tensor, error) {
	if !dt.Valid() {
		return nil, fmt.Errorf("tensor: convert %v to %v: unknown dtype", t.spec, dt)
	}
	if t.buf == nil {
		return nil, fmt.Errorf("tensor: copy of an empty tensor: it has no device")
	}
	c, err := New(t.buf.Device(), k, at, Spec{dt, t.spec.Shape})
	if err != nil {
		return nil, err
	}
	if err := Convert(c, t); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// Equal reports whether specs are equal and all elements are, bit for bit: a NaN is equal to the same NaN, and 0 is not
// -0. Tensors without bytes are equal if their specs are; one with and one without are not.
func Equal(a, b *Tensor) bool {
	if !a.spec.Equal(b.spec) || a.readable() != b.readable() {
		return false
	}
	if !a.readable() {
		return true
	}
	switch a.spec.DType.Size() {
	case 1:
		return equalWords[uint8](a, b)
	case 2:
		return equalWords[uint16](a, b)
	case 4:
		return equalWords[uint32](a, b)
	default:
		return equalWords[uint64](a, b)
	}
}

func equalWords[W uint8 | uint16 | uint32 | uint64](a, b *Tensor) bool {
	x, y := words[W](a), words[W](b)
	var room [maxAxes]axis
	for w := over(room[:0], a, b); w.next(); {
		for k, i, j := 0, w.a, w.b; k < w.n; k, i, j = k+1, i+w.stepA, j+w.stepB {
			if x[i] != y[j] {
				return false
			}
		}
	}
	return true
}
