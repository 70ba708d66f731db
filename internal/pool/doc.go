// Package pool holds the workers that a session spreads the chunks of a kernel over.
//
// # Laws
//
//   - Values do not depend on the pool: work is cut into chunks by whoever calls Run, and which worker gets which chunk
//     is nobody's business. What is per worker is a lane, a number for scratch memory.
//   - No goroutine is started by a call (a worker that f killed with runtime.Goexit is replaced). Close ends them all.
//   - Nothing is allocated by a call.
//   - Whatever f does wrong in a worker happens in the goroutine that called Run.
//
// # Why workers spin
//
// Waking a parked thread of a virtual machine costs 5 to 50 microseconds, as much as a small kernel. A training step
// calls one kernel after the other, so a worker that is out of work looks out for more for spinTime before it parks,
// and the caller does the same before it parks to wait for the last chunk. With one processor nobody spins: whoever is
// waited for would need it.
package pool
