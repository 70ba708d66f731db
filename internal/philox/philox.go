package philox

// The multipliers and the Weyl increments of the key schedule, from table 2 and section 4.3 of the paper.
const (
	mul0   = 0xD2511F53
	mul1   = 0xCD9E8D57
	weyl0  = 0x9E3779B9 // golden ratio
	weyl1  = 0xBB67AE85 // sqrt(3) - 1
	rounds = 10
)

// Block encrypts one 128-bit counter under one 64-bit key: ten rounds, four words. Both are given low word first, as in
// the Random123 reference.
func Block(key [2]uint32, counter [4]uint32) [4]uint32 {
	c0, c1, c2, c3 := encrypt(key[0], key[1], counter[0], counter[1], counter[2], counter[3])
	return [4]uint32{c0, c1, c2, c3}
}

// encrypt is Block with everything in registers; arrays would go through memory.
func encrypt(k0, k1, c0, c1, c2, c3 uint32) (_, _, _, _ uint32) {
	for range rounds {
		p0, p1 := mul0*uint64(c0), mul1*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^k0, uint32(p1), uint32(p0>>32)^c3^k1, uint32(p0)
		k0, k1 = k0+weyl0, k1+weyl1
	}
	return c0, c1, c2, c3
}

// Fill sets dst[i] to word offset+i of the stream. Two calls that meet give the words of one call over both ranges,
// wherever the cut lies. Positions count modulo 2^64. It does not allocate.
func Fill(dst []uint32, seed, stream, offset uint64) {
	if offset%4 != 0 {
		n := part(dst, seed, stream, offset)
		dst, offset = dst[n:], offset+uint64(n)
	}
	k0, k1 := uint32(seed), uint32(seed>>32)
	s0, s1 := uint32(stream), uint32(stream>>32)
	for len(dst) >= 4 {
		dst[0], dst[1], dst[2], dst[3] = encrypt(k0, k1, uint32(offset>>2), uint32(offset>>34), s0, s1)
		dst, offset = dst[4:], offset+4
	}
	part(dst, seed, stream, offset)
}

// part copies what fits of the block that offset lies in, and returns how many words that were.
func part(dst []uint32, seed, stream, offset uint64) int {
	if len(dst) == 0 {
		return 0
	}
	b := Block([2]uint32{uint32(seed), uint32(seed >> 32)},
		[4]uint32{uint32(offset >> 2), uint32(offset >> 34), uint32(stream), uint32(stream >> 32)})
	return copy(dst, b[offset%4:])
}
