// Package memory is the one source of tensor bytes: an arena outside Go's heap, in which every byte is counted and
// nothing is freed by a collector.
//
// A [Device] owns a range of addresses. [Device.Alloc] cuts a [Buffer] from it and says what for ([Kind]) and for whom
// ([Site]); [Buffer.Release] of the last reference gives the bytes back at that instruction. A virtual device does the
// same without bytes, and [Device.Fork] turns a real device into a virtual one until [Device.Join], so that a training
// step can be measured before it runs.
//
// # Laws
//
// The tests of this package cite them by number.
//
//  1. Stats.Live is the sum of the sizes asked for by the live buffers, after every event. Peak is its maximum since
//     ResetPeak. PeakByKind is the split at the first instant of that maximum and sums to it, as LiveByKind sums to
//     Live. SetKind changes the split only.
//  2. Stats.Arena is the end of the highest live buffer: it includes the holes below and the rounding to 64 bytes, and
//     falls when what is on top is freed. Limit bounds the arena, not Live. Live buffers never overlap.
//  3. Placement is best fit, then lowest address, then the top of the arena; less than 32 KiB goes to the end of its hole,
//     and at the top up to a sixteenth of a buffer may be left free below it. Same events, same addresses: on every
//     system, under every build tag, with any limit, real or virtual.
//  4. Between Fork and Join every address, figure, number and event is what the real run gives. Join restores all of
//     it, and every real buffer's references, version, kind and description, exactly.
//  5. A handle is never used twice: releasing, retaining, reading or bumping a released buffer panics, always, and
//     names who made it.
//  6. A failed allocation changes nothing but Stats.Failed, or Stats.Refused for [Device.TryAlloc].
//  7. Trim changes nothing but Stats.Reserved and the resident set. Memory stays mapped until Close succeeds, so a stale
//     slice reads wrong bytes but never crashes the program.
//
// # Where the bytes are
//
// On Linux, macOS and BSD in one private mapping without reserved swap; on Windows in one reservation that is
// committed in steps of 64 KiB; under the race detector, which sees nothing of mapped memory, and on other systems in
// one Go slice a buffer. Slices from [Buffer.Bytes] hold no reference and must not outlive the buffer.
//
// Under the build tag invariants, memory is filled with 0xFF (NaN in every float type) when it is allocated and when it
// is released, so that a read before the first write or after the end shows.
//
// A device belongs to one goroutine, with no locks; the bytes of its buffers may be read and written by others.
package memory
