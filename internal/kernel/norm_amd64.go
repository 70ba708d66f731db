//go:build amd64 && !purego

package kernel

//go:generate go -C _gen run ./norm -out ../norm_amd64.s

// Rows of norms with AVX2: n float32, n at least 1, with the operations of the plain versions in their order. Sums are
// float64. Pointers that are optional are nil; y may be x, and dx may be d or x.

// rowAffine is y = (x-mean) rstd w + b. w and b are optional.
//
//go:noescape
func rowAffine(n int, y, x, w, b *float32, mean, rstd float32)

// rowAffineAll is rowAffine with one w and one b.
//
//go:noescape
func rowAffineAll(n int, y, x *float32, mean, rstd, w, b float32)

// rowNormProducts is the sum of d w and that of d w (x-mean) rstd. w is optional.
//
//go:noescape
func rowNormProducts(n int, d, x, w *float32, mean, rstd float32) (dw, dwx float64)

// rowNormBackward is dx = or += rstd (d w - m1 - (x-mean) rstd m2). w is optional.
//
//go:noescape
func rowNormBackward(n int, dx *float32, add bool, d, x, w *float32, mean, rstd, m1, m2 float32)

// rowCombine is dx = or += a d - b - c (x-mean).
//
//go:noescape
func rowCombine(n int, dx *float32, add bool, d, x *float32, mean, a, b, c float32)

// rowAffineEach is rowAffine with a pair of stats for each element.
//
//go:noescape
func rowAffineEach(n int, y, x, stats, w, b *float32)

// rowCombineEach is rowCombine with a mean (of a pair of stats), a, b and c for each element; or dx = or += a d without x.
//
//go:noescape
func rowCombineEach(n int, dx *float32, add bool, d, x, stats, a, b, c *float32)

// downEach adds d (x-mean) rstd to sums, with a pair of stats for each element.
//
//go:noescape
func downEach(n int, sums *float64, d, x, stats *float32)

// downAffine adds d (x-mean) rstd to dw and d to db, element by element. stats has mean and rstd.
//
//go:noescape
func downAffine(n int, dw, db *float64, d, x *float32, stride int, stats *float32)

// downAffine2 is downAffine for two rows, which lie stride apart, with a pair of stats each.
//
//go:noescape
func downAffine2(n int, dw, db *float64, d, x *float32, stride int, stats *float32)

// downScaled adds d x rstd to dw.
//
//go:noescape
func downScaled(n int, dw *float64, d, x *float32, stride int, rstd *float32)

// downScaled2 is downScaled for two rows.
//
//go:noescape
func downScaled2(n int, dw *float64, d, x *float32, stride int, rstd *float32)

// orNil is x cut to n elements, or nil.
func orNil[T any](x []T, n int) []T {
	if x == nil {
		return nil
	}
	return x[:n]
}

func affineFast[T Float](y, x, w, b []T, mean, rstd T) bool {
	if !ready(y, x) {
		return false
	}
	w, b = orNil(w, len(y)), orNil(b, len(y))
	if raceEnabled {
		touchRead(w, b)
	}
	rowAffine(len(y), begin(y), begin(x), begin(w), begin(b), float32(mean), float32(rstd))
	return true
}

func affineAllFast[T Float](y, x []T, mean, rstd, w, b T) bool {
	if !ready(y, x) {
		return false
	}
	rowAffineAll(len(y), begin(y), begin(x), float32(mean), float32(rstd), float32(w), float32(b))
	return true
}

func productsFast[T Float](g, x, w []T, mean, rstd T) (gw, gwx float64, ok bool) {
	n := len(x)
	if !worthAVX2[T](n) {
		return 0, 0, false
	}
	g, w = g[:n], orNil(w, n)
	if raceEnabled {
		touchRead(g, x, w)
	}
	gw, gwx = rowNormProducts(n, begin(g), begin(x), begin(w), float32(mean), float32(rstd))
	return gw, gwx, true
}

func normBackwardFast[T Float](dx []T, add bool, g, x, w []T, mean, rstd, m1, m2 T) bool {
	if !ready(dx, g, x) {
		return false
	}
	w = orNil(w, len(dx))
	if raceEnabled {
		touchRead(w)
	}
	rowNormBackward(len(dx), begin(dx), add, begin(g), begin(x), begin(w), float32(mean), float32(rstd), float32(m1), float32(m2))
	return true
}

func combineFast[T Float](dx []T, add bool, g, x []T, mean, a, b, d T) bool {
	if !ready(dx, g, x) {
		return false
	}
	rowCombine(len(dx), begin(dx), add, begin(g), begin(x), float32(mean), float32(a), float32(b), float32(d))
	return true
}

// affineRowsFast adds what rows of columns [c0, c0+len(dw)) of g and x, cols columns wide, give to dw and db. stats has a
// pair for each row.
func affineRowsFast[T Float](dw, db []float64, g, x, stats []T, cols, c0 int) bool {
	n, rows := len(dw), len(stats)/2
	if !columnsReady(g, x, rows, cols, c0, n) {
		return false
	}
	db = db[:n]
	for r := 0; r < rows; {
		d, v, s := begin(g[r*cols+c0:]), begin(x[r*cols+c0:]), begin(stats[2*r:])
		if r+2 <= rows {
			downAffine2(n, &dw[0], &db[0], d, v, cols, s)
			r += 2
			continue
		}
		downAffine(n, &dw[0], &db[0], d, v, cols, s)
		r++
	}
	return true
}

// scaledRowsFast adds what such rows give to dw, where they have no mean.
func scaledRowsFast[T Float](dw []float64, g, x, rstd []T, cols, c0 int) bool {
	n, rows := len(dw), len(rstd)
	if !columnsReady(g, x, rows, cols, c0, n) {
		return false
	}
	for r := 0; r < rows; {
		d, v, s := begin(g[r*cols+c0:]), begin(x[r*cols+c0:]), begin(rstd[r:])
		if r+2 <= rows {
			downScaled2(n, &dw[0], d, v, cols, s)
			r += 2
			continue
		}
		downScaled(n, &dw[0], d, v, cols, s)
		r++
	}
	return true
}

// columnsReady says whether n columns of some rows of g and x go through AVX2, and touches them.
func columnsReady[T Float](g, x []T, rows, cols, c0, n int) bool {
	if rows == 0 || !worthAVX2[T](n) {
		return false
	}
	end := (rows-1)*cols + c0 + n
	_, _ = g[:end], x[:end]
	if raceEnabled {
		for r := range rows {
			touchRead(g[r*cols+c0:][:n], x[r*cols+c0:][:n])
		}
	}
	return true
}

func affineEachFast[T Float](y, x, stats, w, b []T) bool {
	if !ready(y, x) {
		return false
	}
	n := len(y)
	stats, w, b = stats[:2*n], orNil(w, n), orNil(b, n)
	if raceEnabled {
		touchRead(stats, w, b)
	}
	rowAffineEach(n, begin(y), begin(x), begin(stats), begin(w), begin(b))
	return true
}

func combineEachFast[T Float](dx []T, add bool, g, x, stats, factors []T, cols int) bool {
	if !ready(dx, g) {
		return false
	}
	n := len(dx)
	x, stats = orNil(x, n), stats[:2*n]
	a, b, c := factors[:n], factors[cols:][:n], factors[2*cols:][:n]
	if raceEnabled {
		touchRead(x, stats, a, b, c)
	}
	rowCombineEach(n, begin(dx), add, begin(g), begin(x), begin(stats), begin(a), begin(b), begin(c))
	return true
}

func productsDownFast[T Float](sums []float64, g, x, stats []T) bool {
	n := len(sums)
	if !worthAVX2[T](n) {
		return false
	}
	g, x, stats = g[:n], x[:n], stats[:2*n]
	if raceEnabled {
		touchRead(g, x, stats)
	}
	downEach(n, &sums[0], begin(g), begin(x), begin(stats))
	return true
}
