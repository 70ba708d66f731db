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

// AdafactorRows folds the squares of some rows of one matrix, g [rows cols], into their means r with weight b, and adds
// them up by columns in sums.
func AdafactorRows[T Float](r, g []T, cols int, b, k float64, sums []float64) {
	sums = sums[:cols]
	for i := range r {
		var s float64
		for j, v := range g[i*cols:][:cols] {
			x := float64(v) * k
			x *= x
			s += x
			sums[j] += x
		}
		r[i] += T(b) * (T(s/float64(cols)) - r[i])
	}
}

// AdafactorCols folds sums over so many rows into the column means c with weight b.
func AdafactorCols[T Float](c []T, rows int, b float64, sums []float64) {
	for j, s := range sums[:len(c)] {
		c[j] += T(b) * (T(s/float64(rows)) - c[j])
	}
}

// AdafactorScale is what row means times column means are multiplied by to give the moment: 1/max(mean r, eps1).
func AdafactorScale[T Float](r []T, eps1 float64) float64 {
	var mean float64
	for _, v := range r {
		mean += float64(v)
	}
	return 1 / math.Max(mean/float64(len(r)), eps1)
}

// AdafactorFactored gives the sum of squares of the update u of some rows of one matrix and, if apply is not 0, moves p by
// -apply u after multiplying it by shrink.
func AdafactorFactored[T Float](p, g, r, c []T, scale, eps1, k, shrink, apply float64) (squares float64) {
	least, cols := eps1*eps1, len(c)
	for i, v := range r {
		ri := float64(v) * scale
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

// AdafactorWhole folds, if fold, and updates as above with a moment v of the parameter's own size.
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
