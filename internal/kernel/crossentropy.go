// Cross-entropy of logits x [rows cols] with one target class a row:
//
//	lse = m + log sum exp(x - m)     loss = (m - x[target]) + log sum exp(x - m)     m = max x
//
// Forward reads x and targets, and leaves lse for backward, which reads x, targets and lse:
//
//	dx = k (exp(x - lse) - (1 at the target))
//
// with k the gradient of the row's loss. A row whose target is ignore has loss 0 and gradient 0 and is not counted. The
// sum over a row is carried in float64, and so is the loss until it is rounded. A row that holds NaN or +Inf has a NaN
// loss, and a target at -Inf an infinite one, as in torch.

package kernel

import "math"

// Index is what targets and indices are stored as.
type Index interface{ int32 | int64 }

// CrossEntropyPart is how many float64 a chunk of rows leaves behind: the sum of its losses, how many rows counted, and
// the first row (of the chunk) with a target that is neither a class nor ignore, or -1.
const CrossEntropyPart = 3

// CrossEntropy fills lse and loss, each unless nil, one a row, and part, of CrossEntropyPart numbers. A row with a bad
// target gets the loss NaN.
func CrossEntropy[T Float, I Index](part []float64, loss, lse, x []T, targets []I, cols int, ignore int64) {
	var sum float64
	kept, bad := 0, -1
	for r, target := range targets {
		row := x[r*cols:][:cols]
		top, l := logSumExp(row)
		t := int64(target)
		if lse != nil {
			lse[r] = T(top + l)
		}
		var rowLoss float64
		switch {
		case t == ignore:
		case t >= 0 && t < int64(cols):
			rowLoss = (top - float64(row[t])) + l
			kept++
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
	part[0], part[1], part[2] = sum, float64(kept), float64(bad)
}

// CrossEntropyFinish adds up the parts of all chunks of [rows cols]. bad is the first row with a bad target, or -1.
func CrossEntropyFinish(parts []float64, rows, cols int) (sum float64, kept, bad int) {
	bad = -1
	for c := range RowChunks(rows, cols) {
		p := parts[c*CrossEntropyPart:][:CrossEntropyPart]
		sum += p[0]
		kept += int(p[1])
		if bad < 0 && p[2] >= 0 {
			lo, _ := RowRange(rows, cols, c)
			bad = lo + int(p[2])
		}
	}
	return sum, kept, bad
}

// logSumExp is top = max x and l = log sum exp(x - top). NaN and +Inf anywhere make l NaN, as does a row of -Inf.
func logSumExp[T Float](x []T) (top, l float64) {
	m := T(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	top = float64(m)
	var e [expBlock]float64
	var sum float64
	for len(x) > 0 {
		n := min(len(x), expBlock)
		expBelow(e[:n], x[:n], top)
		sum += sumRow(e[:n])
		x = x[n:]
	}
	return top, math.Log(sum)
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
	dx []T, add bool, g []T, scale float64, x, lse []T, targets []I, cols int, ignore int64,
) {
	for r, target := range targets {
		d, row := dx[r*cols:][:cols], x[r*cols:][:cols]
		t := int64(target)
		if t == ignore {
			if !add {
				clear(d)
			}
			continue
		}
		k := scale
		if g != nil {
			k *= float64(g[r])
		}
		var e [expBlock]float64
		for at := 0; at < cols; at += expBlock {
			n := min(cols-at, expBlock)
			expBelow(e[:n], row[at:at+n], float64(lse[r]))
			for i, v := range e[:n] {
				z := T(k * v)
				if add {
					z += d[at+i]
				}
				d[at+i] = z
			}
		}
		d[t] -= T(k)
	}
}
