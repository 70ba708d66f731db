package durable

import (
	"os"
	"runtime"
)

// OS is the system's files.
var OS FS = system{}

type system struct{}

func (system) Create(path string) (Output, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (system) Open(path string) (Input, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return input{f}, nil
}

func (system) Rename(old, new string) error { return os.Rename(old, new) }

func (system) Remove(path string) error { return os.Remove(path) }

func (system) Names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// SyncDir does nothing on Windows, where a folder cannot be opened for it and a rename needs no help.
func (system) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

type input struct{ *os.File }

func (f input) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
