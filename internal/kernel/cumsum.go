// y[i] = x[0] + ... + x[i] along a dimension (see lines.go); from the end, y[i] = x[i] + ... + x[n-1], for the gradient.
// Reads x. Each line is summed in order, in float64, and rounded at every element.

package kernel

// CumSum fills the lines of chunk c of y, or adds to them, summing from the start or from the end. y may be x where it
// fills.
func CumSum[T Float](l Lines, y []T, add bool, x []T, fromEnd bool, c int) {
	for i, end := l.chunk(c); i < end; i++ {
		if at, w := l.strip(i); l.Inner == 1 {
			cumSumRow(y[at:][:l.N], add, x[at:][:l.N], fromEnd)
		} else {
			cumSumDown(l, y[at:], add, x[at:], fromEnd, w)
		}
	}
}

func cumSumRow[T Float](y []T, add bool, x []T, fromEnd bool) {
	var sum float64
	if fromEnd {
		for i := len(x) - 1; i >= 0; i-- {
			sum += float64(x[i])
			putOne(y, add, i, sum)
		}
		return
	}
	for i, v := range x {
		sum += float64(v)
		putOne(y, add, i, sum)
	}
}

func cumSumDown[T Float](l Lines, y []T, add bool, x []T, fromEnd bool, w int) {
	var sum strip
	for r := range l.N {
		at := r * l.Inner
		if fromEnd {
			at = (l.N - 1 - r) * l.Inner
		}
		out := y[at:][:w]
		for i, v := range x[at:][:w] {
			sum[i] += float64(v)
			putOne(out, add, i, sum[i])
		}
	}
}
