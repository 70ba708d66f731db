package memory

import "fmt"

// aside is the real state while a dry run is on.
type aside struct {
	state
	live []record
}

// record is what a dry run may change of a real buffer.
type record struct {
	b       *Buffer
	note    *note
	refs    int32
	version uint32
	kind    Kind
	site    Site
}

// Fork begins a dry run: until Join, the device goes on placing and counting from where it stands, and every address,
// figure and number is the one that the real run would give, but what is allocated has no bytes, and Limit holds for
// TryAlloc only. Real buffers keep their bytes and may be retained, released, bumped, described and given another
// kind. It panics when a dry run is on already.
func (d *Device) Fork() {
	if d.dry != nil {
		panic(fmt.Sprintf("memory: %s: fork within a dry run", d.name))
	}
	a := &aside{state: d.state, live: make([]record, len(d.live))}
	for i, b := range d.live {
		a.live[i] = record{b, b.note, b.refs, b.version, b.kind, b.site}
	}
	d.state = d.state.clone()
	d.dry = a
}

// Join ends a dry run: the device and its real buffers are exactly as they were at Fork. A buffer of the dry run that
// is still referenced stays a virtual buffer that its holder can release, and that no figure counts any more. The trace
// function is not part of the state and stays. It panics when no dry run is on.
func (d *Device) Join() {
	if d.dry == nil {
		panic(fmt.Sprintf("memory: %s: join without fork", d.name))
	}
	for _, b := range d.live {
		b.orphan = b.id > d.dry.ids
	}
	clear(d.live)
	d.live = d.live[:0]
	for i, r := range d.dry.live {
		r.b.note, r.b.refs, r.b.version, r.b.kind, r.b.site, r.b.slot = r.note, r.refs, r.version, r.kind, r.site, int32(i)
		d.live = append(d.live, r.b)
	}
	d.state, d.dry = d.dry.state, nil
}

// Forked tells whether a dry run is on.
func (d *Device) Forked() bool { return d.dry != nil }
