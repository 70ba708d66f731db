//go:build amd64 && !purego

package kernel

import "math"

//go:generate go -C _gen run ./wide -out ../unary_wide_amd64.s

// Functions of one operand that are computed in float64, with AVX2: within half a unit in the last place and a little.

// mapSine is sin(x + quarters pi/2). It tells whether there were x whose quarters it does not count, from 2^40 on, or
// infinite, or NaN: their elements of y are undefined.
//
//go:noescape
func mapSine(n int, y, x *float32, quarters int) bool

// mapPower is factor x^a, and tells whether there were x that are not positive or not finite: their elements are undefined.
//
//go:noescape
func mapPower(n int, y, x *float32, a, factor float64) bool

//go:noescape
func mapSoftplus(n int, y, x *float32)

// sineFloats fills y, of at most expBlock elements and apart from x, with sin(x + quarters pi/2). What is too far from 0
// for the reduction to pi/2 in two parts is left to math.Sin, which has more of them.
func sineFloats(y, x []float32, quarters int) {
	if !mapSine(len(x), &y[0], &x[0], quarters) {
		return
	}
	for i, v := range x {
		if math.Abs(float64(v)) < 1<<40 {
			continue
		}
		w := float64(v)
		y[i] = float32([...]float64{math.Sin(w), math.Cos(w), -math.Sin(w), -math.Cos(w)}[quarters&3])
	}
}

// powerFloats is the same for factor x^a. Of 0, what is below, and infinity math.Pow knows what to make.
func powerFloats(y, x []float32, a, factor float64) {
	if !mapPower(len(x), &y[0], &x[0], a, factor) {
		return
	}
	for i, v := range x {
		if !(v > 0 && v <= math.MaxFloat32) {
			y[i] = float32(factor * math.Pow(float64(v), a))
		}
	}
}

// powerOf tells of exponents that powerFloats takes. The others have loops of their own, or are so large that x^a is 0 or
// infinite next to 1.
func powerOf(a float64) bool { return a != 0 && a != 2 && a != 3 && math.Abs(a) <= 1<<20 }

// mapWide is mapRow of a function that is computed in float64, if f is one. y may be x.
func mapWide(f Unary, a float64, y, x []float32) bool {
	if f != UnarySin && f != UnaryCos && (f != UnaryPow || !powerOf(a)) {
		return false
	}
	var room [expBlock]float32
	for len(x) > 0 {
		n := min(len(x), expBlock)
		switch f {
		case UnarySin:
			sineFloats(room[:n], x[:n], 0)
		case UnaryCos:
			sineFloats(room[:n], x[:n], 1)
		default:
			powerFloats(room[:n], x[:n], a, 1)
		}
		copy(y, room[:n])
		y, x = y[n:], x[n:]
	}
	return true
}

// mapBackwardWide is mapBackwardRow of such a function.
func mapBackwardWide(f Unary, a float64, dx []float32, add bool, dy, x []float32) bool {
	if f != UnarySin && f != UnaryCos && (f != UnaryPow || !powerOf(a) || a == 1) {
		return false
	}
	var slope [expBlock]float32
	for len(x) > 0 {
		n := min(len(x), expBlock)
		switch f {
		case UnarySin:
			sineFloats(slope[:n], x[:n], 1)
		case UnaryCos:
			sineFloats(slope[:n], x[:n], 2)
		default:
			powerFloats(slope[:n], x[:n], a-1, a)
		}
		timesSlopes(f, a, dx[:n], add, dy[:n], x[:n], slope[:n])
		dx, dy, x = dx[n:], dy[n:], x[n:]
	}
	return true
}

// timesSlopes is timesRow, but for the slopes that are too large or too small for a float32: their product with the gradient
// need not be.
func timesSlopes(f Unary, a float64, dx []float32, add bool, dy, x, slope []float32) {
	from := 0
	for i, k := range slope {
		if k != 0 && !math.IsInf(float64(k), 0) {
			continue
		}
		timesRow(dx[from:i], add, dy[from:i], slope[from:i])
		from = i + 1
		var exact [1]float64
		slopeBlock(f, a, exact[:], x[i:from])
		chain(dx[i:from], add, dy[i:from], exact[:])
	}
	timesRow(dx[from:], add, dy[from:], slope[from:])
}
