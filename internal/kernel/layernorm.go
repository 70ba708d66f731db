// Layer norm over rows of cols elements (Ba, Kiros and Hinton, 2016), biased variance as in torch:
//
//	mean = sum(x)/cols     var = sum((x-mean)^2)/cols     rstd = 1/sqrt(var+eps)
//	xhat = (x-mean) rstd   y = xhat w + b
//
// Forward reads x, w and b (each of the latter may be nil) and leaves (mean, rstd) of each row in stats. Backward reads
// g, x, w and stats:
//
//	dx = rstd (gw - mean(gw) - xhat mean(gw xhat))     gw = g w
//
// Mean and variance take two passes over a row, which then lies in the first cache. Both are rounded to T before they
// are used, so that backward sees the very xhat that forward used.

package kernel

import "math"

// LayerNorm fills the rows of y, and the pairs of stats unless it is nil.
func LayerNorm[T Float](y, stats, x, w, b []T, cols int, eps float64) {
	for r := 0; len(x) > 0; r++ {
		row, out := x[:cols], y[:cols]
		mean, rstd := rowStats(row, eps)
		if stats != nil {
			stats[2*r], stats[2*r+1] = mean, rstd
		}
		affine(out, row, w, b, mean, rstd)
		x, y = x[cols:], y[cols:]
	}
}

// affine fills y with (x-mean) rstd w + b.
func affine[T Float](y, x, w, b []T, mean, rstd T) {
	y = y[:len(x)]
	if affineFast(y, x, w, b, mean, rstd) {
		return
	}
	if w != nil && b != nil {
		w, b = w[:len(x)], b[:len(x)]
		for i, v := range x {
			y[i] = (v-mean)*rstd*w[i] + b[i]
		}
		return
	}
	if w == nil {
		for i, v := range x {
			y[i] = (v - mean) * rstd
		}
	} else {
		w = w[:len(x)]
		for i, v := range x {
			y[i] = (v - mean) * rstd * w[i]
		}
	}
	if b != nil {
		addRow(y, y, b)
	}
}

// rowStats is the mean of x and 1/sqrt(var+eps).
func rowStats[T Float](x []T, eps float64) (mean, rstd T) {
	n := float64(len(x))
	m := sumRow(x) / n
	return T(m), T(1 / math.Sqrt(squaredDistance(x, m)/n+eps))
}

// squaredDistance is the sum of (x-m)^2 in four interleaved chains.
func squaredDistance[T Float](x []T, m float64) float64 {
	if s, ok := squaresFast(x, m); ok {
		return s
	}
	var s0, s1, s2, s3 float64
	for len(x) >= 4 {
		a, b, c, d := float64(x[0])-m, float64(x[1])-m, float64(x[2])-m, float64(x[3])-m
		s0 += a * a
		s1 += b * b
		s2 += c * c
		s3 += d * d
		x = x[4:]
	}
	for _, v := range x {
		a := float64(v) - m
		s0 += a * a
	}
	return (s0 + s1) + (s2 + s3)
}

// LayerNormBackward fills the rows of dx with the gradient of x, or adds it. dx may be g.
func LayerNormBackward[T Float](dx []T, add bool, g, x, w, stats []T, cols int) {
	for r := 0; len(x) > 0; r++ {
		layerNormBackwardRow(dx[:cols], add, g[:cols], x[:cols], w, stats[2*r], stats[2*r+1])
		dx, g, x = dx[cols:], g[cols:], x[cols:]
	}
}

func layerNormBackwardRow[T Float](dx []T, add bool, g, x, w []T, mean, rstd T) {
	s1, s2 := rowProducts(g, x, w, mean, rstd)
	n := float64(len(x))
	m1, m2 := T(s1/n), T(s2/n)
	dx, g = dx[:len(x)], g[:len(x)]
	if normBackwardFast(dx, add, g, x, w, mean, rstd, m1, m2) {
		return
	}
	if w != nil {
		w = w[:len(x)]
	}
	for i, v := range x {
		gw := g[i]
		if w != nil {
			gw *= w[i]
		}
		z := rstd * (gw - m1 - (v-mean)*rstd*m2)
		if add {
			z += dx[i]
		}
		dx[i] = z
	}
}

// rowProducts is the sum of g w and the sum of g w xhat over one row, each in two interleaved chains.
func rowProducts[T Float](g, x, w []T, mean, rstd T) (gw, gwx float64) {
	if gw, gwx, ok := productsFast(g, x, w, mean, rstd); ok {
		return gw, gwx
	}
	var a0, a1, b0, b1 float64
	g = g[:len(x)]
	i := 0
	for ; i+1 < len(x); i += 2 {
		p, q := g[i], g[i+1]
		if w != nil {
			p, q = p*w[i], q*w[i+1]
		}
		a0 += float64(p)
		a1 += float64(q)
		b0 += float64(p * ((x[i] - mean) * rstd))
		b1 += float64(q * ((x[i+1] - mean) * rstd))
	}
	if i < len(x) {
		p := g[i]
		if w != nil {
			p *= w[i]
		}
		a0 += float64(p)
		b0 += float64(p * ((x[i] - mean) * rstd))
	}
	return a0 + a1, b0 + b1
}
