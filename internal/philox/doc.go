// Package philox is the library's only source of random bits: Philox4x32-10, a counter-based generator (Salmon, Moraes,
// Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// A counter-based generator is a function, not a machine: the words are a hash of (seed, stream, position). Nothing is
// carried from one word to the next, so a dropout mask is recomputed where it is needed instead of being stored, any
// cut of a tensor into chunks gives the same values whoever computes them, and saving a stream is saving its three
// numbers.
//
// Layout, which saved states rely on and which therefore never changes:
//
//	word w of a stream lies in block w/4, lane w%4
//	counter = (block, stream), each 64 bits, low word first
//	key     = seed, low word first
package philox
