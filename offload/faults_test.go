package offload_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/thimble-ml/thimble/offload"
)

// fault is what goes wrong with a transfer.
type fault int

const (
	fails     fault = iota // an error, nothing moved
	short                  // half of it, without an error
	flips                  // one bit is another
	truncates              // the file ends before what is read
)

var errFault = errors.New("no space left on the device (injected)")

// faulty are files that go wrong at chosen transfers and take random time.
type faulty struct {
	mu     sync.Mutex
	kind   fault
	write  bool // the fault is in writes, else in reads
	every  int  // every n-th of them; 0: never
	only   bool // the n-th alone
	count  int
	hits   int
	delay  time.Duration
	opened int
}

// arm has every n-th transfer go wrong from now on, or the n-th only.
func (f *faulty) arm(kind fault, write bool, every int, only bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kind, f.write, f.every, f.only, f.count, f.hits = kind, write, every, only, 0, 0
}

func (f *faulty) disarm() (hits int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.every = 0
	return f.hits
}

// due waits a random time and tells whether this transfer is to go wrong.
func (f *faulty) due(write bool) (fault, bool) {
	if f.delay > 0 {
		time.Sleep(time.Duration(rand.Int64N(int64(f.delay))))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.every == 0 || f.write != write {
		return 0, false
	}
	f.count++
	if f.only && f.count != f.every || f.count%f.every != 0 {
		return 0, false
	}
	f.hits++
	return f.kind, true
}

func (f *faulty) Folder(dir string) (string, error) { return os.MkdirTemp(dir, "faulty-*") }

func (f *faulty) Create(path string) (offload.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	f.opened++
	return &faultyFile{f, file}, err
}

func (f *faulty) Remove(folder string) error { return os.RemoveAll(folder) }

type faultyFile struct {
	f *faulty
	*os.File
}

func (f *faultyFile) ReadAt(b []byte, off int64) (int, error) {
	kind, bad := f.f.due(false)
	switch {
	case bad && kind == fails:
		return 0, errFault
	case bad && kind == truncates:
		if err := f.File.Truncate(off + int64(len(b))/2); err != nil {
			return 0, err
		}
	case bad && kind == short:
		return f.File.ReadAt(b[:len(b)/2], off)
	}
	n, err := f.File.ReadAt(b, off)
	if bad && kind == flips && n > 0 {
		b[n/3] ^= 0x10
	}
	return n, err
}

func (f *faultyFile) WriteAt(b []byte, off int64) (int, error) {
	kind, bad := f.f.due(true)
	switch {
	case bad && kind == fails:
		return 0, errFault
	case bad && kind == short:
		return f.File.WriteAt(b[:len(b)/2], off)
	case bad && kind == flips:
		c := append([]byte(nil), b...)
		c[len(c)/3] ^= 0x10
		return f.File.WriteAt(c, off)
	}
	return f.File.WriteAt(b, off)
}
