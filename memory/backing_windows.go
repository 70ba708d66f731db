//go:build !race

package memory

import (
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/windows"
)

// backing is one reservation, in which granules are committed as the arena reaches them.
type backing struct{ mem []byte }

func reserve(size int64, _ bool) (backing, error) {
	if size > math.MaxInt {
		return backing{}, fmt.Errorf("%d bytes are more than an address can tell apart", size)
	}
	base, err := windows.VirtualAlloc(0, uintptr(size), windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return backing{}, fmt.Errorf("VirtualAlloc: %w", err)
	}
	p := *(*unsafe.Pointer)(unsafe.Pointer(&base)) // system memory, which Go's collector does not move
	return backing{unsafe.Slice((*byte)(p), size)}, nil
}

// commit makes sure that s can be written; what of it is committed already keeps its content.
func (b backing) commit(s span) error {
	_, err := windows.VirtualAlloc(b.base(s.lo), uintptr(s.hi-s.lo), windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return err
}

func (b backing) at(addr, _ int64) unsafe.Pointer { return unsafe.Pointer(&b.mem[addr]) }

func (b backing) base(addr int64) uintptr { return uintptr(unsafe.Pointer(&b.mem[addr])) }

// lock keeps the pages of s in RAM until unlock.
func (b backing) lock(s span) error { return windows.VirtualLock(b.base(s.lo), uintptr(s.hi-s.lo)) }

func (b backing) unlock(s span) error {
	return windows.VirtualUnlock(b.base(s.lo), uintptr(s.hi-s.lo))
}

// drop decommits s, which gives the memory back, and commits it again, so that a stale slice reads zeros.
func (b backing) drop(s span) error {
	if err := windows.VirtualFree(b.base(s.lo), uintptr(s.hi-s.lo), windows.MEM_DECOMMIT); err != nil {
		return err
	}
	_ = b.commit(s) // should it fail, touch commits again before the next buffer lies there
	return nil
}

func (b *backing) close() error {
	if b.mem == nil {
		return nil
	}
	base := b.base(0)
	b.mem = nil
	return windows.VirtualFree(base, 0, windows.MEM_RELEASE)
}
