// Element-wise functions of one operand, and their gradients:
//
//	Map           dst = f(src)
//	MapBackward   dst = or += g f'       f' read from x or from y = f(x), as the table says
//
//	          f(x)                 f'                          read from
//	shift     x + a                1                           (for the engine to hand on)
//	scale     a x                  a                           (Scale does it)
//	exp       e^x                  y                           y
//	log       ln x                 1/x                         x
//	sqrt      x^1/2                1/(2y)                      y
//	rsqrt     x^-1/2               -y^3/2                      y
//	reciprocal 1/x                 -y^2                        y
//	square    x^2                  2x                          x
//	pow       x^a                  a x^(a-1), 0 for a = 0      x
//	abs       |x|                  -1, 0, 1; NaN for NaN       x
//	sin       sin x                cos x                       x
//	cos       cos x                -sin x                      x
//	erf       erf x                2/sqrt(pi) e^-x^2           x
//	tanh      tanh x               1 - y^2                     y
//	sigmoid   s = 1/(1+e^-x)       y (1-y)                     y
//	silu      x s                  s (1 + x (1-s))             x
//	softplus  ln(1+e^x), x above 20   s, 1 above 20            x
//	elu       x > 0 ? x : a (e^x-1)   x > 0 ? 1 : a e^x        x
//
// In plain Go f is computed in float64 and rounded once, but for what one operation of T gives as well, and f' stays float64
// up to the product with g. Vector versions: unary_amd64.go and unary_wide_amd64.go. The functions themselves stand in unary_power.go and unary_exp.go, each with its derivative.

package kernel

// Unary names a function of the table.
type Unary uint8

// The functions.
const (
	UnaryShift Unary = iota
	UnaryScale
	UnaryExp
	UnaryLog
	UnarySqrt
	UnaryRsqrt
	UnaryReciprocal
	UnarySquare
	UnaryPow
	UnaryAbs
	UnarySin
	UnaryCos
	UnaryErf
	UnaryTanh
	UnarySigmoid
	UnarySiLU
	UnarySoftplus
	UnaryELU
)

// Map fills elements [lo, hi), in row-major order, of dst with the function of those of src. a is the function's
// constant, if it has one. dst may be src.
func Map[T Float](f Unary, a float64, dst, src Strided[T], lo, hi int) {
	if dst.Strides == nil && src.Strides == nil {
		mapRow(f, a, dst.Data[lo:hi], src.Data[lo:hi])
		return
	}
	mapBlocks(f, a, dst, src, lo, hi)
}

func mapBlocks[T Float](f Unary, a float64, dst, src Strided[T], lo, hi int) {
	var d, s blocks[T]
	d.open(dst)
	s.open(src)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		y := d.at(lo, n)
		mapRow(f, a, y, s.at(lo, n))
		d.put(lo, y)
	}
}

// MapBackward fills elements [lo, hi) of dst with g f', or adds that, where r is what f' is read from.
func MapBackward[T Float](f Unary, a float64, dst Strided[T], add bool, g, r Strided[T], lo, hi int) {
	if dst.Strides == nil && g.Strides == nil && r.Strides == nil {
		mapBackwardRow(f, a, dst.Data[lo:hi], add, g.Data[lo:hi], r.Data[lo:hi])
		return
	}
	mapBackwardBlocks(f, a, dst, add, g, r, lo, hi)
}

func mapBackwardBlocks[T Float](f Unary, a float64, dst Strided[T], add bool, g, r Strided[T], lo, hi int) {
	var d, gs, rs blocks[T]
	d.open(dst)
	gs.open(g)
	rs.open(r)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		dx := d.at(lo, n)
		mapBackwardRow(f, a, dx, add, gs.at(lo, n), rs.at(lo, n))
		d.put(lo, dx)
	}
}

func mapRow[T Float](f Unary, a float64, y, x []T) {
	if mapRowFast(f, a, y, x) {
		return
	}
	var buf [expBlock]float64
	for len(x) > 0 {
		n := min(len(x), expBlock)
		mapBlock(f, a, y[:n], x[:n], buf[:n])
		y, x = y[n:], x[n:]
	}
}

func mapBackwardRow[T Float](f Unary, a float64, dst []T, add bool, g, r []T) {
	if mapBackwardRowFast(f, a, dst, add, g, r) {
		return
	}
	var slope [expBlock]float64
	for len(r) > 0 {
		n := min(len(r), expBlock)
		slopeBlock(f, a, slope[:n], r[:n])
		chain(dst[:n], add, g[:n], slope[:n])
		dst, g, r = dst[n:], g[n:], r[n:]
	}
}

// mapBlock is f of at most expBlock elements; v is room for as many.
func mapBlock[T Float](f Unary, a float64, y, x []T, v []float64) {
	y, v = y[:len(x)], v[:len(x)]
	switch f {
	case UnaryShift:
		shiftOf(y, x, T(a))
	case UnaryScale:
		scaleRow(y, x, T(a), false)
	case UnaryExp:
		expOf(y, x, v)
	case UnaryLog:
		logOf(y, x)
	case UnarySqrt:
		sqrtOf(y, x)
	case UnaryRsqrt:
		rsqrtOf(y, x)
	case UnaryReciprocal:
		reciprocalOf(y, x)
	case UnarySquare:
		squareOf(y, x)
	case UnaryPow:
		powOf(y, x, a, v)
	case UnaryAbs:
		absOf(y, x)
	case UnarySin:
		sinOf(y, x)
	case UnaryCos:
		cosOf(y, x)
	case UnaryErf:
		erfOf(y, x)
	case UnaryTanh:
		tanhOf(y, x, v)
	case UnarySigmoid:
		sigmoidOf(y, x, v)
	case UnarySiLU:
		siluOf(y, x, v)
	case UnarySoftplus:
		softplusOf(y, x, v)
	case UnaryELU:
		eluOf(y, x, a, v)
	default:
		panic("kernel: no such function")
	}
}

// slopeBlock fills k with f' at elements whose x, or whose y, is r.
func slopeBlock[T Float](f Unary, a float64, k []float64, r []T) {
	k = k[:len(r)]
	switch f {
	case UnaryExp:
		widen(k, r)
	case UnaryLog:
		logSlope(k, r)
	case UnarySqrt:
		sqrtSlope(k, r)
	case UnaryRsqrt:
		rsqrtSlope(k, r)
	case UnaryReciprocal:
		reciprocalSlope(k, r)
	case UnarySquare:
		squareSlope(k, r)
	case UnaryPow:
		powSlope(k, r, a)
	case UnaryAbs:
		absSlope(k, r)
	case UnarySin:
		sinSlope(k, r)
	case UnaryCos:
		cosSlope(k, r)
	case UnaryErf:
		erfSlope(k, r)
	case UnaryTanh:
		tanhSlope(k, r)
	case UnarySigmoid:
		sigmoidSlope(k, r)
	case UnarySiLU:
		siluSlope(k, r)
	case UnarySoftplus:
		softplusSlope(k, r)
	case UnaryELU:
		eluSlope(k, r, a)
	default:
		panic("kernel: no such function")
	}
}

// widen fills v with x.
func widen[T Float](v []float64, x []T) {
	v = v[:len(x)]
	for i, x := range x {
		v[i] = float64(x)
	}
}

// narrow fills y with v, rounded.
func narrow[T Float](y []T, v []float64) {
	y = y[:len(v)]
	for i, v := range v {
		y[i] = T(v)
	}
}
