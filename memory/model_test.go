package memory_test

import (
	"cmp"
	"slices"

	"github.com/thimble-ml/thimble/memory"
)

// model is the allocator written a second time, as plainly as possible: the list of live buffers is its only truth,
// and everything else is computed from it by brute force.
type model struct {
	bound  int64 // of the arena
	live   []modelled
	grown  []modelled   // what the arena grew by
	stats  memory.Stats // counters and peaks; what follows from live is computed
	pages  map[int64]bool
	nextID uint64
}

// modelled is a live buffer of the model.
type modelled struct {
	id   uint64
	addr int64
	size int64
	kind memory.Kind
}

const granule = 64 << 10

// occupied is what a buffer takes in the arena.
func occupied(size int64) int64 {
	if size == 0 {
		return 64
	}
	return (size + 63) / 64 * 64
}

func (b modelled) end() int64 { return b.addr + occupied(b.size) }

func newModel(limit, space int64) *model {
	m := &model{bound: space, pages: map[int64]bool{}}
	m.stats.Limit = limit
	if limit > 0 {
		m.bound = limit
	}
	return m
}

// best walks the gaps between live buffers from the bottom and keeps the smallest that fits; strictly smaller, so
// that the lowest of equals wins. Less than 32 KiB goes to its end. If none fits it returns the end of the last buffer, or more if
// what the arena grew by last ends there and is up to a sixteenth smaller than n.
func (m *model) best(n int64) int64 {
	at, size, end := int64(-1), int64(0), int64(0)
	for _, b := range m.live {
		if gap := b.addr - end; gap >= n && (at < 0 || gap < size) {
			at, size = end, gap
		}
		end = b.end()
	}
	switch {
	case at >= 0 && n < 32<<10:
		return at + size - n
	case at >= 0:
		return at
	}
	if k := len(m.grown); k > 0 && n >= 32<<10 {
		last := m.grown[k-1]
		if less := n - occupied(last.size); last.end() == end && less > 0 && less*16 <= n {
			return end + less
		}
	}
	return end
}

// top is the end of the highest buffer.
func (m *model) top() int64 {
	if len(m.live) == 0 {
		return 0
	}
	return m.live[len(m.live)-1].end()
}

// put makes a buffer at addr.
func (m *model) put(addr, size int64, k memory.Kind) {
	m.nextID++
	b := modelled{m.nextID, addr, size, k}
	if addr >= m.top() {
		m.grown = append(m.grown, b)
	}
	m.live = append(m.live, b)
	slices.SortFunc(m.live, func(a, b modelled) int { return cmp.Compare(a.addr, b.addr) })
}

// alloc returns the address, or false when it is above the bound.
func (m *model) alloc(size int64, k memory.Kind) (int64, bool) {
	n := occupied(size)
	addr := m.best(n)
	if addr+n > m.bound {
		return 0, false
	}
	m.put(addr, size, k)
	m.stats.Allocs++
	m.stats.AllocBytes += size
	for p := addr / granule; p*granule < addr+n; p++ {
		m.pages[p] = true
	}
	if now := m.now(); now.Live > m.stats.Peak {
		m.stats.Peak, m.stats.PeakByKind = now.Live, now.LiveByKind
	}
	now := m.now()
	m.stats.ArenaPeak = max(m.stats.ArenaPeak, now.Arena)
	m.stats.ReservedPeak = max(m.stats.ReservedPeak, now.Reserved)
	m.stats.BuffersPeak = max(m.stats.BuffersPeak, now.Buffers)
	return addr, true
}

func (m *model) find(id uint64) int {
	return slices.IndexFunc(m.live, func(b modelled) bool { return b.id == id })
}

func (m *model) free(id uint64) {
	i := m.find(id)
	m.stats.Frees++
	m.stats.FreeBytes += m.live[i].size
	m.live = slices.Delete(m.live, i, i+1)
	top := m.top()
	m.grown = slices.DeleteFunc(m.grown, func(b modelled) bool { return b.end() > top })
}

func (m *model) resetPeak() {
	now := m.now()
	m.stats.Peak, m.stats.PeakByKind, m.stats.ArenaPeak = now.Live, now.LiveByKind, now.Arena
	m.stats.ReservedPeak, m.stats.BuffersPeak = now.Reserved, now.Buffers
}

// trim keeps the granules on which a live buffer or the end of the arena lies.
func (m *model) trim() (bytes int64) {
	for p := range m.pages {
		used := slices.ContainsFunc(m.live, func(b modelled) bool {
			return b.addr < (p+1)*granule && b.end() > p*granule
		})
		if !used {
			delete(m.pages, p)
			bytes += granule
		}
	}
	return bytes
}

// now returns the figures, all but Hash.
func (m *model) now() memory.Stats {
	s := m.stats
	s.Buffers = len(m.live)
	s.Reserved = int64(len(m.pages)) * granule
	for _, b := range m.live {
		s.Live += b.size
		s.LiveByKind[b.kind] += b.size
		s.Arena = max(s.Arena, b.end())
	}
	return s
}
