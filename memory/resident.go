package memory

import (
	"fmt"
	"slices"
)

// granule is the unit in which memory is committed and handed back. It is a multiple of the page size of every system
// that Go runs on (4, 16 and 64 KiB), so that figures do not depend on the system.
const granule = 64 << 10

func granuleDown(n int64) int64 { return n &^ (granule - 1) }
func granuleUp(n int64) int64   { return granuleDown(n + granule - 1) }

// A span is the addresses from lo up to, not including, hi.
type span struct{ lo, hi int64 }

// resident is the set of granules that buffers have lain on since Trim last handed them back: sorted spans that do
// not touch. Between two Trims it is one span, the high water of the arena.
type resident []span

// index returns the first span that ends at or above addr.
func (r resident) index(addr int64) int {
	lo, hi := 0, len(r)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if r[m].hi < addr {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

func (r resident) contains(s span) bool {
	i := r.index(s.hi)
	return i < len(r) && r[i].lo <= s.lo
}

func (r resident) bytes() (n int64) {
	for _, s := range r {
		n += s.hi - s.lo
	}
	return n
}

// first returns the first part of s that is in the set.
func (r resident) first(s span) (span, bool) {
	i := r.index(s.lo + 1)
	if i == len(r) || r[i].lo >= s.hi {
		return span{}, false
	}
	return span{max(s.lo, r[i].lo), min(s.hi, r[i].hi)}, true
}

// add puts s into the set and joins it with what it touches.
func (r *resident) add(s span) {
	i := r.index(s.lo)
	j := i
	for ; j < len(*r) && (*r)[j].lo <= s.hi; j++ {
		s = span{min(s.lo, (*r)[j].lo), max(s.hi, (*r)[j].hi)}
	}
	*r = slices.Replace(*r, i, j, s)
}

// drop takes s, which lies within one span, out of the set.
func (r *resident) drop(s span) {
	i := r.index(s.hi)
	old := (*r)[i]
	var rest []span
	if old.lo < s.lo {
		rest = append(rest, span{old.lo, s.lo})
	}
	if s.hi < old.hi {
		rest = append(rest, span{s.hi, old.hi})
	}
	*r = slices.Replace(*r, i, i+1, rest...)
}

// Trim hands whole free granules of 64 KiB back to the system, below the top of the arena and above it, and returns
// how many bytes it handed back. Nothing is unmapped: a slice that is read after its buffer died reads zeros (on
// macOS and BSD, what it held until the system wants the page), and never crashes. What is allocated there later
// costs a page fault a page, ten times what rewriting costs, so Trim is for between phases, not for every step.
//
// Trim moves nothing: it lowers Reserved and the resident set, not Arena, and makes no room under a Limit. On a virtual
// device the figures change as they would on a real one. On the Go-heap fall-back the collector has the bytes already.
func (d *Device) Trim() int64 {
	before := d.resident.bytes()
	for _, b := range d.byAddr {
		d.discard(span{granuleUp(b.addr), granuleDown(b.end())})
	}
	if n := len(d.resident); n > 0 {
		d.discard(span{granuleUp(d.top), d.resident[n-1].hi})
	}
	return before - d.resident.bytes()
}

// discard hands back what of s is resident. What the system refuses (locked pages) stays in the set.
func (d *Device) discard(s span) {
	for part, ok := d.resident.first(s); ok && s.lo < s.hi; part, ok = d.resident.first(s) {
		if d.Virtual() || d.unlock(part) == nil && d.backing.drop(part) == nil {
			d.resident.drop(part)
		}
		s.lo = part.hi
	}
}

// unlock lets what of s is locked be paged out again.
func (d *Device) unlock(s span) error {
	for part, ok := d.locked.first(s); ok; part, ok = d.locked.first(s) {
		if err := d.backing.unlock(part); err != nil {
			return err
		}
		d.locked.drop(part)
	}
	return nil
}

// touch makes the granules under n bytes at addr resident.
func (d *Device) touch(addr, n int64) error {
	s := span{granuleDown(addr), granuleUp(addr + n)}
	if d.resident.contains(s) {
		return nil
	}
	if !d.Virtual() {
		if err := d.backing.commit(s); err != nil {
			return err
		}
	}
	d.resident.add(s)
	d.stats.ReservedPeak = max(d.stats.ReservedPeak, d.resident.bytes())
	d.lockPages(s)
	return nil
}

// lockPages locks the granules of s, until the system refuses for the first time.
func (d *Device) lockPages(s span) {
	if !d.lock || d.lockErr != nil || d.Virtual() {
		return
	}
	if err := d.backing.lock(s); err != nil {
		d.lockErr = fmt.Errorf("memory: %s: %d bytes could not be locked in RAM, %d are: %w", d.name, s.hi-s.lo, d.locked.bytes(), err)
		return
	}
	d.locked.add(s)
}
