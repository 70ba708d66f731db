package tensor

import (
	"fmt"
	"math"
)

// Convert writes src's elements to dst, converted to its dtype; shapes must be equal, strides may be any, and what Copy
// says of overlaps and expanded views holds.
//
//	float to float    rounds once, to nearest even; what is too large becomes an infinity, NaN stays NaN
//	float to integer  truncates toward zero and saturates; NaN becomes 0
//	integer to float  rounds once, to nearest even
//	integer narrowed  saturates (torch wraps)
//	any to bool       x != 0, so that NaN is true; bool counts as 0 and 1
//
// Equal dtypes are copied. Nothing is flushed to zero: subnormal numbers of the half types are exact too. A NaN that
// becomes a half keeps its sign and is quiet.
func Convert(dst, src *Tensor) error {
	if !dst.spec.SameShape(src.spec) {
		return fmt.Errorf("tensor: convert %v to %v: want equal shapes", src.spec, dst.spec)
	}
	if dst.spec.DType == src.spec.DType {
		return Copy(dst, src)
	}
	if err := checkWrite(dst, src); err != nil {
		return fmt.Errorf("tensor: convert %v to %v: %w", src.spec, dst.spec, err)
	}
	dst.Bump()
	if dst.writable() && src.readable() {
		convert(dst, src)
	}
	return nil
}

type (
	float   interface{ float32 | float64 }
	integer interface{ int64 | int32 | uint8 }
)

func convert(dst, src *Tensor) {
	if dst.spec.DType.isHalf() || src.spec.DType.isHalf() {
		convertHalf(dst, src)
		return
	}
	switch src.spec.DType {
	case Float32:
		fromFloat[float32](dst, src)
	case Float64:
		fromFloat[float64](dst, src)
	case Int64:
		fromInteger[int64](dst, src)
	case Int32:
		fromInteger[int32](dst, src)
	case Uint8, Bool:
		fromInteger[uint8](dst, src)
	}
}

func fromFloat[S float](dst, src *Tensor) {
	switch dst.spec.DType {
	case Float32:
		cast[float32, S](dst, src)
	case Float64:
		cast[float64, S](dst, src)
	case Int64:
		truncate[int64, S](dst, src)
	case Int32:
		truncate[int32, S](dst, src)
	case Uint8:
		truncate[uint8, S](dst, src)
	case Bool:
		truth[S](dst, src)
	}
}

func fromInteger[S integer](dst, src *Tensor) {
	switch dst.spec.DType {
	case Float32:
		cast[float32, S](dst, src)
	case Float64:
		cast[float64, S](dst, src)
	case Int64:
		clamp[int64, S](dst, src)
	case Int32:
		clamp[int32, S](dst, src)
	case Uint8:
		clamp[uint8, S](dst, src)
	case Bool:
		truth[S](dst, src)
	}
}

// cast converts to a float, as Go does.
func cast[D float, S float | integer](dst, src *Tensor) {
	d, s := words[D](dst), words[S](src)
	var room [maxAxes]axis
	for w := over(room[:0], dst, src); w.next(); {
		for k, i, j := 0, w.a, w.b; k < w.n; k, i, j = k+1, i+w.stepA, j+w.stepB {
			d[i] = D(s[j])
		}
	}
}

// truncate converts floats to integers.
func truncate[D integer, S float](dst, src *Tensor) {
	d, s := words[D](dst), words[S](src)
	var room [maxAxes]axis
	for w := over(room[:0], dst, src); w.next(); {
		for k, i, j := 0, w.a, w.b; k < w.n; k, i, j = k+1, i+w.stepA, j+w.stepB {
			d[i] = truncated[D](float64(s[j]))
		}
	}
}

// clamp converts integers to integers.
func clamp[D, S integer](dst, src *Tensor) {
	d, s := words[D](dst), words[S](src)
	lo, hi := limits[D]()
	var room [maxAxes]axis
	for w := over(room[:0], dst, src); w.next(); {
		for k, i, j := 0, w.a, w.b; k < w.n; k, i, j = k+1, i+w.stepA, j+w.stepB {
			d[i] = D(min(max(int64(s[j]), lo), hi))
		}
	}
}

// truth converts to Bool.
func truth[S float | integer](dst, src *Tensor) {
	d, s := words[uint8](dst), words[S](src)
	var room [maxAxes]axis
	for w := over(room[:0], dst, src); w.next(); {
		for k, i, j := 0, w.a, w.b; k < w.n; k, i, j = k+1, i+w.stepA, j+w.stepB {
			d[i] = 0
			if s[j] != 0 {
				d[i] = 1
			}
		}
	}
}

// limits is the range of an integer type.
func limits[D integer]() (lo, hi int64) {
	var zero D
	switch any(zero).(type) {
	case uint8:
		return 0, math.MaxUint8
	case int32:
		return math.MinInt32, math.MaxInt32
	default:
		return math.MinInt64, math.MaxInt64
	}
}

// truncated is v toward zero, saturated; 0 for NaN. The comparisons keep Go's conversion within the range in which it is
// defined on every machine: float64(hi) of an int64 rounds up to 2^63, the first value that is too large.
func truncated[D integer](v float64) D {
	lo, hi := limits[D]()
	switch {
	case v != v:
		return 0
	case v >= float64(hi):
		return D(hi)
	case v <= float64(lo):
		return D(lo)
	default:
		return D(v)
	}
}
