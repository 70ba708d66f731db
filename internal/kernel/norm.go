// What an optimizer asks of gradients: the sum of squares (float64, one partial sum a chunk, added up in order), a factor
// in place, and the first element that is not finite. Each reads x.

package kernel

// SumSquares is the sum of x^2. Of float32, whose squares float64 holds with room for any sum, it is finite exactly if all
// elements are: the norm and whether it can be used come from one pass.
func SumSquares[T Float](x []T) float64 { return squaredDistance(x, 0) }

// SumParts adds up the partial sums of chunks, in order.
func SumParts(parts []float64) float64 {
	var s float64
	for _, v := range parts {
		s += v
	}
	return s
}

// Multiply scales x in place.
func Multiply[T Float](x []T, k T) { scaleRow(x, x, k, false) }

// FirstNonFinite is the index of the first NaN or Inf, or -1.
func FirstNonFinite[T Float](x []T) int {
	if finite, ok := finiteFast(x); ok && finite {
		return -1
	}
	for at := 0; at < len(x); {
		n := min(64, len(x)-at)
		if !allFinite(x[at : at+n]) {
			for i, v := range x[at : at+n] {
				if v-v != 0 {
					return at + i
				}
			}
		}
		at += n
	}
	return -1
}

// AllFinite says that x holds neither NaN nor Inf.
func AllFinite[T Float](x []T) bool { return FirstNonFinite(x) < 0 }

// allFinite sums v-v, which is 0 for finite v and NaN otherwise.
func allFinite[T Float](x []T) bool {
	var a, b T
	for len(x) >= 2 {
		a += x[0] - x[0]
		b += x[1] - x[1]
		x = x[2:]
	}
	for _, v := range x {
		a += v - v
	}
	return a+b == 0
}

// ClipTo brings each element into [-limit, limit]. NaN stays NaN.
func ClipTo[T Float](x []T, limit T) {
	if clipFast(x, limit) {
		return
	}
	for i, v := range x {
		switch {
		case v > limit:
			x[i] = limit
		case v < -limit:
			x[i] = -limit
		}
	}
}
