// The gradients of batch norm and group norm (channelnorm.go). All read g, x and stats, and w where there is one.
//
//	batch norm   dx = w rstd (g - mean(g) - xhat mean(g xhat))             means over n and p, from the sums for dw and db
//	             of given statistics: dx = w rstd g
//	             dmean = -w rstd db      dvar = -w rstd^2 dw / 2           (dw and db are those sums, whether or not w is)
//	group norm   dx = rstd (g w - mean(g w) - xhat mean(g w xhat))         means over a group
//
// dx is a[c] g - b[c] - d[c] (x - mean) in all cases.

package kernel

// ChannelSumsPart leaves, for chunk c's rows and channels, the sums of g and of g xhat in parts. x nil: of g only.
func ChannelSumsPart[T Float](k *ChannelNorm, g, x, stats []T, parts []float64, c int) {
	r0, r1, c0, c1, part := k.grid.cell(c)
	sums, products := k.part(parts, part, c0, c1)
	clear(sums)
	clear(products)
	if k.p == 1 {
		channelSumsDown(k, sums, products, g, x, stats, r0, r1, c0)
		return
	}
	for i := range sums {
		w := planeRuns{k, c0 + i, r0, r1}
		for at, length, n := w.next(); length > 0; at, length, n = w.next() {
			run := g[at:][:length]
			sums[i] += sumRow(run)
			if x != nil {
				s := k.stat(n, c0+i)
				_, b := rowProducts(run, x[at:][:length], nil, stats[s], stats[s+1])
				products[i] += b
			}
		}
	}
}

func channelSumsDown[T Float](k *ChannelNorm, sums, products []float64, g, x, stats []T, r0, r1, c0 int) {
	for r := r0; r < r1; r++ {
		row := g[r*k.c+c0:][:len(sums)]
		addDown(sums, row, 1, 0)
		if x == nil {
			continue
		}
		xs := x[r*k.c+c0:][:len(sums)]
		if k.groups == 0 && productsDownFast(products, row, xs, stats[2*c0:]) {
			continue
		}
		for i, v := range xs {
			s := k.stat(r, c0+i)
			products[i] += float64(row[i] * ((v - stats[s]) * stats[s+1]))
		}
	}
}

// ChannelSumsFinish adds the partial sums up, into the first ones: [2 C] sums of g, then of g xhat. Once, after all chunks.
func ChannelSumsFinish(k *ChannelNorm, parts []float64) (sums []float64) {
	sums = parts[:2*k.c]
	for r := 1; r < k.grid.nr; r++ {
		for i, v := range parts[2*r*k.c:][:2*k.c] {
			sums[i] += v
		}
	}
	return sums
}

// PutSums rounds sums into dst, or adds them to it.
func PutSums[T Float](dst []T, add bool, sums []float64) {
	for i, v := range sums {
		putSum(dst, i, add, v)
	}
}

func putSum[T Float](dst []T, i int, add bool, v float64) {
	if add {
		v += float64(dst[i])
	}
	dst[i] = T(v)
}

// BatchNormFactors fills a, b and d, [3 C], for dx. sums is nil if the statistics were given.
func BatchNormFactors[T Float](k *ChannelNorm, factors, stats, w []T, sums []float64) {
	n := float64(k.n * k.p)
	for c := range k.c {
		rstd := float64(stats[2*c+1])
		a := rstd * float64(orElse(w, c, 1))
		factors[c], factors[k.c+c], factors[2*k.c+c] = T(a), 0, 0
		if sums != nil {
			factors[k.c+c], factors[2*k.c+c] = T(a*sums[c]/n), T(a*rstd*sums[k.c+c]/n)
		}
	}
}

// BatchNormBackward fills piece number c of dx, or adds to it. x is nil if the statistics were given.
func BatchNormBackward[T Float](k *ChannelNorm, dx []T, add bool, g, x, stats, factors []T, c int) {
	rows, cols := k.rows()
	lo, hi := RowRange(rows, cols, c)
	for r := lo; r < hi; r++ {
		dst, row, xs := dx[r*cols:][:cols], g[r*cols:][:cols], Cut(x, r*cols, (r+1)*cols)
		if k.p == 1 {
			combineEach(dst, add, row, xs, stats, factors, k.c)
			continue
		}
		ch := r % k.c
		if x == nil {
			scaleRow(dst, row, factors[ch], add)
			continue
		}
		combineAll(dst, add, row, xs, stats[2*ch], factors[ch], factors[k.c+ch], factors[2*k.c+ch])
	}
}

// combineAll fills dx with a g - b - d (x - mean), or adds it.
func combineAll[T Float](dx []T, add bool, g, x []T, mean, a, b, d T) {
	g, x = g[:len(dx)], x[:len(dx)]
	if combineFast(dx, add, g, x, mean, a, b, d) {
		return
	}
	if add {
		for i := range dx {
			dx[i] += a*g[i] - b - d*(x[i]-mean)
		}
		return
	}
	for i := range dx {
		dx[i] = a*g[i] - b - d*(x[i]-mean)
	}
}

// combineEach is combineAll, or scaleRow where x is nil, where each element is of another channel.
func combineEach[T Float](dx []T, add bool, g, x, stats, factors []T, cols int) {
	if combineEachFast(dx, add, g, x, stats, factors, cols) {
		return
	}
	for i, v := range g {
		v *= factors[i]
		if x != nil {
			v -= factors[cols+i] + factors[2*cols+i]*(x[i]-stats[2*i])
		}
		if add {
			v += dx[i]
		}
		dx[i] = v
	}
}

// BatchNormGivenBackward fills dmean and dvar, or adds to them; either may be nil. sums are those of ChannelSumsFinish.
func BatchNormGivenBackward[T Float](k *ChannelNorm, dmean []T, addM bool, dvar []T, addV bool, stats, w []T, sums []float64) {
	for c := range k.c {
		rstd := float64(stats[2*c+1])
		a := rstd * float64(orElse(w, c, 1))
		if dmean != nil {
			putSum(dmean, c, addM, -a*sums[c])
		}
		if dvar != nil {
			putSum(dvar, c, addV, -0.5*a*rstd*sums[k.c+c])
		}
	}
}

// GroupNormBackward fills piece number c of dx, or adds to it.
func GroupNormBackward[T Float](k *ChannelNorm, dx []T, add bool, g, x, w, stats []T, c int) {
	rows, cols := k.rows()
	lo, hi := RowRange(rows, cols, c)
	for r := lo; r < hi; r++ {
		dst, row, xs := dx[r*cols:][:cols], g[r*cols:][:cols], x[r*cols:][:cols]
		mean, rstd := stats[2*r], stats[2*r+1]
		c0, c1 := k.channels(r)
		if k.p == 1 {
			layerNormBackwardRow(dst, add, row, xs, Cut(w, c0, c1), mean, rstd)
			continue
		}
		var s1, s2 float64
		for i := range c1 - c0 {
			a, b := rowProducts(row[i*k.p:][:k.p], xs[i*k.p:][:k.p], nil, mean, rstd)
			v := float64(orElse(w, c0+i, 1))
			s1, s2 = s1+v*a, s2+v*b
		}
		b, d := T(float64(rstd)*s1/float64(cols)), T(float64(rstd)*float64(rstd)*s2/float64(cols))
		for i := range c1 - c0 {
			combineAll(dst[i*k.p:][:k.p], add, row[i*k.p:][:k.p], xs[i*k.p:][:k.p], mean, rstd*orElse(w, c0+i, 1), b, d)
		}
	}
}

// Running moves the running value towards new by that share of the way: running = (1-share) running + share new.
func Running[T Float](running, new []T, share float64) {
	for i, v := range new {
		running[i] = T((1-share)*float64(running[i]) + share*float64(v))
	}
}
