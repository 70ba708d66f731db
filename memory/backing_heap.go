//go:build race || !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package memory

import (
	"errors"
	"unsafe"
)

// backing is Go's heap: one slice a buffer. The race detector sees nothing of mapped memory, so it gets this, as does
// a system without mmap. Placement and figures are the same; only the bytes lie elsewhere.
type backing struct{}

func reserve(int64, bool) (backing, error) { return backing{}, nil }

func (backing) commit(span) error { return nil }

// at returns n fresh bytes; the pointer into them is what keeps them alive.
func (backing) at(_, n int64) unsafe.Pointer {
	mem := make([]byte, n+align-1)
	skip := -uintptr(unsafe.Pointer(&mem[0])) & (align - 1)
	return unsafe.Pointer(&mem[skip])
}

func (backing) lock(span) error { return errors.New("the arena lies on Go's heap") }

func (backing) unlock(span) error { return nil }

func (backing) drop(span) error { return nil }

func (backing) close() error { return nil }
