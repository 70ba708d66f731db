package offload

import (
	"cmp"
	"slices"
)

// span is bytes from lo up to, not including, hi.
type span struct{ lo, hi int64 }

// space is the free places of a file, by address. Beyond end all is free.
type space struct {
	free []span
	end  int64
}

// pages is n rounded up to whole pages, at least one.
func pages(n int64) int64 { return max(page, (n+page-1)&^(page-1)) }

// take gives a place for n bytes: the lowest that fits.
func (sp *space) take(n int64) (at int64) {
	n = pages(n)
	for i, s := range sp.free {
		switch {
		case s.hi-s.lo == n:
			sp.free = slices.Delete(sp.free, i, i+1)
			return s.lo
		case s.hi-s.lo > n:
			sp.free[i].lo += n
			return s.lo
		}
	}
	at = sp.end
	sp.end += n
	return at
}

// give takes a place back and joins it with what is free beside it.
func (sp *space) give(at, n int64) {
	s := span{at, at + pages(n)}
	i, _ := slices.BinarySearchFunc(sp.free, s, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	if i < len(sp.free) && sp.free[i].lo == s.hi {
		s.hi = sp.free[i].hi
		sp.free = slices.Delete(sp.free, i, i+1)
	}
	if i > 0 && sp.free[i-1].hi == s.lo {
		i--
		s.lo = sp.free[i].lo
		sp.free = slices.Delete(sp.free, i, i+1)
	}
	if s.hi == sp.end {
		sp.end = s.lo
		return
	}
	sp.free = slices.Insert(sp.free, i, s)
}
