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
//
// Long rows are gone through in blocks of about a thousand classes (ClassBlock): m is the largest so far, and the sum is
// multiplied by e^(m before - m after) where a block has a larger one (Milakov and Gimelshein, 2018). So x is read from
// memory once; and it may come range by range (crossentropy_range.go), with the same bits.

package kernel

import "math"

// Index is what targets and indices are stored as.
type Index interface{ int32 | int64 }

// CrossEntropyOptions are the same for all rows.
type CrossEntropyOptions[T Float] struct {
	Ignore    int64   // rows with this target do not count
	Weight    []T     // a factor for each class, or nil
	Smoothing float64 // the share of the target that is spread over all classes
	weightSum float64 // see SumWeights
}

// SumWeights adds the weights up, which label smoothing wants: once, instead of once a call.
func (o *CrossEntropyOptions[T]) SumWeights() { o.weightSum = sumRow(o.Weight) }

// weight is the factor of class c.
func (o *CrossEntropyOptions[T]) weight(c int64) float64 {
	if o.Weight == nil {
		return 1
	}
	return float64(o.Weight[c])
}

// weights is the sum of the factors of so many classes, or 0 where nobody asks for it.
func (o *CrossEntropyOptions[T]) weights(classes int) float64 {
	switch {
	case o.Smoothing == 0:
		return 0
	case o.Weight == nil:
		return float64(classes)
	case o.weightSum != 0:
		return o.weightSum
	}
	return sumRow(o.Weight)
}

// CrossEntropyPart is how many float64 a chunk of rows leaves behind: the sum of its losses, the sum of its targets'
// weights (which the mean divides by), and its first row with a target that is neither a class nor ignored, or -1.
const CrossEntropyPart = 3

// CrossEntropy fills lse and loss, each unless nil, one a row, and part, of CrossEntropyPart numbers. A row with a bad
// target gets the loss NaN.
func CrossEntropy[T Float, I Index](part []float64, loss, lse, x []T, targets []I, cols int, o *CrossEntropyOptions[T]) {
	var sum, weight float64
	bad, weights := -1, o.weights(cols)
	for r, target := range targets {
		t, row := int64(target), newRowLoss
		addClasses(&row, x[r*cols:][:cols], 0, ClassBlock(cols), t, o)
		rowLoss, l := finishRow(&row, t, cols, weights, o)
		switch {
		case t == o.Ignore:
		case t >= 0 && t < int64(cols):
			weight += o.weight(t)
		case bad < 0:
			bad = r
		}
		sum += rowLoss
		if loss != nil {
			loss[r] = T(rowLoss)
		}
		if lse != nil {
			lse[r] = T(l)
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

// ClassBlock is how many of a row's classes are taken at a time: their logits stay in the first cache from the search for
// the largest to the sum. It is a multiple of [GEMMDepth], so that a product over the classes can be cut there too.
func ClassBlock(classes int) int {
	if classes < 1 {
		return 1
	}
	return 4 * gemmDepth(classes)
}

// logSumExp is top = max x and l = log sum exp(x - top). NaN and +Inf anywhere make l NaN, as does a row of -Inf.
func logSumExp[T Float](x []T) (top, l float64) {
	top, sum := addExp(math.Inf(-1), 0, x, ClassBlock(len(x)))
	return top, logOfSum(top, sum)
}

// addExp adds exp(x - top) to a sum, block by block. top is the largest logit so far, -Inf before the first, and becomes
// that of a block where that is larger.
func addExp[T Float](top, sum float64, x []T, block int) (float64, float64) {
	for len(x) > 0 {
		n := min(len(x), block)
		if m := largest(x[:n]); m > top {
			sum *= math.Exp(top - m)
			top = m
		}
		if math.IsInf(top, -1) { // nothing but -Inf, or NaN
			sum += expRow(x[:n], 0)
		} else {
			sum += expRow(x[:n], top)
		}
		x = x[n:]
	}
	return top, sum
}

// logOfSum is the logarithm of a sum that addExp made.
func logOfSum(top, sum float64) float64 {
	if math.IsInf(top, -1) {
		return math.NaN()
	}
	return math.Log(sum)
}

// expBelow fills e with exp(x - top).
func expBelow[T Float](e []float64, x []T, top float64) {
	e = e[:len(x)]
	for i, v := range x {
		e[i] = float64(v) - top
	}
	exp[T](e)
}

// CrossEntropyBackward fills the rows of dx, or adds to them, where k = scale, times g[r] unless g is nil. dx may be x.
func CrossEntropyBackward[T Float, I Index](
	dx []T, add bool, g []T, scale float64, x, lse []T, targets []I, cols int, o *CrossEntropyOptions[T],
) {
	CrossEntropyBackwardRange(dx, add, g, scale, x, lse, targets, ClassRange{Cols: cols, Classes: cols}, o)
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
