//go:build (linux || darwin || freebsd || netbsd || openbsd || dragonfly) && !race

package memory

import (
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// backing is one anonymous private mapping. The system provides a page when it is first written, and nothing before.
type backing struct{ mem []byte }

func reserve(size int64, huge bool) (backing, error) {
	if size > math.MaxInt {
		return backing{}, fmt.Errorf("%d bytes are more than an address can tell apart", size)
	}
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, mapFlags)
	if err != nil {
		return backing{}, fmt.Errorf("mmap: %w", err)
	}
	advisePages(mem, huge)
	return backing{mem}, nil
}

// commit makes sure that s can be written. Mapped pages always can.
func (backing) commit(span) error { return nil }

func (b backing) at(addr, _ int64) unsafe.Pointer { return unsafe.Pointer(&b.mem[addr]) }

// lock keeps the pages of s in RAM until unlock.
func (b backing) lock(s span) error { return unix.Mlock(b.mem[s.lo:s.hi]) }

func (b backing) unlock(s span) error { return unix.Munlock(b.mem[s.lo:s.hi]) }

// drop gives the pages of s back; they stay mapped.
func (b backing) drop(s span) error { return unix.Madvise(b.mem[s.lo:s.hi], dropAdvice) }

func (b *backing) close() error {
	if b.mem == nil {
		return nil
	}
	mem := b.mem
	b.mem = nil
	return unix.Munmap(mem)
}
