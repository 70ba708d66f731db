// Stochastic rounding to a half type: up or down to one of the two neighbours, with the probabilities that make the mean
// the number itself (Gupta et al., "Deep learning with limited numerical precision", 2015). What a half type holds stays.
//
//	bfloat16  the 16 bits that are cut off, plus 16 random bits, carry into those that stay
//	float16   13 bits likewise; below 2^-14, where the spacing is 2^-24, the fraction is compared with 24 random bits
//
// NaN and Inf are those of plain rounding. Beyond the largest number of a type, up is infinity.

package kernel

import "math"

// RoundStochastic fills dst, as long as src, with src rounded by one random word an element.
func (h Half) RoundStochastic(dst []uint16, src []float32, words Words) {
	var room [expBlock]uint32
	for at := 0; at < len(src); at += expBlock {
		x := src[at:min(at+expBlock, len(src))]
		w := room[:len(x)]
		words.From(at).fill(w)
		h.roundBy(dst[at:], x, w)
	}
}

func (h Half) roundBy(dst []uint16, src []float32, words []uint32) {
	dst, words = dst[:len(src)], words[:len(src)]
	n := h.stochasticFast(dst, src, words)
	dst, src, words = dst[n:], src[n:], words[n:]
	if h == BF16 {
		for i, x := range src {
			dst[i] = stochasticBF16(x, words[i])
		}
		return
	}
	for i, x := range src {
		dst[i] = stochasticF16(x, words[i])
	}
}

func stochasticBF16(x float32, word uint32) uint16 {
	v := math.Float32bits(x)
	switch {
	case x != x:
		return uint16(v>>16 | 0x40)
	case v&0x7f800000 == 0x7f800000: // infinity
		return uint16(v >> 16)
	}
	return uint16((v + word&0xffff) >> 16)
}

func stochasticF16(x float32, word uint32) uint16 {
	v := math.Float32bits(x) &^ (1 << 31)
	sign := uint16(math.Float32bits(x)>>16) & 0x8000
	var h uint32
	switch {
	case v > 0x7f800000: // NaN
		h = 0x7e00 | v>>13&0x3ff
	case v >= (127+16)<<23: // 65536 and more
		h = 0x7c00
	case v < (127-14)<<23: // the spacing is 2^-24
		q := math.Float32frombits(v) * 0x1p24
		h = uint32(q)
		if q-float32(h) > float32(word>>8)*0x1p-24 {
			h++
		}
	default:
		h = (v - (127-15)<<23 + word&0x1fff) >> 13
	}
	return uint16(h) | sign
}
