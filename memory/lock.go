package memory

import (
	"fmt"
	"os"
)

// Lock keeps the buffer's pages in RAM until its last Release, so that using them never waits for the disk that the
// system swaps to: torch's pinned memory, as far as there is no accelerator. It gives the bytes that are locked: the whole
// pages of the buffer, not the two that it may share with its neighbours. It fails where the system forbids it (ulimit -l)
// or has no such call; the buffer is as usable as before. A buffer without bytes has nothing to lock, and a second Lock
// changes nothing. Config.Lock does it for the whole arena of a device.
func (b *Buffer) Lock() (int64, error) {
	if b.refs <= 0 {
		b.misuse("lock of")
	}
	page := int64(os.Getpagesize())
	s := span{(b.addr + page - 1) / page * page, (b.addr + b.size) / page * page}
	_, again := b.dev.locks[b]
	switch {
	case b.virtual || s.hi <= s.lo:
		return 0, nil
	case again:
		return s.hi - s.lo, nil
	case b.dev.lock: // the arena is locked as it grows, buffers with it
		return s.hi - s.lo, b.dev.lockErr
	}
	if err := b.dev.backing.lock(s); err != nil {
		return 0, fmt.Errorf("memory: %s: lock %d bytes of %s made by %s in RAM: %w", b.dev.name, s.hi-s.lo, b.kind, b.site, err)
	}
	if b.dev.locks == nil {
		b.dev.locks = map[*Buffer]span{}
	}
	b.dev.locks[b] = s
	return s.hi - s.lo, nil
}

// unpin ends a Lock, if there is one, before the pages serve another buffer: Trim could not hand locked ones back.
func (d *Device) unpin(b *Buffer) {
	if s, ok := d.locks[b]; ok {
		_ = d.backing.unlock(s) // of this process's own pages it does not fail
		delete(d.locks, b)
	}
}
