//go:build amd64 && !purego

package kernel

import "unsafe"

//go:generate go -C _gen run ./rows -out ../rows_amd64.s

// Rows of n float32 with AVX2, n at least 1, with the operations of the plain versions: bits are the same. d may be x or y.
// Where bytes go along, elements come in eights, at least one, and the plain version does what is left.

//go:noescape
func rowAdd(n int, d, x, y *float32)

// rowAddStream is rowAdd past the caches: n is a multiple of 32, and d lies on a boundary of 32 bytes.
//
//go:noescape
func rowAddStream(n int, d, x, y *float32)

// rowCopyStream is a copy past the caches, under the same conditions.
//
//go:noescape
func rowCopyStream(n int, d, x *float32)

//go:noescape
func rowSub(n int, d, x, y *float32)

//go:noescape
func rowMul(n int, d, x, y *float32)

//go:noescape
func rowDiv(n int, d, x, y *float32)

//go:noescape
func rowMax(n int, d, x, y *float32)

//go:noescape
func rowMin(n int, d, x, y *float32)

//go:noescape
func rowTimes(n int, d *float32, add bool, x, y *float32)

//go:noescape
func rowOver(n int, d *float32, add bool, x, y *float32)

//go:noescape
func rowShare(n int, d *float32, add bool, x, p, q *float32)

// rowDivisor is to = or += -d (x/y/y).
//
//go:noescape
func rowDivisor(n int, to *float32, add bool, d, x, y *float32)

// rowTurn is ya = or += xa cos - xb sin, yb = or += xb cos + xa sin.
//
//go:noescape
func rowTurn(n int, ya, yb *float32, add bool, xa, xb, cos, sin *float32)

//go:noescape
func rowAddScalar(n int, d, x *float32, k float32)

//go:noescape
func rowScale(n int, d *float32, add bool, x *float32, k float32)

//go:noescape
func rowFill(n int, d *float32, k float32)

//go:noescape
func rowClip(n int, d *float32, k float32)

//go:noescape
func rowChoose(eights int, d *float32, c *uint8, x, y *float32)

//go:noescape
func rowKeep(eights int, d *float32, add bool, x *float32, c *uint8, flip uint32)

//go:noescape
func rowEqual(eights int, d *bool, x, y *float32)

//go:noescape
func rowNotEqual(eights int, d *bool, x, y *float32)

//go:noescape
func rowLess(eights int, d *bool, x, y *float32)

//go:noescape
func rowLessEqual(eights int, d *bool, x, y *float32)

// ready says whether a routine that writes d and reads operands of its length runs its AVX2 version, and touches them.
func ready[T any](d []T, operands ...[]T) bool {
	if !worthAVX2[T](len(d)) {
		return false
	}
	for _, x := range operands {
		_ = x[:len(d)]
	}
	if raceEnabled {
		for _, x := range operands {
			touchRead(x[:len(d)])
		}
		touchWrite(d)
	}
	return true
}

func addFast[T Number](d, x, y []T) bool {
	if !ready(d, x, y) {
		return false
	}
	rowAdd(len(d), begin(d), begin(x), begin(y))
	return true
}

// streamBytes is from which size on a tensor that is only written goes past the caches: it would not stay in them, and
// writing through them reads it first. It takes 0.7 of the time then, with one source as with two.
const streamBytes = 16 << 20

// streams gives which elements of a piece d of a tensor of that many elements go past the caches: [lo, hi).
func streams[T any](d []T, elems int) (lo, hi int) {
	if 4*elems < streamBytes || !worthAVX2[T](len(d)) {
		return 0, 0
	}
	lo = int(-uintptr(unsafe.Pointer(&d[0])) % 32 / 4)
	return lo, lo + (len(d)-lo)&^31
}

// addStream is addFast of elements of a tensor of that many, past the caches if that pays. d is not x or y.
func addStream[T Number](d, x, y []T, elems int) bool {
	lo, hi := streams(d, elems)
	if lo >= hi || &d[0] == &x[0] || &d[0] == &y[0] || !ready(d, x, y) {
		return false
	}
	addRow(d[:lo], x, y)
	rowAddStream(hi-lo, begin(d[lo:]), begin(x[lo:]), begin(y[lo:]))
	addRow(d[hi:], x[hi:], y[hi:])
	return true
}

// copyStream copies elements of a tensor of that many past the caches, if that pays.
func copyStream[T any](d, s []T, elems int) bool {
	lo, hi := streams(d, elems)
	if lo >= hi || &d[0] == &s[0] || !ready(d, s) {
		return false
	}
	copy(d[:lo], s)
	rowCopyStream(hi-lo, begin(d[lo:]), begin(s[lo:]))
	copy(d[hi:], s[hi:])
	return true
}

func addScalarFast[T Number](d, x []T, k T) bool {
	if !ready(d, x) {
		return false
	}
	rowAddScalar(len(d), begin(d), begin(x), float32(k))
	return true
}

func scaleFast[T Number](d []T, add bool, x []T, k T) bool {
	if !ready(d, x) {
		return false
	}
	rowScale(len(d), begin(d), add, begin(x), float32(k))
	return true
}

func fillFast[T any](d []T, k T) bool {
	v, ok := any(k).(float32)
	if !ok || !ready(d) {
		return false
	}
	rowFill(len(d), begin(d), v)
	return true
}

func clipFast[T Float](d []T, limit T) bool {
	if !ready(d) {
		return false
	}
	rowClip(len(d), begin(d), float32(limit))
	return true
}

func zipFast[T Number](f Binary, d, x, y []T) bool {
	if !ready(d, x, y) {
		return false
	}
	n, to, a, b := len(d), begin(d), begin(x), begin(y)
	switch f {
	case BinarySub:
		rowSub(n, to, a, b)
	case BinaryMul:
		rowMul(n, to, a, b)
	case BinaryDiv:
		rowDiv(n, to, a, b)
	case BinaryMaximum:
		rowMax(n, to, a, b)
	case BinaryMinimum:
		rowMin(n, to, a, b)
	default:
		return false
	}
	return true
}

func timesFast[T Float](d []T, add bool, g, y []T) bool {
	if !ready(d, g, y) {
		return false
	}
	rowTimes(len(d), begin(d), add, begin(g), begin(y))
	return true
}

func overFast[T Float](d []T, add bool, g, y []T) bool {
	if !ready(d, g, y) {
		return false
	}
	rowOver(len(d), begin(d), add, begin(g), begin(y))
	return true
}

func shareFast[T Float](d []T, add bool, g, p, q []T) bool {
	if !ready(d, g, p, q) {
		return false
	}
	rowShare(len(d), begin(d), add, begin(g), begin(p), begin(q))
	return true
}

func divisorFast[T Float](d []T, add bool, g, x, y []T) bool {
	if !ready(d, g, x, y) {
		return false
	}
	rowDivisor(len(d), begin(d), add, begin(g), begin(x), begin(y))
	return true
}

func turnFast[T Float](ya, yb []T, add bool, xa, xb, cos, sin []T) bool {
	if !ready(ya, xa, xb, cos, sin) {
		return false
	}
	yb = yb[:len(ya)]
	if raceEnabled {
		touchWrite(yb)
	}
	rowTurn(len(ya), begin(ya), begin(yb), add, begin(xa), begin(xb), begin(cos), begin(sin))
	return true
}

// chooseFast is chooseRow of the first elements, as many as it says.
func chooseFast[T Number](d []T, c []uint8, x, y []T) int {
	eights := len(d) / 8
	if eights == 0 || !ready(d, x, y) {
		return 0
	}
	rowChoose(eights, begin(d), &c[:len(d)][0], begin(x), begin(y))
	return 8 * eights
}

// keepFast is keepRow of the first elements, as many as it says.
func keepFast[T Float](d []T, add bool, g []T, c []uint8, flip uint8) int {
	eights := len(d) / 8
	if eights == 0 || !ready(d, g) {
		return 0
	}
	rowKeep(eights, begin(d), add, begin(g), &c[:len(d)][0], uint32(flip))
	return 8 * eights
}

// compareFast is compareRow of the first elements, as many as it says.
func compareFast[T Number](c Comparison, d []bool, x, y []T) int {
	eights := len(d) / 8
	if eights == 0 || !worthAVX2[T](len(d)) {
		return 0
	}
	x, y = x[:len(d)], y[:len(d)]
	if raceEnabled {
		touchRead(x, y)
		touchWrite(d)
	}
	switch to, a, b := &d[0], begin(x), begin(y); c {
	case CompareEq:
		rowEqual(eights, to, a, b)
	case CompareNe:
		rowNotEqual(eights, to, a, b)
	case CompareLt:
		rowLess(eights, to, a, b)
	case CompareLe:
		rowLessEqual(eights, to, a, b)
	default:
		return 0
	}
	return 8 * eights
}
