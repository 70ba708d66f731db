// exp for kernels, in place over a short row of float64: math.Exp where the result becomes a float64, a shorter exp where
// it becomes a float32.
//
// The short one carries 34 bits where a float32 holds 24, so after rounding it differs from the correctly rounded exp in
// one value of ten thousand, by one unit in the last place. It takes a quarter of the time of math.Exp.
//
//	exp(x) = 2^(j/64) * exp(r), j = round(64 x / ln 2), |r| <= ln 2 / 128
//
// 2^(j/64) is an exponent and one of 64 table entries, exp(r) four terms of its series (the next one is below 4e-11).
// After P. T. P. Tang, "Table-driven implementation of the exponential function", ACM TOMS 15 (1989).

package kernel

import (
	"math"
	"unsafe"
)

// expBlock is how many arguments kernels collect on the stack for one call: 1 KiB.
const expBlock = 128

// isFloat32 is a constant in each instance.
func isFloat32[T Float]() bool { return unsafe.Sizeof(T(0)) == 4 }

// exp replaces each x by e^x, as exactly as a T can hold.
func exp[T Float](x []float64) {
	if isFloat32[T]() {
		exp32(x)
		return
	}
	for i, v := range x {
		x[i] = math.Exp(v)
	}
}

// 2^(i/64)
var exp2Table = func() (t [64]float64) {
	for i := range t {
		t[i] = math.Exp2(float64(i) / 64)
	}
	return t
}()

// exp32 has a relative error below 1e-10.
func exp32(x []float64) {
	const (
		perLn2  = 64 / math.Ln2
		shifter = 0x1.8p52 // adding it rounds to an integer, which is then in the low bits
	)
	for i, v := range x {
		if !(math.Abs(v) < 700) { // NaN too
			x[i] = math.Exp(v)
			continue
		}
		t := v*perLn2 + shifter
		j := int64(math.Float64bits(t) - math.Float64bits(shifter))
		r := v - (t-shifter)*(math.Ln2/64)
		scale := math.Float64frombits(uint64(j>>6+1023) << 52)
		x[i] = scale * exp2Table[j&63] * (1 + r*(1+r*(0.5+r*(1.0/6))))
	}
}
