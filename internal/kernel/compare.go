// Comparisons of two operands, and logic, with a Bool for each element. Broadcasting is stride 0. A comparison with NaN
// is false, and NaN != anything is true. Gt and Ge are Lt and Le the other way round.

package kernel

import "unsafe"

// Comparison names a relation.
type Comparison uint8

// The relations.
const (
	CompareEq Comparison = iota // a = b
	CompareNe                   // a != b
	CompareLt                   // a < b
	CompareLe                   // a <= b
)

// Compare fills elements [lo, hi), in row-major order, of dst with whether a is so related to b.
func Compare[T Number](c Comparison, dst Strided[bool], a, b Strided[T], lo, hi int) {
	var d blocks[bool]
	var x, y blocks[T]
	d.open(dst)
	x.open(a)
	y.open(b)
	for n := 0; lo < hi; lo += n {
		n = reach(hi-lo, d.flat && x.flat && y.flat)
		row := d.at(lo, n)
		compareRow(c, row, x.at(lo, n), y.at(lo, n))
		d.put(lo, row)
	}
}

func compareRow[T Number](c Comparison, d []bool, x, y []T) {
	done := compareFast(c, d, x, y)
	d, x, y = d[done:], x[done:], y[done:]
	x, y = x[:len(d)], y[:len(d)]
	switch c {
	case CompareEq:
		for i := range d {
			d[i] = x[i] == y[i]
		}
	case CompareNe:
		for i := range d {
			d[i] = x[i] != y[i]
		}
	case CompareLt:
		for i := range d {
			d[i] = x[i] < y[i]
		}
	case CompareLe:
		for i := range d {
			d[i] = x[i] <= y[i]
		}
	default:
		panic("kernel: no such comparison")
	}
}

// Logic names a function of truth values.
type Logic uint8

// The functions.
const (
	LogicAnd Logic = iota
	LogicOr
	LogicNot // of a; b is read and ignored
)

// Combine fills elements [lo, hi), in row-major order, of dst with the function of a and b. dst may be a or b.
func Combine(f Logic, dst, a, b Strided[bool], lo, hi int) {
	var d, x, y blocks[uint8]
	d.open(Truth(dst))
	x.open(Truth(a))
	y.open(Truth(b))
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row := d.at(lo, n)
		combineRow(f, row, x.at(lo, n), y.at(lo, n))
		d.put(lo, row)
	}
}

func combineRow(f Logic, d, x, y []uint8) {
	x, y = x[:len(d)], y[:len(d)]
	switch f {
	case LogicAnd:
		for i := range d {
			d[i] = x[i] & y[i]
		}
	case LogicOr:
		for i := range d {
			d[i] = x[i] | y[i]
		}
	case LogicNot:
		for i := range d {
			d[i] = x[i] ^ 1
		}
	default:
		panic("kernel: no such function")
	}
}

// Truth is an operand of truth values seen as 0 and 1, the same memory.
func Truth(o Strided[bool]) Strided[uint8] {
	bytes := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(o.Data))), len(o.Data))
	return Strided[uint8]{Data: bytes, Shape: o.Shape, Strides: o.Strides}
}
