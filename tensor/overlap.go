package tensor

import (
	"errors"
	"slices"
)

var (
	errExpanded = errors.New("the destination is expanded: several of its elements are one in memory")
	errOverlap  = errors.New("source and destination overlap in one storage: copy from a Contiguous source")
)

// checkWrite reports why elements of src may not be written to dst one by one, in any order: dst is expanded, or they
// overlap other than element on element.
func checkWrite(dst, src *Tensor) error {
	if dst.expanded() {
		return errExpanded
	}
	if dst.buf != src.buf || dst.buf == nil || dst.lieAs(src) || !overlap(dst, src) {
		return nil
	}
	return errOverlap
}

// Overlaps reports whether t and u share an element's bytes in one storage. It is exact for views cut from one tensor, by
// whatever slices and permutations; where it cannot tell it says true.
func (t *Tensor) Overlaps(u *Tensor) bool { return t.buf != nil && t.buf == u.buf && overlap(t, u) }

// SameView reports whether t and u are the same view of one storage: element on element.
func (t *Tensor) SameView(u *Tensor) bool {
	return t.buf == u.buf && t.spec.SameShape(u.spec) && t.lieAs(u)
}

// expanded reports whether several elements share a place.
func (t *Tensor) expanded() bool {
	for i, step := range t.strides {
		if step == 0 && t.spec.Shape[i] > 1 {
			return true
		}
	}
	return false
}

// lieAs reports whether each element of t lies exactly on the same one of u, of the same shape.
func (t *Tensor) lieAs(u *Tensor) bool {
	if t.offset != u.offset || t.spec.DType.Size() != u.spec.DType.Size() {
		return false
	}
	for i, d := range t.spec.Shape {
		if d != 1 && t.Stride(i) != u.Stride(i) {
			return false
		}
	}
	return true
}

// overlap reports whether two views of one buffer share a byte. It is exact for views cut from one tensor, by whatever
// slices and permutations; where it cannot tell it says true.
//
// The addresses of both are written in one mixed-radix system, whose units are all strides of the two, in bytes. If no
// digit of either carries, an address has one writing, a view is a box of digits, and two boxes are apart exactly if
// they are in some digit.
func overlap(a, b *Tensor) bool {
	if a.spec.Elems() == 0 || b.spec.Elems() == 0 {
		return false
	}
	var room [2*maxAxes + 1]int
	units := b.units(a.units(append(room[:0], 1)))
	slices.Sort(units)
	units = slices.Compact(units)

	restA, restB := a.offset*a.spec.DType.Size(), b.offset*b.spec.DType.Size()
	if a, b := restA+a.span(), restB+b.span(); a <= restB || b <= restA {
		return false
	}
	apart := false
	for i, unit := range slices.Backward(units) {
		digitA, digitB := restA/unit, restB/unit
		restA, restB = restA%unit, restB%unit
		if i > 0 && (restA+a.below(unit) >= unit || restB+b.below(unit) >= unit) {
			return true
		}
		apart = apart || digitA+a.extent(unit) <= digitB || digitB+b.extent(unit) <= digitA
	}
	return !apart
}

// units appends the strides along which t has more than one element, in bytes.
func (t *Tensor) units(dst []int) []int {
	size := t.spec.DType.Size()
	for i, d := range t.spec.Shape {
		if step := t.Stride(i); d > 1 && step > 0 {
			dst = append(dst, step*size)
		}
	}
	return dst
}

// extent is how many values the digit of the given unit takes in t's addresses. The bytes of an element are a dimension
// of stride 1.
func (t *Tensor) extent(unit int) int {
	size, n := t.spec.DType.Size(), 1
	if unit == 1 {
		n = size
	}
	for i, d := range t.spec.Shape {
		if t.Stride(i)*size == unit {
			n += d - 1
		}
	}
	return n
}

// below is how far t reaches along all strides smaller than unit, in bytes from the first.
func (t *Tensor) below(unit int) int {
	size := t.spec.DType.Size()
	far := size - 1
	for i, d := range t.spec.Shape {
		if step := t.Stride(i) * size; step < unit {
			far += (d - 1) * step
		}
	}
	return far
}

// span is the bytes from t's first to its last, both counted.
func (t *Tensor) span() int { return t.reach() * t.spec.DType.Size() }
