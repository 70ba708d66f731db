package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
)

// FS is the file layer.
type FS interface {
	// Create makes a file that must not exist yet, for writing.
	Create(path string) (Output, error)
	// Open opens a file for reading.
	Open(path string) (Input, error)
	// Rename puts the file old in the place of new.
	Rename(old, new string) error
	// Remove deletes a file.
	Remove(path string) error
	// Names lists what lies in a folder.
	Names(dir string) ([]string, error)
	// SyncDir makes the names in a folder last.
	SyncDir(dir string) error
}

// Output is a file that is being written.
type Output interface {
	io.WriteCloser
	// Sync returns when what was written is on the disk.
	Sync() error
}

// Input is a file that is being read.
type Input interface {
	io.ReaderAt
	io.Closer
	// Size is its length in bytes.
	Size() (int64, error)
}

const suffix = ".tmp"

// buffered is how much small writes are gathered to, in bytes; larger ones pass through.
const buffered = 64 << 10

// Write puts what body writes in the place of the file at path, or leaves that as it is and gives an error, which names
// path. A path is written by one process at a time.
func Write(fs FS, path string, body func(io.Writer) error) error {
	if err := write(fs, path, body); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func write(fs FS, path string, body func(io.Writer) error) error {
	dir, base := filepath.Split(path)
	if base == "" {
		return errors.New("want the name of a file")
	}
	if dir == "" {
		dir = "."
	}
	sweep(fs, dir, prefix(base))
	temp := filepath.Join(dir, fmt.Sprintf("%s%08x%s", prefix(base), rand.Uint32(), suffix))
	if err := fill(fs, temp, body); err != nil {
		return err
	}
	if err := fs.Rename(temp, path); err != nil {
		_ = fs.Remove(temp)
		return err
	}
	return fs.SyncDir(dir)
}

// prefix begins the names of the temporary files for base.
func prefix(base string) string { return "." + base + "." }

// errStopped is the state of a file whose body panicked.
var errStopped = errors.New("stopped")

// fill makes the temporary file, on the disk with all its bytes, or removes it.
func fill(fs FS, temp string, body func(io.Writer) error) error {
	f, err := fs.Create(temp)
	if err != nil {
		return err
	}
	err = errStopped
	defer func() {
		if err != nil {
			_ = fs.Remove(temp) // if that fails too, sweep does it later
		}
	}()
	defer f.Close() // a second Close does no harm
	if err = content(f, body); err == nil {
		err = f.Close()
	}
	return err
}

func content(f Output, body func(io.Writer) error) error {
	w := bufio.NewWriterSize(whole{f}, buffered)
	if err := body(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// whole is a writer that takes all or fails.
type whole struct{ w io.Writer }

func (w whole) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}

// sweep removes what writers that were killed left in dir. That it cannot is no reason not to write.
func sweep(fs FS, dir, prefix string) {
	names, err := fs.Names(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if isTemp(name, prefix) {
			_ = fs.Remove(filepath.Join(dir, name))
		}
	}
}

// isTemp recognises names as write makes them: prefix, eight hexadecimal digits, suffix.
func isTemp(name, prefix string) bool {
	middle, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return false
	}
	if middle, ok = strings.CutSuffix(middle, suffix); !ok || len(middle) != 8 {
		return false
	}
	return strings.Trim(middle, "0123456789abcdef") == ""
}
