package memory

import "fmt"

// Config says what NewDevice makes. The zero value is a device without a limit.
type Config struct {
	// Name stands in errors and reports; default "cpu".
	Name string

	// Limit bounds the arena in bytes, holes and rounding included: an allocation that would push it higher fails with
	// an *OOMError. 0: no limit.
	Limit int64

	// Reserve is the address space to reserve, in bytes, rounded up to 64 KiB. Address space costs nothing until it is
	// touched. Default: Limit if there is one, else 64 GiB. When the system grants less (ulimit -v), it is halved until
	// it fits, but not below Limit. A virtual device reserves nothing; Reserve bounds its arena all the same, and the
	// default is 4 EiB.
	Reserve int64

	// Virtual devices count and place, but have no bytes: Buffer.Bytes gives nil.
	Virtual bool

	// HugePages asks Linux for transparent huge pages. They save TLB misses, but the resident set then moves in steps
	// of 2 MiB and the kernel fills up again what Trim handed back. By default they are declined, and the resident set
	// follows the arena.
	HugePages bool

	// Lock keeps the arena in RAM: its pages are locked as the arena reaches them, so that they are never paged out. What
	// the system refuses (ulimit -l) stays as it is: Stats.Locked tells how much is locked, LockErr why no more.
	Lock bool

	// Trace is called after every event, as if set by SetTrace.
	Trace func(Event)
}

const (
	defaultReserve = 64 << 30
	leastReserve   = 1 << 20 // what halving stops at when there is no Limit
	unbounded      = 1 << 62 // the address space of a virtual device; twice as much still fits an int64
)

// check reports the first field that makes no sense.
func (c Config) check() error {
	switch {
	case c.Limit < 0:
		return fmt.Errorf("memory: Config.Limit is %d bytes: want 0 (no limit) or more", c.Limit)
	case c.Reserve < 0:
		return fmt.Errorf("memory: Config.Reserve is %d bytes: want 0 (the default) or more", c.Reserve)
	case c.Reserve > 0 && c.Reserve < c.Limit:
		return fmt.Errorf("memory: Config.Reserve of %d bytes is below Config.Limit of %d bytes: want at least the limit", c.Reserve, c.Limit)
	case c.Reserve > unbounded || c.Limit > unbounded:
		return fmt.Errorf("memory: Config.Reserve of %d and Config.Limit of %d bytes: want at most %d", c.Reserve, c.Limit, int64(unbounded))
	}
	return nil
}

// space returns the address space to ask for.
func (c Config) space() int64 {
	switch {
	case c.Reserve > 0:
		return granuleUp(c.Reserve)
	case c.Limit > 0:
		return granuleUp(c.Limit)
	case c.Virtual:
		return unbounded
	}
	return defaultReserve
}
