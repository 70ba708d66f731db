// Package durabletest has files that fail on purpose, for tests of what is built on package durable.
package durabletest

import (
	"errors"
	"io"
	"sync"

	"github.com/thimble-ml/thimble/internal/durable"
)

// Kind is what goes wrong.
type Kind int

// The kinds of failure. Error and Death count all operations, Short and Flip those that move data.
const (
	Error Kind = iota // the operation does nothing and says so
	Short             // half the bytes are moved, and writing does not say so
	Flip              // a bit of the bytes is another, and nobody says so
	Death             // it stops half way, and nothing works any more: the process was killed
)

// Err is what fails with.
var Err = errors.New("injected failure")

// FS is the system's files, of which one operation fails.
type FS struct {
	kind Kind

	mu   sync.Mutex
	left int    // operations before the one that fails
	last string // the one that failed
}

// New makes the at-th operation fail, 1 being the first; 0 makes none fail.
func New(kind Kind, at int) *FS { return &FS{kind: kind, left: at - 1} }

// Hit tells whether the failure has happened.
func (f *FS) Hit() bool { return f.Last() != "" }

// Last is the operation that failed: "create", "write", "sync", "close", "rename", "syncdir", "open", "size", "read",
// "remove", "names"; "" if none has.
func (f *FS) Last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// hits counts an operation and tells whether it is to fail.
func (f *FS) hits(op string, moves bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != "" {
		return f.kind == Death
	}
	if (f.kind == Short || f.kind == Flip) && !moves {
		return false
	}
	f.left--
	if f.left != -1 {
		return false
	}
	f.last = op
	return true
}

func (f *FS) do(op string, g func() error) error {
	if f.hits(op, false) {
		return Err
	}
	return g()
}

// Create implements durable.FS.
func (f *FS) Create(path string) (out durable.Output, err error) {
	err = f.do("create", func() (err error) { out, err = durable.OS.Create(path); return err })
	if err != nil {
		return nil, err
	}
	return &output{f: f, o: out}, nil
}

// Open implements durable.FS.
func (f *FS) Open(path string) (in durable.Input, err error) {
	err = f.do("open", func() (err error) { in, err = durable.OS.Open(path); return err })
	if err != nil {
		return nil, err
	}
	return &input{f, in}, nil
}

// Rename implements durable.FS.
func (f *FS) Rename(old, new string) error {
	return f.do("rename", func() error { return durable.OS.Rename(old, new) })
}

// Remove implements durable.FS.
func (f *FS) Remove(path string) error {
	return f.do("remove", func() error { return durable.OS.Remove(path) })
}

// Names implements durable.FS. That it fails keeps nobody from writing, so only Death has it fail.
func (f *FS) Names(dir string) ([]string, error) {
	if f.kind == Death && f.hits("names", false) {
		return nil, Err
	}
	return durable.OS.Names(dir)
}

// SyncDir does not wait either.
func (f *FS) SyncDir(string) error { return f.do("syncdir", func() error { return nil }) }

type output struct {
	f      *FS
	o      durable.Output
	closed bool
}

func (o *output) Write(b []byte) (int, error) {
	if !o.f.hits("write", true) {
		return o.o.Write(b)
	}
	switch o.f.kind {
	case Short:
		return o.o.Write(b[:len(b)/2])
	case Flip:
		return o.o.Write(flipped(b))
	case Death:
		n, _ := o.o.Write(b[:len(b)/2])
		return n, Err
	}
	return 0, Err
}

// flipped is b with another bit in the middle.
func flipped(b []byte) []byte {
	c := append([]byte(nil), b...)
	if len(c) > 0 {
		c[len(c)/2] ^= 0x10
	}
	return c
}

// Sync does not wait for the disk: what dies in these tests is a process, and the system keeps what it wrote.
func (o *output) Sync() error { return o.f.do("sync", func() error { return nil }) }

// Close closes the file in any case: a test must not leak it.
func (o *output) Close() error {
	err := o.o.Close()
	if o.closed {
		return err
	}
	o.closed = true
	return o.f.do("close", func() error { return err })
}

type input struct {
	f *FS
	i durable.Input
}

func (i *input) ReadAt(b []byte, at int64) (int, error) {
	if !i.f.hits("read", true) {
		return i.i.ReadAt(b, at)
	}
	switch i.f.kind {
	case Short:
		n, _ := i.i.ReadAt(b[:len(b)/2], at)
		return n, io.EOF
	case Flip:
		n, err := i.i.ReadAt(b, at)
		copy(b, flipped(b[:n]))
		return n, err
	}
	return 0, Err
}

func (i *input) Size() (n int64, err error) {
	err = i.f.do("size", func() (err error) { n, err = i.i.Size(); return err })
	return n, err
}

func (i *input) Close() error { return i.i.Close() }
