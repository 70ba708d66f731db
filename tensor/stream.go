package tensor

// Stream is a counter-based stream of random 32-bit words (internal/philox): word i is a function of Seed, ID and i
// alone. Copying a Stream is saving it, and two streams that differ in Seed or ID are independent.
type Stream struct {
	Seed   uint64
	ID     uint64 // one of 2^64 streams of the seed
	Offset uint64 // the next word
}

// Take is the stream at its current offset, for one user of so many words. s goes on behind them, at the next multiple of
// 4 words, so that users' blocks are not shared.
func (s *Stream) Take(words uint64) Stream {
	at := *s
	s.Offset += (words + 3) &^ 3
	return at
}
