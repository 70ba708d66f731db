//go:build amd64 && !purego

package kernel

// Products of a vector and a matrix with AVX2 and FMA.

// dotsFast is dots, if there is a faster one for T on this processor.
func dotsFast[T Float](sum, x, m []T, ld int) bool {
	if !useAVX2 {
		return false
	}
	s, ok := any(sum).([]float32)
	if ok {
		dotsAVX2(s, any(x).([]float32), any(m).([]float32), ld)
		return true
	}
	d, ok := any(sum).([]float64)
	if ok {
		dotsDouble(d, any(x).([]float64), any(m).([]float64), ld)
	}
	return ok
}

func dotsAVX2(sum, x, m []float32, ld int) {
	var eight [8]float32
	for j := 0; j < len(sum); j += len(eight) {
		n := min(len(eight), len(sum)-j)
		if raceEnabled {
			touchRows(m[j*ld:], n, ld, len(x))
		}
		gemmDots8(&eight[0], &x[0], len(x), &m[j*ld], ld, n, avxMask(len(x)%avxStep))
		copy(sum[j:], eight[:n])
	}
}

// addRowsFast is addRows, if there is a faster one for T on this processor.
func addRowsFast[T Float](sum, x, m []T, ld int) bool {
	if !useAVX2 {
		return false
	}
	s, ok := any(sum).([]float32)
	if ok {
		addRowsAVX2(s, any(x).([]float32), any(m).([]float32), ld)
		return true
	}
	d, ok := any(sum).([]float64)
	if ok {
		addRowsDouble(d, any(x).([]float64), any(m).([]float64), ld)
	}
	return ok
}

func addRowsAVX2(sum, x, m []float32, ld int) {
	if raceEnabled {
		touchRows(m, len(x), ld, len(sum))
	}
	j := 0
	for ; j+64 <= len(sum); j += 64 {
		gemmRow64(&sum[j], &x[0], len(x), &m[j], ld)
	}
	var some [16]float32
	for ; j < len(sum); j += len(some) {
		n := min(len(some), len(sum)-j)
		gemmRow16(&some[0], &x[0], len(x), &m[j], ld, avxMask(n))
		copy(sum[j:], some[:n])
	}
}
