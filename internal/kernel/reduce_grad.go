// Gradients of reductions, element by element of x: dst = or += the gradient.
//
//	sum, mean       k g            k = 1, 1/n
//	var, std        k g (x-mean)   k = 2/(n-correction), for std 1/(n-correction)/std
//	logsumexp       g exp(x-out)
//	norm 1          g sign(x)
//	norm 2          g x/out
//	norm inf        g sign(x)/ties where |x| = out, else 0
//	max, min        g/ties where the bit of x is set, else 0
//
// g, out (the result) and stat (the mean, or how many tie) have one element a column and lie as the result does; over the
// shape of x they are operands that repeat. As in torch, where the norm or the standard deviation is 0 so is the gradient,
// and where the maximum is NaN so is all of it. sign(NaN) is NaN: torch's is 0, which hides it.

package kernel

import "math"

// ReduceGrad is the gradient of one reduction.
type ReduceGrad[T Float] struct {
	Op      Reduction
	DX      []T // contiguous, of shape Shape
	Add     bool
	Shape   []int
	Strides []int   // of G, Out and Stat over Shape: 0 in dimensions that were reduced
	G       []T     // the gradient that arrives
	X       []T     // var, std, logsumexp, norms
	Out     []T     // std, logsumexp, norm 2, norm inf
	Stat    []T     // var and std: mean; max, min, norm inf: ties
	Bits    []uint8 // max, min: TieBits
	K       float64 // sum, mean, var, std
}

// Range works on elements [lo, hi) of x, in row-major order.
func (o *ReduceGrad[T]) Range(lo, hi int) {
	var w walk
	w.start(lo, o.Shape, nil, o.Strides, o.Strides)
	var f reduceFactors
	for lo < hi {
		n := w.run(hi - lo)
		for at, end := lo, lo+n; at < end; {
			m := min(len(f.k), end-at)
			if w.step[1] == 0 { // one column for the whole run
				o.columns(&f, w.off[1], 1)
				f.repeat(m)
			} else {
				o.columns(&f, w.off[1]+at-lo, m)
			}
			o.block(&f, at, m)
			at += m
		}
		w.next(n)
		lo += n
	}
}

// reduceFactors are what the gradient is made of, an element each: k times something of x and at.
type reduceFactors struct {
	k, at    [2 * sumBlock]float64
	first, n int // which columns they belong to
	copies   int // how many of the first there are, if they are repeated
}

// repeat makes n copies of the one column.
func (f *reduceFactors) repeat(n int) {
	for i := f.copies; i < n; i++ {
		f.k[i], f.at[i] = f.k[0], f.at[0]
	}
	f.copies = max(f.copies, n)
}

// columns makes f the factors of columns [c, c+n), unless it is: rows that follow each other have the same columns.
func (o *ReduceGrad[T]) columns(f *reduceFactors, c, n int) {
	if f.n == n && f.first == c {
		return
	}
	o.factors(f, c, n)
	f.first, f.n, f.copies = c, n, 1
}

// factors fills f for columns [c, c+n).
func (o *ReduceGrad[T]) factors(f *reduceFactors, c, n int) {
	k, at := f.k[:n], f.at[:n]
	for i, g := range o.G[c:][:n] {
		k[i] = float64(g)
	}
	switch o.Op {
	case ReduceSum, ReduceMean:
		scaleRow(k, k, o.K, false)
	case ReduceVar:
		for i, m := range o.Stat[c:][:n] {
			k[i], at[i] = k[i]*o.K, float64(m)
		}
	case ReduceStd:
		for i, m := range o.Stat[c:][:n] {
			k[i], at[i] = orZero(k[i]*o.K, float64(o.Out[c+i])), float64(m)
		}
	case ReduceLogSumExp:
		for i, y := range o.Out[c:][:n] {
			at[i] = float64(y)
		}
	case ReduceNorm2:
		for i, y := range o.Out[c:][:n] {
			k[i] = orZero(k[i], float64(y))
		}
	case ReduceNormInf:
		for i, y := range o.Out[c:][:n] {
			k[i], at[i] = k[i]/float64(o.Stat[c+i]), float64(y)
		}
	case ReduceMax, ReduceMin:
		for i, ties := range o.Stat[c:][:n] {
			k[i], at[i] = k[i]/float64(ties), 0
			if ties == 0 { // NaN
				k[i], at[i] = math.NaN(), math.NaN()
			}
		}
	}
}

// orZero is x/y, or 0 where y is.
func orZero(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}

// block fills elements [lo, lo+n) of the gradient, or adds to them.
func (o *ReduceGrad[T]) block(f *reduceFactors, lo, n int) {
	d, k, at := o.DX[lo:][:n], f.k[:n], f.at[:n]
	var x []T
	if o.X != nil {
		x = o.X[lo:][:n]
	}
	switch o.Op {
	case ReduceSum, ReduceMean:
		putRow(d, o.Add, k)
	case ReduceVar, ReduceStd:
		for i, v := range x {
			putOne(d, o.Add, i, k[i]*(float64(v)-at[i]))
		}
	case ReduceLogSumExp:
		expTimes(d, o.Add, x, k, at)
	case ReduceNorm1:
		for i, v := range x {
			putOne(d, o.Add, i, k[i]*signOf(float64(v)))
		}
	case ReduceNorm2:
		for i, v := range x {
			putOne(d, o.Add, i, k[i]*float64(v))
		}
	case ReduceNormInf:
		for i, v := range x {
			putOne(d, o.Add, i, atLargest(k[i], float64(v), at[i]))
		}
	case ReduceMax, ReduceMin:
		for i := range d {
			z := at[i]
			if o.Bits[(lo+i)>>3]>>((lo+i)&7)&1 != 0 {
				z = k[i]
			}
			putOne(d, o.Add, i, z)
		}
	}
}

// atLargest is k sign(v) where |v| is top, 0 elsewhere, NaN where top is.
func atLargest(k, v, top float64) float64 {
	switch {
	case math.Abs(v) == top:
		return k * signOf(v)
	case math.IsNaN(top):
		return top
	}
	return 0
}

// signOf is -1, 0 or 1, or NaN. What it branches on is rare.
func signOf(v float64) float64 {
	if v == 0 || math.IsNaN(v) {
		return v
	}
	return math.Copysign(1, v)
}

// putRow fills d with z, or adds it.
func putRow[T Float](d []T, add bool, z []float64) {
	z = z[:len(d)]
	if narrowFast(d, add, z) {
		return
	}
	if add {
		for i, v := range z {
			d[i] += T(v)
		}
		return
	}
	for i, v := range z {
		d[i] = T(v)
	}
}

// putOne is putRow of one element.
func putOne[T Float](d []T, add bool, i int, z float64) {
	v := T(z)
	if add {
		v += d[i]
	}
	d[i] = v
}

// expTimes fills d with k exp(x-at), or adds it.
func expTimes[T Float](d []T, add bool, x []T, k, at []float64) {
	var e [len(reduceFactors{}.k)]float64
	for i, v := range x {
		e[i] = float64(v) - at[i]
	}
	exp[T](e[:len(x)])
	for i := range x {
		putOne(d, add, i, k[i]*e[i])
	}
}

// TieBits fills the bits of elements [lo, hi) of x, lo a multiple of 8: set where x is top, which lies as Strides say.
func TieBits[T Float](bits []uint8, x []T, shape []int, top []T, strides []int, lo, hi int) {
	clear(bits[lo/8 : MaskBytes(hi)])
	var w walk
	w.start(lo, shape, nil, strides, strides)
	for n := 0; lo < hi; lo += n {
		n = w.run(hi - lo)
		at, step := w.off[1], w.step[1]
		for i, v := range x[lo:][:n] {
			if v == top[at+i*step] {
				bits[(lo+i)>>3] |= 1 << ((lo + i) & 7)
			}
		}
		w.next(n)
	}
}
