package kernel

import "math"

// The loops of reductions: along a row, whose elements belong to one column, and down, one element a column.

// absRow is the sum of |x| in four interleaved chains.
func absRow[T Float](x []T) float64 {
	if s, ok := absFast(x); ok {
		return s
	}
	var s0, s1, s2, s3 float64
	for len(x) >= 4 {
		s0 += math.Abs(float64(x[0]))
		s1 += math.Abs(float64(x[1]))
		s2 += math.Abs(float64(x[2]))
		s3 += math.Abs(float64(x[3]))
		x = x[4:]
	}
	for _, v := range x {
		s0 += math.Abs(float64(v))
	}
	return (s0 + s1) + (s2 + s3)
}

func absDown[T Float](a []float64, x []T) {
	x = x[:len(a)]
	for i, v := range x {
		a[i] += math.Abs(float64(v))
	}
}

func squaresDown[T Float](a []float64, x []T) {
	if squaresDownFast(a, x) {
		return
	}
	x = x[:len(a)]
	for i, v := range x {
		a[i] += float64(v) * float64(v)
	}
}

// distanceDown adds (x-m)^2.
func distanceDown[T Float](b []float64, x []T, m []float64) {
	if distanceDownFast(b, x, m) {
		return
	}
	x, m = x[:len(b)], m[:len(b)]
	for i, v := range x {
		d := float64(v) - m[i]
		b[i] += d * d
	}
}

// maxRow is the largest k x, k being 1 or -1; NaN if there is one, -Inf of no elements.
func maxRow[T Float](x []T, k float64) float64 {
	if s, ok := largestFast(x, k); ok {
		return s
	}
	m0, s := T(math.Inf(-1)), T(k)
	m1, m2, m3 := m0, m0, m0
	for len(x) >= 4 {
		m0 = max(m0, s*x[0])
		m1 = max(m1, s*x[1])
		m2 = max(m2, s*x[2])
		m3 = max(m3, s*x[3])
		x = x[4:]
	}
	for _, v := range x {
		m0 = max(m0, s*v)
	}
	return float64(max(m0, m1, m2, m3))
}

func maxDown[T Float](a []float64, x []T, k float64) {
	if maxDownFast(a, x, k) {
		return
	}
	x = x[:len(a)]
	for i, v := range x {
		a[i] = max(a[i], k*float64(v))
	}
}

// maxAbsRow is the largest |x|, NaN if there is one.
func maxAbsRow[T Float](x []T) float64 {
	if s, ok := largestAbsFast(x); ok {
		return s
	}
	var m0, m1 float64
	for len(x) >= 2 {
		m0 = max(m0, math.Abs(float64(x[0])))
		m1 = max(m1, math.Abs(float64(x[1])))
		x = x[2:]
	}
	for _, v := range x {
		m0 = max(m0, math.Abs(float64(v)))
	}
	return max(m0, m1)
}

func maxAbsDown[T Float](a []float64, x []T) {
	x = x[:len(a)]
	for i, v := range x {
		a[i] = max(a[i], math.Abs(float64(v)))
	}
}

// countRow is how many x are m.
func countRow[T Float](x []T, m float64) float64 {
	n, w := 0, T(m)
	for _, v := range x {
		if v == w {
			n++
		}
	}
	return float64(n)
}

// countDown counts where k x is m.
func countDown[T Float](b []float64, x []T, m []float64, k float64) {
	x, m = x[:len(b)], m[:len(b)]
	for i, v := range x {
		if k*float64(v) == m[i] {
			b[i]++
		}
	}
}

// countAbsDown counts where |x| is m.
func countAbsDown[T Float](b []float64, x []T, m []float64) {
	x, m = x[:len(b)], m[:len(b)]
	for i, v := range x {
		if math.Abs(float64(v)) == m[i] {
			b[i]++
		}
	}
}

// argRow looks for a k x above a, or the first NaN; it is in row r of the first element.
func argRow[T Float](a, b *float64, x []T, k float64, r int) {
	top, s, at := T(*a), T(k), -1
	for i, v := range x {
		if v *= s; !(v <= top) { // larger, or one of the two is NaN
			if top != top {
				break
			}
			top, at = v, i
		}
	}
	if at >= 0 {
		*a, *b = float64(top), float64(r+at)
	}
}

func argDown[T Float](a, b []float64, x []T, k float64, r int) {
	x, b = x[:len(a)], b[:len(a)]
	for i, v := range x {
		if w := k * float64(v); !(w <= a[i]) && a[i] == a[i] {
			a[i], b[i] = w, float64(r)
		}
	}
}

// expRow is the sum of exp(x-top).
func expRow[T Float](x []T, top float64) (sum float64) {
	if sum, ok := expSumFast(x, top); ok {
		return sum
	}
	var e [expBlock]float64
	for len(x) > 0 {
		n := min(len(x), expBlock)
		expBelow(e[:n], x[:n], top)
		sum += sumRow(e[:n])
		x = x[n:]
	}
	return sum
}

// expDown adds exp(x-top).
func expDown[T Float](b []float64, x []T, top []float64) {
	var e [expBlock]float64
	for len(b) > 0 {
		n := min(len(b), expBlock)
		for i, v := range x[:n] {
			e[i] = float64(v) - top[i]
		}
		exp[T](e[:n])
		for i, v := range e[:n] {
			b[i] += v
		}
		b, x, top = b[n:], x[n:], top[n:]
	}
}
