//go:build amd64 && !purego

package kernel

import "unsafe"

//go:generate go -C _gen run ./reduce -out ../reduce_amd64.s

// Sums and extremes of n float32 with AVX2, n at least 1. Sums are carried in float64: along a row in eight chains of four
// elements, which are then added in pairs, so that the order depends on n alone; down columns in the order of the plain
// version, to the same bits.

//go:noescape
func rowTotal(n int, x *float32) float64

//go:noescape
func rowSumAbs(n int, x *float32) float64

// rowSquares is the sum of (x-m)^2.
//
//go:noescape
func rowSquares(n int, x *float32, m float64) float64

// rowLargest is the largest k x, k being 1 or -1; NaN if there is one. Of 0 and -0 it gives either.
//
//go:noescape
func rowLargest(n int, x *float32, k float32) float32

// rowLargestAbs is the largest |x|, NaN if there is one.
//
//go:noescape
func rowLargestAbs(n int, x *float32) float32

// rowFinite says that no element is NaN or Inf.
//
//go:noescape
func rowFinite(n int, x *float32) bool

// downAdd adds a row of n elements to sums.
//
//go:noescape
func downAdd(n int, sums *float64, x *float32, stride int)

// downAdd4 adds four rows that lie stride apart.
//
//go:noescape
func downAdd4(n int, sums *float64, x *float32, stride int)

// downSquares adds x^2 to sums.
//
//go:noescape
func downSquares(n int, sums *float64, x *float32)

// downDistances adds (x-m)^2 to sums.
//
//go:noescape
func downDistances(n int, sums *float64, x *float32, m *float64)

// downLargest makes tops the larger of themselves and k x.
//
//go:noescape
func downLargest(n int, tops *float64, x *float32, k float64)

//go:noescape
func rowAdd64(n int, sums, x *float64)

// rowNarrow is d = or += x, rounded.
//
//go:noescape
func rowNarrow(n int, d *float32, add bool, x *float64)

// scans says whether a routine that reads x runs its AVX2 version, and touches x.
func scans[T any](x []T) bool {
	if !worthAVX2[T](len(x)) {
		return false
	}
	if raceEnabled {
		touchRead(x)
	}
	return true
}

func sumFast[T any](x []T) (sum float64, ok bool) {
	if !scans(x) {
		return 0, false
	}
	return rowTotal(len(x), begin(x)), true
}

func absFast[T Float](x []T) (sum float64, ok bool) {
	if !scans(x) {
		return 0, false
	}
	return rowSumAbs(len(x), begin(x)), true
}

func squaresFast[T Float](x []T, m float64) (sum float64, ok bool) {
	if !scans(x) {
		return 0, false
	}
	return rowSquares(len(x), begin(x), m), true
}

// largestFast leaves a row whose largest element is a zero to the plain version, which knows 0 from -0.
func largestFast[T Float](x []T, k float64) (top float64, ok bool) {
	if !scans(x) {
		return 0, false
	}
	top = float64(rowLargest(len(x), begin(x), float32(k)))
	return top, top != 0
}

func largestAbsFast[T Float](x []T) (top float64, ok bool) {
	if !scans(x) {
		return 0, false
	}
	return float64(rowLargestAbs(len(x), begin(x))), true
}

func finiteFast[T Float](x []T) (finite, ok bool) {
	if !scans(x) {
		return false, false
	}
	return rowFinite(len(x), begin(x)), true
}

func addDownFast[T summand, A accumulator](acc []A, x []T, n, stride int) bool {
	m := len(acc)
	if n == 0 || !worthAVX2[T](m) {
		return false
	}
	_ = x[(n-1)*stride:][:m]
	if raceEnabled {
		for i := range n {
			touchRead(x[i*stride:][:m])
		}
	}
	sums := (*float64)(unsafe.Pointer(&acc[0]))
	for ; n >= 4; n -= 4 {
		downAdd4(m, sums, begin(x), stride)
		x = x[min(4*stride, len(x)):]
	}
	for ; n > 0; n-- {
		downAdd(m, sums, begin(x), stride)
		x = x[min(stride, len(x)):]
	}
	return true
}

func squaresDownFast[T Float](sums []float64, x []T) bool {
	if !scans(x[:len(sums)]) {
		return false
	}
	downSquares(len(sums), &sums[0], begin(x))
	return true
}

func distanceDownFast[T Float](sums []float64, x []T, m []float64) bool {
	if !scans(x[:len(sums)]) {
		return false
	}
	downDistances(len(sums), &sums[0], begin(x), &m[:len(sums)][0])
	return true
}

func maxDownFast[T Float](tops []float64, x []T, k float64) bool {
	if !scans(x[:len(tops)]) {
		return false
	}
	downLargest(len(tops), &tops[0], begin(x), k)
	return true
}

func addSumsFast(sums, x []float64) bool {
	if !useAVX2 || len(sums) < 8 {
		return false
	}
	rowAdd64(len(sums), &sums[0], &x[:len(sums)][0])
	return true
}

func narrowFast[T Float](d []T, add bool, x []float64) bool {
	if !ready(d) {
		return false
	}
	rowNarrow(len(d), begin(d), add, &x[:len(d)][0])
	return true
}
