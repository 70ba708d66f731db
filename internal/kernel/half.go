// Between float32 and the two half types, which are 16 bits of a uint16 here:
//
//	float16   binary16 of IEEE 754: 5 bits of exponent, 10 of mantissa; 65504 is the largest, 2^-24 the smallest
//	bfloat16  the upper half of a float32: 8 bits of exponent, 7 of mantissa
//
// To a half one rounds to nearest, ties to even; from half an ulp above the largest on the result is an infinity.
// Subnormal values are exact, none is flushed to zero (VCVTNEPS2BF16, which flushes, is not this routine). A NaN stays
// one, keeps its sign and as much of its payload as fits, and comes out quiet; but BF16ToF32 moves the bits as they are.
// In every routine dst is as long as src.

package kernel

import "math"

// F16ToF32 widens float16 to float32. The results are exact.
func F16ToF32(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	n := f16ToF32Fast(dst, src)
	dst, src = dst[n:], src[n:]
	for i, h := range src {
		v := uint32(h&0x7fff) << 13 // exponent and mantissa in their places
		switch {
		case v >= 0x7c00<<13: // infinity, NaN
			v |= 0x7f800000
			if v > 0x7f800000 {
				v |= 1 << 22
			}
		case v < 0x0400<<13: // subnormal, zero
			v = math.Float32bits(float32(v>>13) * 0x1p-24)
		default:
			v += (127 - 15) << 23
		}
		dst[i] = math.Float32frombits(v | uint32(h&0x8000)<<16)
	}
}

// F32ToF16 rounds float32 to float16.
func F32ToF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	n := f32ToF16Fast(dst, src)
	dst, src = dst[n:], src[n:]
	for i, x := range src {
		v := math.Float32bits(x) &^ (1 << 31)
		var h uint32
		switch {
		case v > 0x7f800000: // NaN
			h = 0x7e00 | v>>13&0x3ff
		case v >= (127+16)<<23: // 65536 and more; from 65520 on the last case carries into the exponent
			h = 0x7c00
		case v < (127-14)<<23: // subnormal: the sum's last bit is 2^-24, and the addition rounds
			h = math.Float32bits(math.Float32frombits(v)+0.5) - math.Float32bits(0.5)
		default:
			h = (v - (127-15)<<23 + 0xfff + v>>13&1) >> 13
		}
		dst[i] = uint16(h) | uint16(math.Float32bits(x)>>16)&0x8000
	}
}

// BF16ToF32 widens bfloat16 to float32, bit for bit.
func BF16ToF32(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	n := bf16ToF32Fast(dst, src)
	dst, src = dst[n:], src[n:]
	for i, h := range src {
		dst[i] = math.Float32frombits(uint32(h) << 16)
	}
}

// F32ToBF16 rounds float32 to bfloat16.
func F32ToBF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	n := f32ToBF16Fast(dst, src)
	dst, src = dst[n:], src[n:]
	for i, x := range src {
		v := math.Float32bits(x)
		h := (v + 0x7fff + v>>16&1) >> 16
		if x != x {
			h = v>>16 | 0x40
		}
		dst[i] = uint16(h)
	}
}

// Odd32 is v rounded to odd: cut off toward zero, the last bit set if that lost anything (Boldo and Melquiond, 2008). A
// half type rounded from that is rounded once. NaN stays NaN.
func Odd32(v float64) float32 {
	f := float32(v)
	back := float64(f)
	if back == v || v != v {
		return f
	}
	bits := math.Float32bits(f)
	if math.Abs(back) > math.Abs(v) {
		bits-- // toward zero; an infinity becomes the largest number
	}
	return math.Float32frombits(bits | 1)
}
