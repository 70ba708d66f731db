//go:build amd64 && !purego

package kernel

import "math"

//go:generate go -C _gen run ./philox -out ../philox_amd64.s

// Random words with AVX2: eight blocks of four side by side, the very words that internal/philox makes.
const philoxStep = 32

// philoxWords fills dst with n words, a multiple of philoxStep above 0, from a block on. p is seed and stream, the lower
// half of each first.
//
//go:noescape
func philoxWords(n int, dst *uint32, block uint64, p *[4]uint32)

// dropoutFloats is Dropout on the words that philoxWords makes. Two numbers more of p are the threshold, below which a word
// drops, and the bits of the factor for the others.
//
//go:noescape
func dropoutFloats(n int, dst *float32, add bool, src *float32, block uint64, p *[6]uint32)

// wordsFast fills the first elements of dst, as many as it says. words start with a block.
func wordsFast(dst []uint32, words Words) int {
	n := len(dst) / philoxStep * philoxStep
	if n == 0 || !useAVX2 {
		return 0
	}
	if raceEnabled {
		touchWrite(dst[:n])
	}
	p := [4]uint32{uint32(words.Seed), uint32(words.Seed >> 32), uint32(words.Stream), uint32(words.Stream >> 32)}
	philoxWords(n, &dst[0], words.Offset/4, &p)
	return n
}

// dropoutFast does the first elements of Dropout, as many as it says. words start with a block.
func dropoutFast[T Float](dst []T, add bool, src []T, threshold uint64, factor T, words Words) int {
	n := len(src) / philoxStep * philoxStep
	if n == 0 || !ready(dst[:n], src) {
		return 0
	}
	p := [6]uint32{
		uint32(words.Seed), uint32(words.Seed >> 32), uint32(words.Stream), uint32(words.Stream >> 32),
		uint32(min(threshold, math.MaxUint32)), math.Float32bits(float32(factor)),
	}
	dropoutFloats(n, begin(dst), add, begin(src), words.Offset/4, &p)
	return n
}
