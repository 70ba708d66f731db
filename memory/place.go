package memory

import (
	"cmp"
	"slices"
)

// Planned is an event of a plan that a device can Follow: an allocation with its address, or the end of a buffer.
type Planned struct {
	Act   Act // Alloc or Free
	Addr  int64
	Bytes int64 // as asked for
}

// Place finds addresses for the buffers that the events of a dry run make, whose lifetimes it tells, so that the arena is
// as low as it goes: greedily, the largest first, each in the smallest hole that the buffers alive at the same time leave
// (Pisarchyk and Lee, 2020, "greedy by size"). held are the buffers that are alive before the first event; they stay where
// they are. It returns the plan, event for event without those that move no bytes, and its arena: the end of the highest
// buffer, held ones included.
//
// Best fit, which places a buffer when it comes and knows nothing of the next, leaves holes of 2 to 8 percent; this one
// leaves 0 to 2. Equal events give equal plans.
func Place(held []Holder, events []Event) (plan []Planned, arena int64) {
	p := newPlacer(held, events)
	order := make([]*life, 0, len(p.lives))
	for _, l := range p.lives {
		if l.addr < 0 {
			order = append(order, l)
		}
	}
	slices.SortFunc(order, func(a, b *life) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.end-b.start, a.end-a.start), cmp.Compare(a.start, b.start))
	})
	for _, l := range order {
		l.addr = p.hole(l)
		p.add(l)
	}
	for _, l := range p.lives {
		arena = max(arena, l.addr+l.size)
	}
	return p.events(events), arena
}

// life is a buffer from the event that made it up to, not including, the one that ended it.
type life struct {
	start, end int
	size       int64 // rounded
	addr       int64 // -1: not placed yet
	seen       int   // the search that met it last
}

// placer is the work of Place. Time is cut into spans, so that a search looks only at what lies in the same ones.
type placer struct {
	lives    []*life
	byID     map[uint64]*life
	spans    [][]*life // placed
	searches int
	met      []*life
}

const spanEvents = 64

func newPlacer(held []Holder, events []Event) *placer {
	p := &placer{byID: map[uint64]*life{}, spans: make([][]*life, len(events)/spanEvents+1)}
	for _, h := range held {
		p.live(h.ID, &life{end: len(events), size: rounded(h.Bytes), addr: h.Addr})
	}
	for t, e := range events {
		switch e.Act {
		case Alloc:
			p.live(e.ID, &life{start: t, end: len(events), size: rounded(e.Bytes), addr: -1})
		case Free:
			if l := p.byID[e.ID]; l != nil {
				l.end = t
			}
		}
	}
	for _, l := range p.lives {
		if l.addr >= 0 {
			p.add(l)
		}
	}
	return p
}

func (p *placer) live(id uint64, l *life) {
	p.lives = append(p.lives, l)
	p.byID[id] = l
}

// across are the spans that l lies in.
func (p *placer) across(l *life) [][]*life {
	return p.spans[l.start/spanEvents : max(l.start, l.end-1)/spanEvents+1]
}

// add registers a placed buffer.
func (p *placer) add(l *life) {
	for i := range p.across(l) {
		s := &p.across(l)[i]
		*s = append(*s, l)
	}
}

// hole finds the address for l: the smallest hole between the buffers alive with it that is large enough, else their end.
func (p *placer) hole(l *life) int64 {
	p.searches++
	p.met = p.met[:0]
	for _, span := range p.across(l) {
		for _, o := range span {
			if o.seen != p.searches && o.start < l.end && l.start < o.end {
				o.seen = p.searches
				p.met = append(p.met, o)
			}
		}
	}
	slices.SortFunc(p.met, func(a, b *life) int { return cmp.Compare(a.addr, b.addr) })
	best, room, end := int64(-1), int64(0), int64(0)
	for _, o := range p.met {
		if gap := o.addr - end; gap >= l.size && (best < 0 || gap < room) {
			best, room = end, gap
		}
		end = max(end, o.addr+o.size)
	}
	if best < 0 {
		return end
	}
	return best
}

// events are the allocations and ends with the addresses found.
func (p *placer) events(events []Event) []Planned {
	plan := make([]Planned, 0, len(events))
	for _, e := range events {
		if e.Act == Alloc || e.Act == Free {
			addr := e.Addr
			if l := p.byID[e.ID]; l != nil {
				addr = l.addr
			}
			plan = append(plan, Planned{Act: e.Act, Addr: addr, Bytes: e.Bytes})
		}
	}
	return plan
}
