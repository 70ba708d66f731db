package pool

import "sync/atomic"

// gate counts who is in a job. All of it is one word, so that each step is one atomic operation and no order of steps
// can lose a helper:
//
//	bits  0-11  inside   helpers that joined and have not left
//	bits 12-23  given    lanes given out, the caller's included
//	bits 24-35  lanes    that may be given out
//	bit  36     isOpen   helpers may join
//	bit  37     waiting  the caller is parked until nobody is inside
//	bits 38-63  epoch    number of the job: a helper joins a job once (that it may miss one in 67 million is harmless)
type gate struct{ word atomic.Uint64 }

const (
	laneBits = 12
	maxLanes = 1<<laneBits - 1

	oneInside  = 1
	givenShift = laneBits
	lanesShift = 2 * laneBits
	isOpen     = 1 << (3 * laneBits)
	waiting    = isOpen << 1
	epochShift = 3*laneBits + 2
)

func inside(w uint64) uint64 { return w & maxLanes }
func given(w uint64) uint64  { return w >> givenShift & maxLanes }
func lanes(w uint64) uint64  { return w >> lanesShift & maxLanes }
func epoch(w uint64) uint64  { return w >> epochShift }

// open lets helpers in to lanes 1 to n-1. Nobody is inside.
func (g *gate) open(n int) {
	g.word.Store((epoch(g.word.Load())+1)<<epochShift | isOpen | uint64(n)<<lanesShift | 1<<givenShift)
}

// may reports whether a helper that was last in job number last could join.
func may(w, last uint64) bool {
	return w&isOpen != 0 && epoch(w) != last && given(w) < lanes(w)
}

// join lets a helper in.
func (g *gate) join(last uint64) (lane int, now uint64, ok bool) {
	for {
		w := g.word.Load()
		if !may(w, last) {
			return 0, last, false
		}
		if g.word.CompareAndSwap(w, w+oneInside+1<<givenShift) {
			return int(given(w)), epoch(w), true
		}
	}
}

// leave reports whether the caller waits for this helper, the last one.
func (g *gate) leave() bool {
	w := g.word.Add(^uint64(oneInside - 1)) // minus one
	return inside(w) == 0 && w&waiting != 0
}

// close lets nobody in any more and reports whether nobody is inside.
func (g *gate) close() bool { return inside(g.word.And(^uint64(isOpen))) == 0 }

// empty reports whether nobody is inside.
func (g *gate) empty() bool { return inside(g.word.Load()) == 0 }

// wait announces that the caller parks, and reports whether anybody is left to wake it.
func (g *gate) wait() bool { return inside(g.word.Or(waiting)) != 0 }
