package memory

import "fmt"

// Site is where a buffer was asked for: the op that asked and the path of the scope that it ran in.
type Site struct{ Op, Scope string }

// String returns "linear in gpt/blocks.3", or what there is of it.
func (s Site) String() string {
	switch {
	case s.Op == "" && s.Scope == "":
		return "an unnamed site"
	case s.Scope == "":
		return s.Op
	case s.Op == "":
		return "an unnamed op in " + s.Scope
	}
	return s.Op + " in " + s.Scope
}

// Act is what an event did.
type Act uint8

const (
	Alloc    Act = iota // a buffer came to life
	Free                // its last reference was released
	SetKind             // its kind changed to Event.Kind
	Mark                // Device.Mark opened a phase; no buffer is concerned
	Describe            // Buffer.Describe said what it holds, or Buffer.SetSite for whom
)

var actNames = [...]string{"alloc", "free", "setkind", "mark", "describe"}

// String returns the name in lower case.
func (a Act) String() string {
	if int(a) >= len(actNames) {
		return fmt.Sprintf("act(%d)", uint8(a))
	}
	return actNames[a]
}

// Event is one thing that happened to a device, as a trace function receives it, with the figures just after it.
type Event struct {
	Seq   uint64 // events of the device are numbered from 1, whether traced or not
	ID    uint64 // of the buffer, from 1; 0 for Mark
	Act   Act
	Addr  int64 // offset of the buffer in the arena, in bytes
	Bytes int64 // as asked for, not rounded
	Live  int64 // bytes live after the event
	Arena int64 // end of the highest live buffer after it
	Kind  Kind  // after the event
	Site  Site  // where the buffer was asked for
	Spec  string
	Why   string // Spec and Why are what Describe said last; an Alloc event precedes it
	Phase string // what Mark said last
	By    Site   // what Begin said last: the operation that runs, or has just run
	Op    uint64 // its number, from 1; 0 before the first
}

// SetTrace has f called after every event from now on, nil for nobody, and returns who was called before. f runs on
// the goroutine that allocates and must not touch the device.
func (d *Device) SetTrace(f func(Event)) (old func(Event)) {
	old, d.trace = d.trace, f
	return old
}

// Tracing tells whether a trace is set: texts for Describe need not be built when it is not.
func (d *Device) Tracing() bool { return d.trace != nil }

// Mark names the phase that begins now; later events carry the name. Package autograd marks those of a step: "forward",
// "backward", "recompute" and "step", and "" after it. The events' Hash does not cover it.
func (d *Device) Mark(phase string) {
	d.phase = phase
	d.seq++
	if d.trace != nil {
		d.trace(Event{Seq: d.seq, Act: Mark, Live: d.stats.Live, Arena: d.top, Phase: phase, By: d.by, Op: d.op})
	}
}

// Begin says that an operation begins, or goes on after others that ran within it: later events carry it, and the number that
// Begin gives it. It is no event itself.
func (d *Device) Begin(at Site) uint64 {
	d.op++
	d.by = at
	return d.op
}

// record numbers, hashes and traces something that changed the figures.
func (d *Device) record(act Act, b *Buffer) {
	d.seq++
	d.stats.Hash = mix(d.stats.Hash, act, b)
	if d.trace != nil {
		d.trace(d.event(act, b))
	}
}

func (d *Device) event(act Act, b *Buffer) Event {
	e := Event{Seq: d.seq, ID: b.id, Act: act, Addr: b.addr, Bytes: b.size, Live: d.stats.Live, Arena: d.top, Kind: b.kind, Site: b.site, Phase: d.phase, By: d.by, Op: d.op}
	if b.note != nil {
		e.Spec, e.Why = b.note.spec, b.note.why
	}
	return e
}

// FNV-1a (Fowler, Noll, Vo 1991), fed words instead of bytes. A multiplication carries only upwards, so the high half
// is folded down after each word.
const (
	hashBasis = 14695981039346656037
	hashPrime = 1099511628211
)

func mix(h uint64, act Act, b *Buffer) uint64 {
	for _, w := range [...]uint64{uint64(act)<<8 | uint64(b.kind), uint64(b.addr), uint64(b.size)} {
		h = (h ^ w) * hashPrime
		h ^= h >> 32
	}
	return h
}
