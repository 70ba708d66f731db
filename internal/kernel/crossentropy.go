// Cross-entropy of logits x [rows cols] with one target class a row, torch's options included:
//
//	lse   = m + log sum exp(x - m)      m = max x
//	loss  = (1-s) w[target] (lse - x[target]) + s/cols sum over c of w[c] (lse - x[c])
//
// with class weights w (1 without) and label smoothing s. Forward reads x and targets and leaves lse for backward, which
// reads x, targets and lse:
//
//	dx[c] = k ((a + s/cols sum(w)) exp(x[c] - lse) - s/cols w[c] - (a if c is the target))     a = (1-s) w[target]
//
// with k the gradient of the row's loss. A row whose target is to be ignored has loss 0 and gradient 0 and weighs
// nothing. Sums over a row and losses are float64 until they are stored. A row that holds NaN or +Inf has a NaN loss, and
// a target at -Inf an infinite one, as in torch.

package kernel

import "math"

// Index is what targets and indices are stored as.
type Index interface{ int32 | int64 }

// CrossEntropyOptions are the same for all rows.
type CrossEntropyOptions[T Float] struct {
	Ignore    int64   // rows with this target do not count
	Weight    []T     // a factor for each class, or nil
	Smoothing float64 // the share of the target that is spread over all classes
}

// weight is the factor of class c.
func (o *CrossEntropyOptions[T]) weight(c int64) float64 {
	if o.Weight == nil {
		return 1
	}
	return float64(o.Weight[c])
}

// CrossEntropyPart is how many float64 a chunk of rows leaves behind: the sum of its losses, the sum of its targets'
// weights (which the mean divides by), and its first row with a target that is neither a class nor ignored, or -1.
const CrossEntropyPart = 3

// CrossEntropy fills lse and loss, each unless nil, one a row, and part, of CrossEntropyPart numbers. A row with a bad
// target gets the loss NaN.
func CrossEntropy[T Float, I Index](part []float64, loss, lse, x []T, targets []I, cols int, o *CrossEntropyOptions[T]) {
	var sum, weight float64
	bad := -1
	for r, target := range targets {
		row, t := x[r*cols:][:cols], int64(target)
		top, l := logSumExp(row)
		if lse != nil {
			lse[r] = T(top + l)
		}
		var rowLoss float64
		switch {
		case t == o.Ignore:
		case t >= 0 && t < int64(cols):
			w := o.weight(t)
			weight += w
			rowLoss = w * ((top - float64(row[t])) + l)
			if o.Smoothing != 0 {
				rowLoss += o.Smoothing * (smoothLoss(row, o.Weight, top+l)/float64(cols) - rowLoss)
			}
		default:
			rowLoss = math.NaN()
			if bad < 0 {
				bad = r
			}
		}
		sum += rowLoss
		if loss != nil {
			loss[r] = T(rowLoss)
		}
	}
	part[0], part[1], part[2] = sum, weight, float64(bad)
}

// CrossEntropyFinish adds up the parts of all chunks of [rows cols]. bad is the first row with a bad target, or -1.
func CrossEntropyFinish(parts []float64, rows, cols int) (sum, weight float64, bad int) {
	bad = -1
	for c := range RowChunks(rows, cols) {
		p := parts[c*CrossEntropyPart:][:CrossEntropyPart]
		sum += p[0]
		weight += p[1]
		if bad < 0 && p[2] >= 0 {
			lo, _ := RowRange(rows, cols, c)
			bad = lo + int(p[2])
		}
	}
	return sum, weight, bad
}

// logSumExp is top = max x and l = log sum exp(x - top). NaN and +Inf anywhere make l NaN, as does a row of -Inf.
func logSumExp[T Float](x []T) (top, l float64) {
	top = largest(x)
	return top, math.Log(expRow(x, top))
}

// expBelow fills e with exp(x - top).
func expBelow[T Float](e []float64, x []T, top float64) {
	e = e[:len(x)]
	for i, v := range x {
		e[i] = float64(v) - top
	}
	exp[T](e)
}

// smoothLoss is the sum of w (lse - x).
func smoothLoss[T Float](x, w []T, lse float64) float64 {
	if w == nil {
		return float64(len(x))*lse - sumRow(x)
	}
	return lse*sumRow(w) - products(w, x)
}

// CrossEntropyBackward fills the rows of dx, or adds to them, where k = scale, times g[r] unless g is nil. dx may be x.
func CrossEntropyBackward[T Float, I Index](
	dx []T, add bool, g []T, scale float64, x, lse []T, targets []I, cols int, o *CrossEntropyOptions[T],
) {
	share := o.Smoothing / float64(cols)
	spread := 0.0 // s/cols sum(w)
	if o.Smoothing != 0 {
		spread = o.Smoothing
		if o.Weight != nil {
			spread = share * sumRow(o.Weight)
		}
	}
	for r, target := range targets {
		d, t := dx[r*cols:][:cols], int64(target)
		if t == o.Ignore {
			if !add {
				clear(d)
			}
			continue
		}
		k := scale
		if g != nil {
			k *= float64(g[r])
		}
		a := (1 - o.Smoothing) * o.weight(t)
		expTimesRow(d, add, x[r*cols:][:cols], float64(lse[r]), k*(a+spread))
		if share != 0 {
			subtractWeights(d, o.Weight, k*share)
		}
		d[t] -= T(k * a)
	}
}

// expTimesRow fills d with k exp(x - top), or adds it. No x is above top.
func expTimesRow[T Float](d []T, add bool, x []T, top, k float64) {
	if expTimesRowFast(d, add, x, top, k) {
		return
	}
	var e [expBlock]float64
	for len(x) > 0 {
		n := min(len(x), expBlock)
		expBelow(e[:n], x[:n], top)
		scaleRow(e[:n], e[:n], k, false)
		putRow(d[:n], add, e[:n])
		d, x = d[n:], x[n:]
	}
}

// subtractWeights takes k w from d, k where w is nil.
func subtractWeights[T Float](d, w []T, k float64) {
	if w == nil {
		addScalarRow(d, d, T(-k))
		return
	}
	scaleRow(d, w, T(-k), true)
}
