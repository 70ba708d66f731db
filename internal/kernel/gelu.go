// gelu(x) = x cdf(x), cdf of the normal distribution (Hendrycks and Gimpel, 2016), torch's default, and its tanh form
//
//	gelu_tanh(x) = x/2 (1 + tanh u) = x sigmoid(2u)     u = sqrt(2/pi) (x + 0.044715 x^3)
//
// Backward reads x alone:
//
//	gelu'(x)      = cdf(x) + x density(x)
//	gelu_tanh'(x) = s + 2 x s (1-s) u'                  s = sigmoid(2u)
//
// The sigmoid says the same as the tanh and keeps its digits where 1 + tanh u would cancel. In plain Go all is
// computed in float64 and rounded once, in blocks that lie on the stack. At -Inf the result is NaN (-Inf * 0), as in torch.

package kernel

import "math"

// GELU fills y with gelu(x).
func GELU[T Float](y, x []T) {
	if geluFast(y, x) {
		return
	}
	var cdf, density [expBlock]float64
	for len(x) > 0 {
		n := min(len(x), expBlock)
		normal(cdf[:n], density[:n], x[:n])
		chain(y[:n], false, x[:n], cdf[:n])
		x, y = x[n:], y[n:]
	}
}

// GELUBackward fills dst with g gelu'(x), or adds it.
func GELUBackward[T Float](dst []T, add bool, g, x []T) {
	if geluBackwardFast(dst, add, g, x) {
		return
	}
	var cdf, density [expBlock]float64
	for len(x) > 0 {
		n := min(len(x), expBlock)
		normal(cdf[:n], density[:n], x[:n])
		for i, v := range x[:n] {
			cdf[i] += float64(v) * density[i]
		}
		chain(dst[:n], add, g[:n], cdf[:n])
		dst, g, x = dst[n:], g[n:], x[n:]
	}
}

// chain fills dst with g k, or adds it.
func chain[T Float](dst []T, add bool, g []T, k []float64) {
	dst, g = dst[:len(k)], g[:len(k)]
	for i, v := range k {
		d := T(float64(g[i]) * v)
		if add {
			d += dst[i]
		}
		dst[i] = d
	}
}

const (
	geluCube  = 0.044715
	gelu2Root = 2 * math.Sqrt2 / math.SqrtPi // 2 sqrt(2/pi)
)

// geluSigmoid fills s with sigmoid(2u).
func geluSigmoid[T Float](s []float64, x []T) {
	s = s[:len(x)]
	for i, v := range x {
		w := float64(v)
		s[i] = -gelu2Root * (w + geluCube*w*w*w)
	}
	exp[T](s)
	for i, e := range s {
		s[i] = 1 / (1 + e)
	}
}

// GELUTanh fills y with the tanh form of gelu(x).
func GELUTanh[T Float](y, x []T) {
	if geluTanhFast(y, x) {
		return
	}
	var s [expBlock]float64
	for len(x) > 0 {
		n := min(len(x), expBlock)
		geluSigmoid(s[:n], x[:n])
		chain(y[:n], false, x[:n], s[:n])
		x, y = x[n:], y[n:]
	}
}

// GELUTanhBackward fills dst with g gelu_tanh'(x), or adds it.
func GELUTanhBackward[T Float](dst []T, add bool, g, x []T) {
	if geluTanhBackwardFast(dst, add, g, x) {
		return
	}
	var s [expBlock]float64
	for len(x) > 0 {
		n := min(len(x), expBlock)
		geluSigmoid(s[:n], x[:n])
		for i, v := range x[:n] {
			w := float64(v)
			s[i] += w * s[i] * (1 - s[i]) * gelu2Root * (1 + 3*geluCube*w*w)
		}
		chain(dst[:n], add, g[:n], s[:n])
		dst, g, x = dst[n:], g[n:], x[n:]
	}
}
