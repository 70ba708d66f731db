// Losses of x and a target t, element by element, d = x - t. Backward makes the gradient of either, of which the one of x
// reads x and t unless it says otherwise:
//
//	            loss                           d loss/dx               d loss/dt
//	squared     d^2                            2 d                     -2 d
//	absolute    |d|                            sign d                  -sign d
//	smooth      d^2/2/beta where |d| < beta    d/beta                  -d/beta
//	            |d| - beta/2 elsewhere         sign d                  -sign d
//	logistic    max(x,0) - x t + log(1+e^-|x|) sigmoid(x) - t          -x           reads x
//	divergence  t log t - t x                  -t         reads t      log t + 1 - x
//
// t log t is 0 where t is 0, and so is the gradient of that t, as in torch. All is computed in float64, in blocks on the
// stack, and summed in float64. sign(NaN) is NaN.

package kernel

import "math"

// Loss is one of the losses.
type Loss uint8

// The losses.
const (
	LossSquared Loss = iota
	LossAbsolute
	LossSmooth
	LossLogistic
	LossDivergence
)

// lossBlock is how many elements are worked on at a time: 1 KiB of float64.
const lossBlock = expBlock

// LossEach fills y with the loss of each element.
func LossEach[T Float](k Loss, y, x, t []T, beta float64) {
	var e [lossBlock]float64
	for len(x) > 0 {
		n := min(len(x), lossBlock)
		losses(k, e[:n], x[:n], t[:n], beta)
		putRow(y[:n], false, e[:n])
		x, t, y = x[n:], t[n:], y[n:]
	}
}

// LossSum is the sum of the losses.
func LossSum[T Float](k Loss, x, t []T, beta float64) (sum float64) {
	var e [lossBlock]float64
	for len(x) > 0 {
		n := min(len(x), lossBlock)
		losses(k, e[:n], x[:n], t[:n], beta)
		sum += sumRow(e[:n])
		x, t = x[n:], t[n:]
	}
	return sum
}

// losses fills e.
func losses[T Float](k Loss, e []float64, x, t []T, beta float64) {
	x, t = x[:len(e)], t[:len(e)]
	switch k {
	case LossSquared:
		for i, v := range x {
			d := float64(v) - float64(t[i])
			e[i] = d * d
		}
	case LossAbsolute:
		for i, v := range x {
			e[i] = math.Abs(float64(v) - float64(t[i]))
		}
	case LossSmooth: // no branch on data: c is |d| in the parabola, beta outside
		if beta == 0 {
			losses(LossAbsolute, e, x, t, 0)
			return
		}
		for i, v := range x {
			d := math.Abs(float64(v) - float64(t[i]))
			c := min(d, beta)
			e[i] = c / beta * (d - c/2)
		}
	case LossLogistic:
		for i, v := range x {
			e[i] = -math.Abs(float64(v))
		}
		exp[T](e)
		for i, v := range x {
			w := float64(v)
			e[i] = max(w, 0) - w*float64(t[i]) + math.Log1p(e[i])
		}
	case LossDivergence:
		for i, v := range t {
			w := float64(v)
			e[i] = -w * float64(x[i])
			if w != 0 {
				e[i] += w * math.Log(w)
			}
		}
	}
}

// LossBackward fills dx with scale times the slope in x, and times g unless it is nil, or adds it. What the table does
// not name may be nil. dx may be g, x or t.
func LossBackward[T Float](k Loss, dx []T, add bool, g []T, scale float64, x, t []T, beta float64) {
	var e [lossBlock]float64
	for lo := 0; lo < len(dx); lo += lossBlock {
		hi := min(len(dx), lo+lossBlock)
		slopes(k, e[:hi-lo], Cut(x, lo, hi), Cut(t, lo, hi), beta)
		lossChain(dx[lo:hi], add, Cut(g, lo, hi), scale, e[:hi-lo])
	}
}

// LossBackwardTarget is LossBackward for t.
func LossBackwardTarget[T Float](k Loss, dt []T, add bool, g []T, scale float64, x, t []T, beta float64) {
	var e [lossBlock]float64
	for lo := 0; lo < len(dt); lo += lossBlock {
		hi := min(len(dt), lo+lossBlock)
		s, piece := scale, e[:hi-lo]
		switch k {
		case LossLogistic:
			s = -scale
			for i, v := range x[lo:hi] {
				piece[i] = float64(v)
			}
		case LossDivergence:
			divergenceSlopes(piece, x[lo:hi], t[lo:hi])
		default:
			s = -scale
			slopes(k, piece, x[lo:hi], t[lo:hi], beta)
		}
		lossChain(dt[lo:hi], add, Cut(g, lo, hi), s, piece)
	}
}

// lossChain fills d with scale g e, or adds it.
func lossChain[T Float](d []T, add bool, g []T, scale float64, e []float64) {
	if g == nil {
		scaleRow(e, e, scale, false)
	} else {
		for i, v := range g {
			e[i] *= scale * float64(v)
		}
	}
	putRow(d, add, e)
}

// slopes fills e with the slopes in x.
func slopes[T Float](k Loss, e []float64, x, t []T, beta float64) {
	switch k {
	case LossSquared:
		for i, v := range x {
			e[i] = 2 * (float64(v) - float64(t[i]))
		}
	case LossAbsolute:
		for i, v := range x {
			e[i] = signOf(float64(v) - float64(t[i]))
		}
	case LossSmooth:
		if beta == 0 {
			slopes(LossAbsolute, e, x, t, 0)
			return
		}
		for i, v := range x {
			e[i] = max(-1, min(1, (float64(v)-float64(t[i]))/beta))
		}
	case LossLogistic:
		for i, v := range x {
			e[i] = -float64(v)
		}
		exp[T](e)
		for i, v := range t {
			e[i] = 1/(1+e[i]) - float64(v)
		}
	case LossDivergence:
		for i, v := range t {
			e[i] = -float64(v)
		}
	}
}

// divergenceSlopes fills e with the slopes in t.
func divergenceSlopes[T Float](e []float64, x, t []T) {
	for i, v := range t {
		e[i] = 0
		if v != 0 {
			e[i] = math.Log(float64(v)) + 1 - float64(x[i])
		}
	}
}
