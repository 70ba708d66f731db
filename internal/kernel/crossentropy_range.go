// Cross-entropy where the logits of a row are there for a range of classes at a time, as the loss head of a language model
// makes them. Forward carries a few numbers a row from range to range; backward needs lse, and no other class.

package kernel

import "math"

// ClassRange is the classes of one call, [First, First+Cols) of all. Its logits are [rows Cols].
type ClassRange struct{ First, Cols, Classes int }

// CrossEntropyState is how many float64 a row carries from range to range.
const CrossEntropyState = 4

// rowLoss is what is known of a row after some of its classes.
type rowLoss [CrossEntropyState]float64

const (
	atTop    = iota // the largest logit
	atSum           // the sum of exp(x - top)
	atTarget        // the target's logit
	atSmooth        // the sum of w x, for label smoothing
)

var newRowLoss = rowLoss{atTop: math.Inf(-1)}

// CrossEntropyRange takes in the logits of a range of classes. Ranges come in order, the first of them with First 0, and
// begin at multiples of [ClassBlock]. After the last one the state is for [CrossEntropyRows].
func CrossEntropyRange[T Float, I Index](state []float64, x []T, targets []I, c ClassRange, o *CrossEntropyOptions[T]) {
	block := ClassBlock(c.Classes)
	for r, target := range targets {
		row := (*rowLoss)(state[r*CrossEntropyState:])
		if c.First == 0 {
			*row = newRowLoss
		}
		addClasses(row, x[r*c.Cols:][:c.Cols], c.First, block, int64(target), o)
	}
}

// addClasses takes in the logits of the classes from number first on, in blocks.
func addClasses[T Float](row *rowLoss, x []T, first, block int, target int64, o *CrossEntropyOptions[T]) {
	row[atTop], row[atSum] = addExp(row[atTop], row[atSum], x, block)
	if t := target - int64(first); t >= 0 && t < int64(len(x)) {
		row[atTarget] = float64(x[t])
	}
	if o.Smoothing != 0 {
		row[atSmooth] = addSmooth(row[atSmooth], x, Cut(o.Weight, first, first+len(x)), block)
	}
}

// addSmooth adds w x to a sum, x where w is nil, block by block.
func addSmooth[T Float](sum float64, x, w []T, block int) float64 {
	for i := 0; i < len(x); i += block {
		b := x[i:min(len(x), i+block)]
		if w == nil {
			sum += sumRow(b)
		} else {
			sum += products(b, w[i:])
		}
	}
	return sum
}

// finishRow gives the loss of a row and its lse. weights is the sum of all classes' weights.
func finishRow[T Float](row *rowLoss, target int64, classes int, weights float64, o *CrossEntropyOptions[T]) (loss, lse float64) {
	top, l := row[atTop], logOfSum(row[atTop], row[atSum])
	switch {
	case target == o.Ignore:
	case target < 0 || target >= int64(classes):
		loss = math.NaN()
	default:
		loss = o.weight(target) * ((top - row[atTarget]) + l)
		if o.Smoothing != 0 {
			loss += o.Smoothing * (((top+l)*weights-row[atSmooth])/float64(classes) - loss)
		}
	}
	return loss, top + l
}

// CrossEntropyRows fills lse and loss, each unless nil, and leaves each row's loss in the state, for [CrossEntropySum].
func CrossEntropyRows[T Float, I Index](state []float64, loss, lse []T, targets []I, classes int, o *CrossEntropyOptions[T]) {
	weights := o.weights(classes)
	for r, target := range targets {
		row := (*rowLoss)(state[r*CrossEntropyState:])
		v, l := finishRow(row, int64(target), classes, weights, o)
		row[0] = v
		if loss != nil {
			loss[r] = T(v)
		}
		if lse != nil {
			lse[r] = T(l)
		}
	}
}

// CrossEntropySum adds the losses of so many rows to sum, in order.
func CrossEntropySum(sum float64, state []float64, rows int) float64 {
	for r := range rows {
		sum += state[r*CrossEntropyState]
	}
	return sum
}

// CrossEntropyBackwardRange is [CrossEntropyBackward] for a range of classes.
func CrossEntropyBackwardRange[T Float, I Index](
	dx []T, add bool, g []T, scale float64, x, lse []T, targets []I, c ClassRange, o *CrossEntropyOptions[T],
) {
	share := o.Smoothing / float64(c.Classes)
	spread := o.Smoothing // s/cols sum(w)
	if o.Weight != nil {
		spread = share * o.weights(c.Classes)
	}
	for r, target := range targets {
		d, t := dx[r*c.Cols:][:c.Cols], int64(target)
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
		expTimesRow(d, add, x[r*c.Cols:][:c.Cols], float64(lse[r]), k*(a+spread))
		if share != 0 {
			subtractWeights(d, Cut(o.Weight, c.First, c.First+c.Cols), k*share)
		}
		if t -= int64(c.First); t >= 0 && t < int64(len(d)) {
			d[t] -= T(k * a)
		}
	}
}
