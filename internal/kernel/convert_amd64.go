//go:build amd64 && !purego

package kernel

//go:generate go -C _gen run ./convert -out ../convert_amd64.s

// Conversions between float types with AVX2 and F16C: the same bits as the plain versions.

//go:noescape
func f16Widen(eights int, dst *float32, src *uint16)

//go:noescape
func f16Round(eights int, dst *uint16, src *float32)

//go:noescape
func bf16Widen(eights int, dst *float32, src *uint16)

//go:noescape
func bf16Round(eights int, dst *uint16, src *float32)

//go:noescape
func bf16Stochastic(eights int, dst *uint16, src *float32, words *uint32)

//go:noescape
func f16Stochastic(eights int, dst *uint16, src *float32, words *uint32)

//go:noescape
func doubleOfFloat(n int, dst *float64, src *float32, add bool)

//go:noescape
func floatOfDouble(n int, dst *float32, src *float64, add bool)

// eightsOf is how many eights of elements a fast conversion does, if there is one. dst is as long as src.
func eightsOf[D, S any](dst []D, src []S, can bool) int {
	if !useAVX2 || !can {
		return 0
	}
	n := len(src) / 8
	if raceEnabled {
		touchRead(src[:8*n])
		touchWrite(dst[:8*n])
	}
	return n
}

// f16ToF32Fast does the beginning of F16ToF32, and says how many elements that is.
func f16ToF32Fast(dst []float32, src []uint16) int {
	n := eightsOf(dst, src, hasF16C)
	if n > 0 {
		f16Widen(n, &dst[0], &src[0])
	}
	return 8 * n
}

// f32ToF16Fast does the beginning of F32ToF16, and says how many elements that is.
func f32ToF16Fast(dst []uint16, src []float32) int {
	n := eightsOf(dst, src, hasF16C)
	if n > 0 {
		f16Round(n, &dst[0], &src[0])
	}
	return 8 * n
}

// bf16ToF32Fast does the beginning of BF16ToF32, and says how many elements that is.
func bf16ToF32Fast(dst []float32, src []uint16) int {
	n := eightsOf(dst, src, true)
	if n > 0 {
		bf16Widen(n, &dst[0], &src[0])
	}
	return 8 * n
}

// f32ToBF16Fast does the beginning of F32ToBF16, and says how many elements that is.
func f32ToBF16Fast(dst []uint16, src []float32) int {
	n := eightsOf(dst, src, true)
	if n > 0 {
		bf16Round(n, &dst[0], &src[0])
	}
	return 8 * n
}

// convertFast is convertRow, if there is a faster one for the two types on this processor.
func convertFast[D Float, S Number | uint8](d []D, add bool, s []S) bool {
	if !useAVX2 || len(s) == 0 {
		return false
	}
	from, to := any(s), any(d)
	if s, ok := from.([]float32); ok {
		d, ok := to.([]float64)
		if ok {
			touchBoth(d, s)
			doubleOfFloat(len(s), &d[0], &s[0], add)
		}
		return ok
	}
	if s, ok := from.([]float64); ok {
		d, ok := to.([]float32)
		if ok {
			touchBoth(d, s)
			floatOfDouble(len(s), &d[0], &s[0], add)
		}
		return ok
	}
	return false
}

// touchBoth sees that d is as long as s and touches both, for the race detector.
func touchBoth[D, S any](d []D, s []S) {
	d = d[:len(s)]
	if raceEnabled {
		touchRead(s)
		touchWrite(d)
	}
}

// stochasticFast does the beginning of roundBy, and says how many elements that is.
func (h Half) stochasticFast(dst []uint16, src []float32, words []uint32) int {
	n := eightsOf(dst, src, h == BF16 || hasF16C)
	switch {
	case n == 0:
	case h == BF16:
		bf16Stochastic(n, &dst[0], &src[0], &words[0])
	default:
		f16Stochastic(n, &dst[0], &src[0], &words[0])
	}
	return 8 * n
}
