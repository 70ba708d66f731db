// Adafactor (Shazeer and Stern, 2018), torch's rule, for a parameter seen as batch x rows x cols (the last two
// dimensions) whose second moment is kept as row and column means, or for one of fewer dimensions, whose moment is whole.
//
//	r   = (1-b) r + b mean over cols of g^2           c likewise over rows         b = step^decay
//	v   = r c / max(mean r, eps1)                     elementwise, rows by columns
//	u   = g / sqrt(max(v, eps1^2))
//	p   = p (1 - lr weightDecay) - alpha u / max(1, rms(u)/d)      alpha = max(eps2, rms(p)) rho
//
// It takes several passes; no pass keeps anything of the parameter's size. Sums are float64.

package kernel

import "math"

// AdafactorMoments folds the squares of one matrix g [rows cols] into row means r and column means c with weight b.
// sums is room for cols float64.
func AdafactorMoments[T Float](r, c, g []T, rows, cols int, b, k float64, sums []float64) {
	sums = sums[:cols]
	clear(sums)
	for i := range rows {
		var s float64
		for j, v := range g[i*cols:][:cols] {
			x := float64(v) * k
			x *= x
			s += x
			sums[j] += x
		}
		r[i] += T(b) * (T(s/float64(cols)) - r[i])
	}
	for j, s := range sums {
		c[j] += T(b) * (T(s/float64(rows)) - c[j])
	}
}

// AdafactorFactored gives the sum of squares of the update u of one matrix and, if apply is not 0, moves p by -apply u
// after multiplying it by shrink.
func AdafactorFactored[T Float](p, g, r, c []T, rows, cols int, eps1, k, shrink, apply float64) (squares float64) {
	var mean float64
	for _, v := range r[:rows] {
		mean += float64(v)
	}
	scale := 1 / math.Max(mean/float64(rows), eps1)
	least := eps1 * eps1
	for i := range rows {
		ri := float64(r[i]) * scale
		row := p[i*cols:][:cols]
		for j, v := range g[i*cols:][:cols] {
			u := float64(v) * k / math.Sqrt(math.Max(ri*float64(c[j]), least))
			squares += u * u
			if apply != 0 {
				row[j] = T(float64(row[j])*shrink - apply*u)
			}
		}
	}
	return squares
}

// AdafactorWhole is AdafactorMoments, if fold, and AdafactorFactored for a moment v of the parameter's own size.
func AdafactorWhole[T Float](p, g, v []T, fold bool, b, eps1, k, shrink, apply float64) (squares float64) {
	least := eps1 * eps1
	for i, x := range g {
		d := float64(x) * k
		if fold {
			v[i] += T(b) * (T(d*d) - v[i])
		}
		u := d / math.Sqrt(math.Max(float64(v[i]), least))
		squares += u * u
		if apply != 0 {
			p[i] = T(float64(p[i])*shrink - apply*u)
		}
	}
	return squares
}
