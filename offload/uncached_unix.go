//go:build unix

package offload

import (
	"errors"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// uncached is a file of which the system's page cache keeps nothing. Transfers go past the cache where file system and
// memory allow it; where they do not, pages are written out and dropped after each transfer.
type uncached struct {
	plain  *os.File
	direct *os.File    // nil: the file system has no direct transfers
	refuse atomic.Bool // direct transfers were refused
}

func createUncached(path string) (File, error) {
	plain, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	f := &uncached{plain: plain}
	if directFlag != 0 {
		if f.direct, err = os.OpenFile(path, os.O_RDWR|directFlag, 0); err != nil {
			f.direct = nil
		}
	}
	noCache(int(plain.Fd()))
	return f, nil
}

// ReadAt reads past the cache.
func (f *uncached) ReadAt(b []byte, off int64) (int, error) {
	if f.direct != nil && !f.refuse.Load() {
		n, err := f.direct.ReadAt(b, off)
		if !errors.Is(err, unix.EINVAL) {
			return n, err
		}
		f.refuse.Store(true) // memory that is not aligned to pages, or a file system that changed its mind
	}
	n, err := f.plain.ReadAt(b, off)
	dropPages(int(f.plain.Fd()), off, int64(len(b)))
	return n, err
}

// WriteAt writes past the cache, or through it and waits until the disk has it.
func (f *uncached) WriteAt(b []byte, off int64) (int, error) {
	if f.direct != nil && !f.refuse.Load() {
		n, err := f.direct.WriteAt(b, off)
		if !errors.Is(err, unix.EINVAL) {
			return n, err
		}
		f.refuse.Store(true)
	}
	n, err := f.plain.WriteAt(b, off)
	if err != nil {
		return n, err
	}
	if err := flushPages(int(f.plain.Fd()), off, int64(len(b))); err != nil {
		return n, err
	}
	dropPages(int(f.plain.Fd()), off, int64(len(b)))
	return n, nil
}

func (f *uncached) Close() error {
	err := f.plain.Close()
	if f.direct != nil {
		err = errors.Join(err, f.direct.Close())
	}
	return err
}
