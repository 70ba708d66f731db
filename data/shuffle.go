package data

import (
	"math"

	"github.com/thimble-ml/thimble/internal/philox"
)

// shuffleStream is the first of the random streams of Shuffle, one for each epoch. They lie far from the streams that a
// session numbers from 0, so that one seed serves both.
const shuffleStream = 0x7368_7566_0000_0000 // "shuf"

// Shuffle returns the numbers 0 to n-1 in the order of an epoch: a permutation drawn uniformly (Fisher and Yates, in
// Durstenfeld's form, CACM 7(7), 1964) from counter-based random numbers. It depends on its arguments alone, so that
// resuming in the middle of a training needs the epoch's number and nothing else. n beyond 0 to 2^31-1 gives nil.
func Shuffle(n int, seed, epoch uint64) []int32 {
	if n < 0 || n > math.MaxInt32 {
		return nil
	}
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	draw := drawer{seed: seed, stream: shuffleStream + epoch}
	for i := n - 1; i > 0; i-- {
		j := draw.below(uint32(i) + 1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// drawer hands out the words of one random stream.
type drawer struct {
	seed, stream uint64
	offset       uint64 // of the first word that buf does not have yet
	buf          [256]uint32
	left         int // words of buf that were not handed out; they lie at its end
}

func (d *drawer) next() uint32 {
	if d.left == 0 {
		philox.Fill(d.buf[:], d.seed, d.stream, d.offset)
		d.offset += uint64(len(d.buf))
		d.left = len(d.buf)
	}
	v := d.buf[len(d.buf)-d.left]
	d.left--
	return v
}

// below returns a number below n, each with the same chance: the high half of a product, drawn again in the few cases
// that would favour some numbers (Lemire, "Fast random integer generation in an interval", 2019, algorithm 5).
func (d *drawer) below(n uint32) uint32 {
	m := uint64(d.next()) * uint64(n)
	if low := uint32(m); low < n {
		for skip := -n % n; low < skip; low = uint32(m) {
			m = uint64(d.next()) * uint64(n)
		}
	}
	return uint32(m >> 32)
}
