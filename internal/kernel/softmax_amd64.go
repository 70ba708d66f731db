//go:build amd64 && !purego

package kernel

import "math"

//go:generate go -C _gen run ./softmax -out ../softmax_amd64.s

// topFloat is the largest x, NaN left out, or -Inf.
//
//go:noescape
func topFloat(n int, x *float32) float32

// expRowFloats fills dst, unless nil, with e^(x - by), and gives the sum of that. by is where an expShift begins.
//
//go:noescape
func expRowFloats(n int, dst, x, by *float32) float64

// expTimesFloats fills d with k e^(x - by), or adds it.
//
//go:noescape
func expTimesFloats(n int, d *float32, add bool, x, by *float32, k float32)

// dotFloats is the sum of x y.
//
//go:noescape
func dotFloats(n int, x, y *float32) float64

// softmaxBackwardFloats fills d with y (dy - mean), or adds it.
//
//go:noescape
func softmaxBackwardFloats(n int, d *float32, add bool, dy, y *float32, mean float32)

// subtractFloats fills y with x - high - low.
//
//go:noescape
func subtractFloats(n int, y, x *float32, high, low float32)

// logSoftmaxBackwardFloats fills d with dy - e^y sum, or adds it.
//
//go:noescape
func logSoftmaxBackwardFloats(n int, d *float32, add bool, dy, y *float32, sum float32)

// expShift is what exponentials are taken relative to.
type expShift struct {
	base  float32 // taken from x
	magic float32 // of package avx of _gen, less what the power of 2 is to be less by
	floor float32 // x - base is at least this: e to it is 0 already
}

const (
	expNear  = 256
	expMagic = 0x1.8p23 + 254
	expUnder = -105 // e^-105 is less than half of the smallest float32
)

// shiftBy is what to take a row relative to whose largest element is top: top, or up to ln 2 / 2 beside it. x - top,
// rounded, would cost digits: of -80, five of the 24 bits of e^x. So up to expNear x is not touched, and e^x = 2^n e^r is
// multiplied by a power of 2, the one next to e^-top. Farther out, x - top is exact wherever e to it is not 0.
func shiftBy(top float32) (by expShift, at float64) {
	if !(math.Abs(float64(top)) <= expNear) {
		return expShift{top, expMagic, expUnder}, float64(top)
	}
	n := math.Round(float64(top) * math.Log2E)
	return expShift{0, float32(expMagic - n), top + expUnder}, n * math.Ln2
}

// topFast is largest, if there is a faster one for T on this processor.
func topFast[T Float](x []T) (top T, ok bool) {
	if !runsAVX2[T](len(x)) {
		return 0, false
	}
	if raceEnabled {
		touchRead(x)
	}
	return T(topFloat(len(x), begin(x))), true
}

// expRowFast fills dst with e^(x - at) and gives the sum of that, if there is a fast way for T on this processor. No x is
// above top; at is top or up to ln 2 / 2 beside it. dst may be x. What is below top by 105 or more, -Inf too, becomes 0; a
// top of -Inf or +Inf, or an x that is NaN, makes the sum NaN. Each element of dst is within a unit in the last place of
// what a float32 can hold; the sum of those is float64, in one order that depends on the length alone.
func expRowFast[T Float](dst, x []T, top T) (sum, at float64, ok bool) {
	if !runsAVX2[T](len(x)) {
		return 0, 0, false
	}
	dst = dst[:len(x)]
	if raceEnabled {
		touchRead(x)
		touchWrite(dst)
	}
	by, at := shiftBy(float32(top))
	return expRowFloats(len(x), begin(dst), begin(x), &by.base), at, true
}

// expSumFast is expRow, if there is a faster one for T on this processor. In a sum the terms near top weigh most, whose
// differences to it are exact or nearly so, and that of top itself must be 1: the loss of a sure guess is about 0.
func expSumFast[T Float](x []T, top float64) (sum float64, ok bool) {
	if !runsAVX2[T](len(x)) {
		return 0, false
	}
	if raceEnabled {
		touchRead(x)
	}
	by := expShift{float32(top), expMagic, expUnder}
	return expRowFloats(len(x), nil, begin(x), &by.base), true
}

// softmaxRowFast is softmaxRow, if there is a faster one for T on this processor.
func softmaxRowFast[T Float](y, x []T) bool {
	top, ok := topFast(x)
	if ok {
		sum, _, _ := expRowFast(y, x, top)
		rowScale(len(x), begin(y), false, begin(y), float32(1/sum))
	}
	return ok
}

// expTimesRowFast is expTimesRow, if there is a faster one for T on this processor.
func expTimesRowFast[T Float](d []T, add bool, x []T, top, k float64) bool {
	if !takes(d, x) {
		return false
	}
	by, at := shiftBy(float32(top))
	expTimesFloats(len(x), begin(d), add, begin(x), &by.base, float32(k*math.Exp(at-top)))
	return true
}

// dotFast is products, if there is a faster one for T on this processor.
func dotFast[T Float](x, y []T) (sum float64, ok bool) {
	if !runsAVX2[T](len(x)) {
		return 0, false
	}
	y = y[:len(x)]
	if raceEnabled {
		touchRead(x, y)
	}
	return dotFloats(len(x), begin(x), begin(y)), true
}

// softmaxBackwardRowFast is softmaxBackwardRow, if there is a faster one for T on this processor.
func softmaxBackwardRowFast[T Float](d []T, add bool, g, y []T, m float64) bool {
	if !takes(d, y, g) {
		return false
	}
	softmaxBackwardFloats(len(y), begin(d), add, begin(g), begin(y), float32(m))
	return true
}

// logSoftmaxRowFast is logSoftmaxRow once its sum is known, if there is a faster one for T on this processor.
func logSoftmaxRowFast[T Float](y, x []T, sum float64) bool {
	if !takes(y, x) {
		return false
	}
	high := float32(sum)
	subtractFloats(len(x), begin(y), begin(x), high, float32(sum-float64(high)))
	return true
}

// logSoftmaxBackwardRowFast is logSoftmaxBackwardRow once its sum is known, if there is a faster one for T on this processor.
func logSoftmaxBackwardRowFast[T Float](d []T, add bool, g, y []T, sum float64) bool {
	if !takes(d, y, g) {
		return false
	}
	logSoftmaxBackwardFloats(len(y), begin(d), add, begin(g), begin(y), float32(sum))
	return true
}
