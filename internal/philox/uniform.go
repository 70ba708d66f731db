package philox

// Float32 maps a word to [0, 1): its upper 24 bits, as many as a float32 holds, times 2^-24. Every value is a multiple
// of 2^-24 and equally likely, and 1 cannot come out by rounding.
func Float32(word uint32) float32 { return float32(word>>8) * 0x1p-24 }

// Float64 maps two words to [0, 1): hi and the upper 21 bits of lo make a 53-bit integer, times 2^-53.
func Float64(hi, lo uint32) float64 {
	return float64(uint64(hi)<<21|uint64(lo>>11)) * 0x1p-53
}
