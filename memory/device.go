package memory

import (
	"fmt"
	"slices"
)

// Device is an arena with counters: the only source of tensor bytes. It belongs to one goroutine and takes no locks.
type Device struct {
	name    string
	limit   int64 // 0: none
	space   int64 // address space
	bound   int64 // what the arena may reach: the limit, or else the end of the address space
	virtual bool
	closed  bool
	backing backing
	lock    bool
	locked  resident
	lockErr error // the first refusal

	state
	live  []*Buffer        // in no order; Buffer.slot is the index
	slab  *[slabLen]Buffer // handles,
	given int              // of which so many are in use or used up
	dry   *aside           // what Fork set aside; nil outside a dry run
	locks map[*Buffer]span // what of live buffers is locked in RAM

	trace  func(Event)
	failAt int64
}

// state is what a dry run works on a copy of.
type state struct {
	placement
	resident resident
	stats    Stats // without what Stats fills in
	seq, ids uint64
	phase    string
	op       uint64    // operations begun
	by       Site      // the last of them
	plan     []Planned // what Follow has still to come
}

func (s state) clone() state {
	s.byAddr, s.bySize, s.grown, s.resident = slices.Clone(s.byAddr), slices.Clone(s.bySize), slices.Clone(s.grown), slices.Clone(s.resident)
	return s
}

// NewDevice reserves the address space of a device. Close gives it back.
func NewDevice(c Config) (*Device, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Name == "" {
		c.Name = "cpu"
	}
	d := &Device{name: c.Name, limit: c.Limit, space: c.space(), virtual: c.Virtual, lock: c.Lock && !c.Virtual, trace: c.Trace}
	d.stats.Hash = hashBasis
	if !c.Virtual {
		if err := d.reserve(c.HugePages); err != nil {
			return nil, err
		}
	}
	d.bound = d.space
	if d.limit > 0 {
		d.bound = d.limit
	}
	return d, nil
}

// reserve maps the address space, halving it until the system grants it.
func (d *Device) reserve(huge bool) error {
	least := max(granuleUp(d.limit), leastReserve)
	for {
		b, err := reserve(d.space, huge)
		if err == nil {
			d.backing = b
			return nil
		}
		if d.space <= least {
			return fmt.Errorf("memory: %s: cannot reserve %d bytes of address space (limit %d): %w", d.name, d.space, d.limit, err)
		}
		d.space = max(granuleUp(d.space/2), least)
	}
}

// Name returns Config.Name.
func (d *Device) Name() string { return d.name }

// Virtual tells whether what is allocated now has no bytes: on a virtual device, and between Fork and Join.
func (d *Device) Virtual() bool { return d.virtual || d.dry != nil }

// LockErr tells why less than the arena is locked, nil if all is or Config.Lock was not set. It says the first refusal only:
// after that no more is asked for.
func (d *Device) LockErr() error { return d.lockErr }

// Close unmaps the arena. When buffers are still alive it returns an error that names the largest, and leaves the
// mapping in place, because a slice of theirs would crash the program; they can still be used and released, and Close
// called again. After either, Alloc returns an error. Closing a closed device does nothing.
func (d *Device) Close() error {
	if d.dry != nil {
		return fmt.Errorf("memory: %s: close within a dry run: call Join first", d.name)
	}
	d.closed = true
	if len(d.live) > 0 {
		return d.leak()
	}
	d.resident, d.locked = nil, nil
	if err := d.backing.close(); err != nil {
		return fmt.Errorf("memory: %s: close: %w", d.name, err)
	}
	return nil
}
