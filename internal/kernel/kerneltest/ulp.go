package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Precision is how far a float32 result may be from the exact one: units in the last place, or a distance, whichever is
// more.
type Precision struct{ Units, Distance float64 }

// ULP asks that f of float32 x keeps a precision everywhere: at every stride-th number there is, both signs, subnormal ones,
// infinities and NaN. It gives the largest error in units in the last place, leaving out what the distance allows.
func ULP(t *testing.T, name string, p Precision, stride uint64, f func(y, x []float32), want func(x float64) float64) (worst float64) {
	t.Helper()
	const block = 1000
	x, y := make([]float32, 0, block), make([]float32, block)
	at := float32(0)
	check := func() {
		f(y[:len(x)], x)
		for i, v := range x {
			w := want(float64(v))
			if e := unitsOff(w, y[i]); !(e <= worst) && !(math.Abs(float64(y[i])-w) <= p.Distance) {
				worst, at = e, v
			}
		}
		x = x[:0]
	}
	for bits := uint64(0); bits < 1<<32; bits += stride {
		if x = append(x, math.Float32frombits(uint32(bits))); len(x) == block {
			check()
		}
	}
	for _, bits := range []uint32{0, 1, 0x7fffff, 0x800000, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000} {
		x = append(x, math.Float32frombits(bits), math.Float32frombits(bits|1<<31))
	}
	check()
	f(y[:1], []float32{at})
	require.LessOrEqual(t, worst, p.Units, "%s of %v (%#08x): want %v, got %v", name, at, math.Float32bits(at), want(float64(at)), y[0])
	return worst
}

// unitsOff is the distance of got from want in units of the last place that a float32 has there.
func unitsOff(want float64, got float32) float64 {
	g := float64(got)
	if math.IsNaN(want) && math.IsNaN(g) || got == float32(want) && math.IsInf(g, 0) {
		return 0
	}
	if math.IsInf(g, 0) {
		g = math.Copysign(0x1p128, g) // the next number, if there were one more binade
	}
	_, exp := math.Frexp(want)
	if d := math.Abs(g-want) / math.Ldexp(1, max(exp-24, -149)); d == d {
		return d
	}
	return math.Inf(1)
}
