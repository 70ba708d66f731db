package offload

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Files is the file layer under a store. Its functions and those of its files are called by several goroutines at once,
// never for overlapping ranges of a file.
type Files interface {
	// Folder makes a new folder in dir, with a name that no other store has.
	Folder(dir string) (string, error)
	// Create makes a file that does not exist yet.
	Create(path string) (File, error)
	// Remove removes the folder with all in it.
	Remove(folder string) error
}

// File is a file of a store. Offsets and lengths are multiples of 4096.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// systemFiles are the operating system's.
type systemFiles struct{}

func (systemFiles) Folder(dir string) (string, error) {
	return os.MkdirTemp(dir, fmt.Sprintf("thimble-offload-%d-*", os.Getpid()))
}

// Create makes a file and, where the system allows it, takes its name away again: nobody else needs it, and what a process
// had that is killed goes with it.
func (systemFiles) Create(path string) (File, error) {
	f, err := createUncached(path)
	if err == nil {
		_ = os.Remove(path)
	}
	return f, err
}

func (systemFiles) Remove(folder string) error { return os.RemoveAll(folder) }

// file is one file of a store, the space in it, and what lies where.
type file struct {
	File
	path   string
	space  space
	blocks map[int64]block // by where they begin
}

// block is a block of an extent.
type block struct {
	e *extent
	b int
}

// index notes where the blocks of an extent are.
func (f *file) index(e *extent) {
	for b := range e.slots {
		f.blocks[e.offset(b)] = block{e, b}
	}
}

// forget is the opposite of index.
func (f *file) forget(e *extent) {
	for b := range e.slots {
		delete(f.blocks, e.offset(b))
	}
}

// around gives block b of e and its neighbours, in order and without gaps: those that lie in the same line, which is so many
// bytes of the file, and can be read. The list is in run, which may be nil.
func (f *file) around(e *extent, b int, line int64, run []block) []block {
	run = run[:0]
	want := e.offset(b)
	from := want / line * line
	for at := from; at < from+line; {
		x, ok := f.blocks[at]
		if !ok || at+pages(x.e.length(x.b)) > from+line || !x.idle() {
			if at > want {
				break
			}
			run, at = run[:0], at+page
			continue
		}
		run, at = append(run, x), at+pages(x.e.length(x.b))
	}
	if len(run) == 0 || run[0].e.offset(run[0].b) > want {
		return append(run[:0], block{e, b})
	}
	return run
}

// idle tells whether a block is in the file and nowhere else.
func (x block) idle() bool { return x.e.has[x.b] && x.e.slots[x.b].slot == nil }

// openFile gives the file of a role, which it makes when it is asked for first.
func (st *Store) openFile(r Role) (*file, error) {
	if f := st.files[r]; f != nil {
		return f, nil
	}
	f := &file{path: filepath.Join(st.folder, r.String()), blocks: map[int64]block{}}
	if !st.dev.Virtual() {
		var err error
		if f.File, err = st.cfg.Files.Create(f.path); err != nil {
			return nil, fmt.Errorf("offload: create %s: %w", f.path, err)
		}
	}
	st.files[r] = f
	return f, nil
}
