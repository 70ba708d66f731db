package memory

import (
	"cmp"
	"fmt"
	"unsafe"
)

// Buffer is a counted piece of a device's arena. The maker holds one reference; Retain adds one, and the Release of
// the last gives the bytes back at that instruction. Every method that reads, writes or counts panics on a released
// buffer, naming the op and scope that made it; Size, Addr, ID, Kind, Site, Refs, Device, Virtual and Version do not.
type Buffer struct {
	dev     *Device
	ptr     unsafe.Pointer // nil when virtual and after the end
	addr    int64
	size    int64
	id      uint64
	site    Site
	note    *note
	refs    int32
	version uint32
	slot    int32 // index in Device.live
	kind    Kind
	virtual bool
	orphan  bool // made in a dry run that has ended: the device knows it no more
}

// note is what Describe said.
type note struct{ spec, why string }

// Bytes returns the buffer's bytes, and nil for a virtual buffer. The slice must not be used after the last Release.
func (b *Buffer) Bytes() []byte {
	if b.refs <= 0 {
		b.misuse("bytes of")
	}
	if b.ptr == nil {
		return nil
	}
	return unsafe.Slice((*byte)(b.ptr), b.size)
}

// Retain adds a reference and returns the buffer.
func (b *Buffer) Retain() *Buffer {
	if b.refs <= 0 {
		b.misuse("retain of")
	}
	b.refs++
	return b
}

// Release drops a reference; the last one gives the bytes back.
func (b *Buffer) Release() {
	if b.refs <= 0 {
		b.misuse("release of")
	}
	b.refs--
	if b.refs == 0 && !b.orphan {
		b.dev.end(b)
	}
}

// SetKind says that the bytes serve another purpose from now on. Live does not change, its split does.
func (b *Buffer) SetKind(k Kind) {
	if b.refs <= 0 {
		b.misuse("setkind of")
	}
	if !k.valid() {
		panic(fmt.Sprintf("memory: setkind of a buffer made by %s: %s is not a kind", b.site, k))
	}
	if b.kind == k {
		return
	}
	old := b.kind
	b.kind = k
	if !b.orphan {
		b.dev.rekinded(b, old)
		b.dev.record(SetKind, b)
	}
}

// Version counts the writes in place that Bump declared. It starts at 0.
func (b *Buffer) Version() uint32 { return b.version }

// Bump declares a write in place, so that who saved the buffer can tell that it changed.
func (b *Buffer) Bump() {
	if b.refs <= 0 {
		b.misuse("bump of")
	}
	b.version++
}

// Describe says what the buffer holds ("float32[8 256 384]") and why it is held; a text that is empty leaves that one as it
// was. Its later events carry both; with a trace set there is an event for Describe itself.
func (b *Buffer) Describe(spec, why string) {
	if b.refs <= 0 {
		b.misuse("describe of")
	}
	if b.note != nil {
		spec, why = cmp.Or(spec, b.note.spec), cmp.Or(why, b.note.why)
	}
	b.note = &note{spec, why}
	b.described()
}

// SetSite says for whom the bytes are, where that became known only after they were asked for: a parameter gets its full
// name when the model that it is part of is complete. It is an event as Describe is.
func (b *Buffer) SetSite(at Site) {
	if b.refs <= 0 {
		b.misuse("setsite of")
	}
	b.site = at
	b.described()
}

func (b *Buffer) described() {
	if d := b.dev; !b.orphan {
		d.seq++
		if d.trace != nil {
			d.trace(d.event(Describe, b))
		}
	}
}

// Size returns the bytes asked for.
func (b *Buffer) Size() int64 { return b.size }

// Addr returns the offset in the arena, in bytes, a multiple of 64.
func (b *Buffer) Addr() int64 { return b.addr }

// ID returns the buffer's number: the device's buffers are counted from 1, and Join sets the count back.
func (b *Buffer) ID() uint64 { return b.id }

// Kind returns what the bytes are for.
func (b *Buffer) Kind() Kind { return b.kind }

// Site returns where the buffer was asked for, or what SetSite said last.
func (b *Buffer) Site() Site { return b.site }

// Refs returns the number of references, 0 after the last Release.
func (b *Buffer) Refs() int { return int(b.refs) }

// Device returns the device that the buffer is of.
func (b *Buffer) Device() *Device { return b.dev }

// Virtual tells whether the buffer has no bytes: it was made on a virtual device or in a dry run.
func (b *Buffer) Virtual() bool { return b.virtual }

// misuse is kept out of the methods so that they stay small enough to inline.
func (b *Buffer) misuse(what string) {
	panic(fmt.Sprintf("memory: %s: %s a released buffer: %d bytes of %s made by %s", b.dev.name, what, b.size, b.kind, b.site))
}
