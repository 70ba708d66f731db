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

func (systemFiles) Create(path string) (File, error) { return createUncached(path) }

func (systemFiles) Remove(folder string) error { return os.RemoveAll(folder) }

// file is one file of a store and the space in it.
type file struct {
	File
	path  string
	space space
}

// openFile gives the file of a role, which it makes when it is asked for first.
func (st *Store) openFile(r Role) (*file, error) {
	if f := st.files[r]; f != nil {
		return f, nil
	}
	f := &file{path: filepath.Join(st.folder, r.String())}
	if !st.dev.Virtual() {
		var err error
		if f.File, err = st.cfg.Files.Create(f.path); err != nil {
			return nil, fmt.Errorf("offload: create %s: %w", f.path, err)
		}
	}
	st.files[r] = f
	return f, nil
}
