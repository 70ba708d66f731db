package memory

import "fmt"

// align is what every address is a multiple of and every size is rounded up to in the arena: a cache line, and the
// widest vector register. A buffer of zero bytes occupies one unit, so that addresses tell buffers apart.
const align = 64

// rounded returns what n bytes occupy; n is at most unbounded.
func rounded(n int64) int64 { return max(align, (n+align-1)&^(align-1)) }

// Alloc returns a buffer of that many bytes, 64-byte aligned, with one reference. What it holds is not specified: old
// bytes, zeros, or NaN under the build tag invariants.
//
// It fails with an *OOMError when the arena would grow above the limit or the address space. In a dry run it ignores
// both, so that the dry run tells what would be needed. A negative size, an unknown kind and a closed device are
// plain errors.
func (d *Device) Alloc(bytes int64, k Kind, at Site) (*Buffer, error) {
	if err := d.checkAlloc(bytes, k, at); err != nil {
		return nil, err
	}
	if d.injected() {
		return nil, d.fail(bytes, k, at, &OOMError{Injected: true})
	}
	bound := d.bound
	if d.dry != nil {
		bound = unbounded
	}
	addr, err := d.place(bytes, bound)
	if err != nil {
		return nil, d.fail(bytes, k, at, err)
	}
	return d.newBuffer(addr, bytes, k, at), nil
}

// TryAlloc allocates memory that the caller can do without, such as read-ahead. Where Alloc would fail it returns
// false, and Stats.Refused counts it, not Failed. It obeys the limit even in a dry run, and FailAt passes it over.
func (d *Device) TryAlloc(bytes int64, k Kind, at Site) (*Buffer, bool) {
	if d.checkAlloc(bytes, k, at) == nil {
		if addr, err := d.place(bytes, d.bound); err == nil {
			return d.newBuffer(addr, bytes, k, at), true
		}
	}
	d.stats.Refused++
	return nil, false
}

// FailAt makes the n-th Alloc from now fail with an *OOMError, 1 being the next; 0 turns it off. It is there to test
// that code survives, with nothing leaked, when memory runs out at any point. TryAlloc and dry runs do not count.
func (d *Device) FailAt(n int64) { d.failAt = max(n, 0) }

// injected counts an allocation down and tells whether it is the one to fail.
func (d *Device) injected() bool {
	if d.failAt == 0 || d.dry != nil {
		return false
	}
	d.failAt--
	return d.failAt == 0
}

func (d *Device) checkAlloc(bytes int64, k Kind, at Site) error {
	switch {
	case d.closed:
		return fmt.Errorf("memory: %s: alloc of %d bytes by %s: the device is closed", d.name, bytes, at)
	case bytes < 0:
		return fmt.Errorf("memory: %s: alloc of %d bytes by %s: want 0 or more", d.name, bytes, at)
	case !k.valid():
		return fmt.Errorf("memory: %s: alloc of %d bytes by %s: %s is not a kind", d.name, bytes, at, k)
	}
	return nil
}

// place takes an address for that many bytes below bound. The error says why not, and is not filled in.
func (d *Device) place(bytes, bound int64) (int64, *OOMError) {
	if bytes > bound {
		return 0, &OOMError{}
	}
	n := rounded(bytes)
	if addr, ok := d.planned(bytes, bound); ok {
		if err := d.touch(addr, n); err != nil {
			return 0, &OOMError{Err: err}
		}
		d.takeAt(addr, n)
		return addr, nil
	}
	addr, from := d.fit(n)
	if n > bound-addr {
		return 0, &OOMError{}
	}
	if err := d.touch(addr, n); err != nil {
		return 0, &OOMError{Err: err}
	}
	d.take(addr, n, from)
	return addr, nil
}

const slabLen = 64 // handles in one Go allocation

// handle returns a zero Buffer. None is given out a second time, which is what makes a second Release and a use after
// the last certain to be caught.
func (d *Device) handle() *Buffer {
	if d.slab == nil || d.given == slabLen {
		d.slab, d.given = new([slabLen]Buffer), 0
	}
	d.given++
	return &d.slab[d.given-1]
}

// newBuffer makes the handle of a placed buffer.
func (d *Device) newBuffer(addr, bytes int64, k Kind, at Site) *Buffer {
	b := d.handle()
	d.ids++
	b.dev, b.addr, b.size, b.id, b.site, b.kind = d, addr, bytes, d.ids, at, k
	b.refs, b.slot, b.virtual = 1, int32(len(d.live)), d.Virtual()
	if !b.virtual {
		b.ptr = d.backing.at(addr, rounded(bytes))
		poison(b.ptr, bytes)
	}
	d.live = append(d.live, b)
	d.born(b)
	d.record(Alloc, b)
	return b
}

// end takes the last reference's buffer out of the device.
func (d *Device) end(b *Buffer) {
	last := len(d.live) - 1
	moved := d.live[last]
	d.live[b.slot], moved.slot = moved, b.slot
	d.live[last] = nil
	d.live = d.live[:last]
	d.ended(b)
	d.give(b.addr, rounded(b.size))
	if d.dry == nil && !b.virtual { // a dry run's Join brings the bytes back
		d.unpin(b)
		poison(b.ptr, b.size)
		b.ptr = nil
	}
	d.died(b)
	d.record(Free, b)
}
