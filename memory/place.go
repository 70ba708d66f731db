package memory

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Planned is an event of a plan that a device can Follow: an allocation with its address, or the end of a buffer.
type Planned struct {
	Act   Act // Alloc or Free
	Addr  int64
	Bytes int64 // as asked for
}

// Place finds addresses for the buffers that the events of a dry run make, whose lifetimes it tells, so that the arena is
// as low as it goes: greedily, the largest first, each in a hole that the buffers alive at the same time leave (Pisarchyk
// and Lee, 2020, "greedy by size"). Some orders and ways to choose the hole are tried, then orders at random, always alike, and the lowest arena wins. held are the
// buffers that are alive before the first event; they stay where they are. It returns the plan, event for event without
// those that move no bytes, and its arena: the end of the highest buffer, held ones included.
//
// Best fit, which places a buffer when it comes and knows nothing of the next, leaves holes of up to 7 percent, this one of
// less than 1. Equal events give equal plans.
func Place(held []Holder, events []Event) (plan []Planned, arena int64) {
	p := newPlacer(held, events)
	least, best := p.most(events), []int64(nil)
	order := make([]*life, 0, len(p.lives))
	for _, l := range p.lives {
		if !l.held {
			order = append(order, l)
		}
	}
	for _, t := range tries {
		slices.SortFunc(order, t.before)
		if a := p.try(order, t.first); best == nil || a < arena {
			arena, best = a, p.addresses(best)
		}
		if arena == least {
			break
		}
	}
	slices.SortFunc(order, bySize)
	for range searchesMost / max(1, len(order)) {
		if arena == least || len(order) == 0 {
			break
		}
		if a := p.try(order, false); a < arena {
			arena, best = a, p.addresses(best)
		}
		p.lift(order)
	}
	for i, l := range p.lives {
		l.addr = best[i]
	}
	return p.events(events), arena
}

// try is an order in which to place buffers, before says which of two comes first, and a way to choose the hole.
type try struct {
	before func(a, b *life) int
	first  bool // the lowest hole that is large enough, not the smallest
}

var tries = []try{
	{bySize, false},
	{bySize, true},
	{byArea, false},
	{byArea, true},
	{byClass, false},
	{byClass, true},
	{byEnd, false},
	{byEnd, true},
}

// bySize: the largest first, of equals the shortest life.
func bySize(a, b *life) int {
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.end-a.start, b.end-b.start), cmp.Compare(a.start, b.start))
}

// byArea: size times life.
func byArea(a, b *life) int {
	return cmp.Or(cmp.Compare(float64(b.size)*float64(b.end-b.start), float64(a.size)*float64(a.end-a.start)), bySize(a, b))
}

// byClass: sizes to within a factor of two, then the longest life.
func byClass(a, b *life) int {
	return cmp.Or(cmp.Compare(bits.Len64(uint64(b.size)), bits.Len64(uint64(a.size))), cmp.Compare(b.end-b.start, a.end-a.start), bySize(a, b))
}

// byEnd: the longest life first.
func byEnd(a, b *life) int {
	return cmp.Or(cmp.Compare(b.end-b.start, a.end-a.start), bySize(a, b))
}

// searchesMost bounds the work of the tries that follow those of tries.
const searchesMost = 1 << 15

// try places all buffers in that order and gives the arena.
func (p *placer) try(order []*life, first bool) (arena int64) {
	for i := range p.spans {
		p.spans[i] = p.spans[i][:0]
	}
	for _, l := range p.lives {
		if l.held {
			p.add(l)
		}
	}
	for _, l := range order {
		l.addr = p.hole(l, first)
		p.add(l)
	}
	return p.highest()
}

func (p *placer) highest() (arena int64) {
	for _, l := range p.lives {
		arena = max(arena, l.addr+l.size)
	}
	return arena
}

// lift moves to the front one of the buffers that are alive together with the highest, chosen at random, always alike: so
// that they find other places, and leave other holes.
func (p *placer) lift(order []*life) {
	arena, top := p.highest(), (*life)(nil)
	for _, l := range p.lives {
		if l.addr+l.size == arena {
			top = l
		}
	}
	p.met = p.met[:0]
	for _, l := range order {
		if l.start < top.end && top.start < l.end {
			p.met = append(p.met, l)
		}
	}
	if len(p.met) == 0 {
		return
	}
	l := p.met[p.random.IntN(len(p.met))]
	i := slices.Index(order, l)
	copy(order[1:i+1], order[:i])
	order[0] = l
}

// addresses are where all buffers are, in room.
func (p *placer) addresses(room []int64) []int64 {
	room = room[:0]
	for _, l := range p.lives {
		room = append(room, l.addr)
	}
	return room
}

// most is the largest sum of rounded sizes that are alive at once, below which no arena can be.
func (p *placer) most(events []Event) (most int64) {
	var live int64
	for _, l := range p.lives {
		if l.held {
			live += l.size
			most = max(most, l.addr+l.size)
		}
	}
	most = max(most, live)
	for _, e := range events {
		switch l := p.byID[e.ID]; {
		case l == nil:
		case e.Act == Alloc:
			live += l.size
			most = max(most, live)
		case e.Act == Free:
			live -= l.size
		}
	}
	return most
}

// life is a buffer from the event that made it up to, not including, the one that ended it.
type life struct {
	start, end int
	size       int64 // rounded
	addr       int64
	held       bool
	seen       int // the search that met it last
}

// placer is the work of Place. Time is cut into spans, so that a search looks only at what lies in the same ones.
type placer struct {
	lives    []*life
	byID     map[uint64]*life
	spans    [][]*life // placed
	searches int
	met      []*life
	random   *rand.Rand
}

const spanEvents = 64

func newPlacer(held []Holder, events []Event) *placer {
	p := &placer{random: rand.New(rand.NewPCG(1, 2)), byID: map[uint64]*life{}, spans: make([][]*life, len(events)/spanEvents+1)}
	for _, h := range held {
		p.live(h.ID, &life{end: len(events), size: rounded(h.Bytes), addr: h.Addr, held: true})
	}
	for t, e := range events {
		switch e.Act {
		case Alloc:
			p.live(e.ID, &life{start: t, end: len(events), size: rounded(e.Bytes)})
		case Free:
			if l := p.byID[e.ID]; l != nil {
				l.end = t
			}
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

// hole finds the address for l: the smallest hole between the buffers alive with it that is large enough, or the first, else
// their end.
func (p *placer) hole(l *life, first bool) int64 {
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
			if best, room = end, gap; first {
				break
			}
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
