// Element-wise arithmetic of two operands, and its gradients. Broadcasting is stride 0.
//
//	            f           df/da                df/db
//	sub         a - b       1                    -1
//	mul         a b         b                    a
//	div         a / b       1/b                  -(a/b)/b
//	maximum     max(a, b)   1, 1/2, 0 where a >, =, < b    and the other way round
//	minimum     min(a, b)   1, 1/2, 0 where a <, =, > b    and the other way round
//
// NaN in either operand of maximum and minimum gives NaN, and a gradient of 1 to both, as in torch. The gradients of sub
// are g itself and Scale by -1; the others are functions of g, of the operand whose gradient it is, and of the other one.

package kernel

// Binary names a function of the table.
type Binary uint8

// The functions.
const (
	BinarySub Binary = iota
	BinaryMul
	BinaryDiv
	BinaryMaximum
	BinaryMinimum
)

// Zip fills elements [lo, hi), in row-major order, of dst with f(a, b). dst may be a or b.
func Zip[T Number](f Binary, dst, a, b Strided[T], lo, hi int) {
	if dst.Strides == nil && a.Strides == nil && b.Strides == nil {
		zipRow(f, dst.Data[lo:hi], a.Data[lo:hi], b.Data[lo:hi])
		return
	}
	zipBlocks(f, dst, a, b, lo, hi)
}

func zipBlocks[T Number](f Binary, dst, a, b Strided[T], lo, hi int) {
	var d, x, y blocks[T]
	d.open(dst)
	x.open(a)
	y.open(b)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row := d.at(lo, n)
		zipRow(f, row, x.at(lo, n), y.at(lo, n))
		d.put(lo, row)
	}
}

func zipRow[T Number](f Binary, d, x, y []T) {
	if zipFast(f, d, x, y) {
		return
	}
	x, y = x[:len(d)], y[:len(d)]
	switch f {
	case BinarySub:
		for i := range d {
			d[i] = x[i] - y[i]
		}
	case BinaryMul:
		for i := range d {
			d[i] = x[i] * y[i]
		}
	case BinaryDiv:
		for i := range d {
			d[i] = x[i] / y[i]
		}
	case BinaryMaximum:
		for i := range d {
			d[i] = max(x[i], y[i])
		}
	case BinaryMinimum:
		for i := range d {
			d[i] = min(x[i], y[i])
		}
	default:
		panic("kernel: no such function")
	}
}

// ZipBackward fills elements [lo, hi) of dst with g times the derivative of f by its first operand, or its second, or
// adds that. own is the operand whose gradient it is, and other the other one; mul, and the first operand of div, read
// other only, and take an own without data. It is not for sub.
func ZipBackward[T Float](f Binary, second bool, dst Strided[T], add bool, g, own, other Strided[T], lo, hi int) {
	var d, gs, p, q blocks[T]
	d.open(dst)
	gs.open(g)
	q.open(other)
	if own.Data != nil {
		p.open(own)
	}
	for n := 0; lo < hi; lo += n {
		n = reach(hi-lo, d.flat && gs.flat && q.flat && (own.Data == nil || p.flat))
		row, x := d.at(lo, n), []T(nil)
		if own.Data != nil {
			x = p.at(lo, n)
		}
		zipBackwardRow(f, second, row, add, gs.at(lo, n), x, q.at(lo, n))
		d.put(lo, row)
	}
}

func zipBackwardRow[T Float](f Binary, second bool, d []T, add bool, g, own, other []T) {
	switch {
	case f == BinaryMul:
		timesRow(d, add, g, other)
	case f == BinaryDiv && !second:
		overRow(d, add, g, other)
	case f == BinaryDiv:
		divisorRow(d, add, g, other, own)
	case f == BinaryMaximum:
		shareRow(d, add, g, own, other)
	case f == BinaryMinimum:
		shareRow(d, add, g, other, own)
	default:
		panic("kernel: no such function")
	}
}

func timesRow[T Float](d []T, add bool, g, y []T) {
	if timesFast(d, add, g, y) {
		return
	}
	g, y = g[:len(d)], y[:len(d)]
	for i := range d {
		v := g[i] * y[i]
		if add {
			v += d[i]
		}
		d[i] = v
	}
}

func overRow[T Float](d []T, add bool, g, y []T) {
	if overFast(d, add, g, y) {
		return
	}
	g, y = g[:len(d)], y[:len(d)]
	for i := range d {
		v := g[i] / y[i]
		if add {
			v += d[i]
		}
		d[i] = v
	}
}

// divisorRow is the gradient of the y of x/y. y^2, which may overflow, is not formed.
func divisorRow[T Float](d []T, add bool, g, x, y []T) {
	if divisorFast(d, add, g, x, y) {
		return
	}
	g, x, y = g[:len(d)], x[:len(d)], y[:len(d)]
	for i := range d {
		w := float64(y[i])
		v := T(-float64(g[i]) * (float64(x[i]) / w / w))
		if add {
			v += d[i]
		}
		d[i] = v
	}
}

// shareRow is g where p > q or they cannot be compared, half of it where they are equal, else 0.
func shareRow[T Float](d []T, add bool, g, p, q []T) {
	if shareFast(d, add, g, p, q) {
		return
	}
	g, p, q = g[:len(d)], p[:len(d)], q[:len(d)]
	for i := range d {
		v := keepIf(bit(p[i] < q[i])^1, g[i])
		if p[i] == q[i] {
			v *= 0.5
		}
		if add {
			v += d[i]
		}
		d[i] = v
	}
}

// bit is 1 for true, without a branch.
func bit(b bool) uint8 {
	var u uint8
	if b {
		u = 1
	}
	return u
}
