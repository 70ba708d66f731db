package row

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Flags are the flags of an example, with the bounds of their values. What is out of bounds ends Parse with an error that
// names the flag, what it was given, and what is wanted.
type Flags struct {
	*flag.FlagSet
	errw   io.Writer
	checks []func() error
}

// NewFlags returns the flags of the program of that name, whose -help goes to errw.
func NewFlags(name string, errw io.Writer) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), errw: errw}
	f.SetOutput(io.Discard) // Parse's error says what is wrong, once
	return f
}

// JSON adds -json.
func (f *Flags) JSON(p *bool) {
	f.BoolVar(p, "json", false, "print the figures as JSON on standard output, and nothing else there")
}

// Run adds -seed, a seed of what is named, and -threads.
func (f *Flags) Run(seed *uint64, of string, threads *int) {
	f.Uint64Var(seed, "seed", 1, "of "+of)
	f.Int(threads, "threads", 0, 0, "workers (default: all processors)")
}

// Chart adds -chart, a file for a picture.
func (f *Flags) Chart(p *string, file string) {
	f.File(p, "chart", file, "where to draw the chart; empty: nowhere")
}

// Text adds -data, a text, with the default of package gosource.
func (f *Flags) Text(p *string) {
	f.StringVar(p, "data", "", "a file or folder of text (default: Go's own source)")
}

// Images adds -data, a data set, with the default of package mnist.
func (f *Flags) Images(p *string) {
	f.StringVar(p, "data", "", "folder of IDX files (default: MNIST from the Go module cache)")
}

// Int adds an integer of at least the given one.
func (f *Flags) Int(p *int, name string, value, least int, usage string) {
	f.IntVar(p, name, value, usage)
	f.check(func() error {
		if *p < least {
			return fmt.Errorf("-%s %d: want %d or more", name, *p, least)
		}
		return nil
	})
}

// Multiple adds a positive multiple of an integer.
func (f *Flags) Multiple(p *int, name string, value, of int, usage string) {
	f.IntVar(p, name, value, fmt.Sprintf("%s, a multiple of %d", usage, of))
	f.check(func() error {
		if *p < of || *p%of != 0 {
			return fmt.Errorf("-%s %d: want a multiple of %d", name, *p, of)
		}
		return nil
	})
}

// Positive adds a number above 0.
func (f *Flags) Positive(p *float64, name string, value float64, usage string) {
	f.Float64Var(p, name, value, usage)
	f.check(func() error {
		if !(*p > 0) {
			return fmt.Errorf("-%s %g: want more than 0", name, *p)
		}
		return nil
	})
}

// OneOf adds a choice between names; empty is allowed where it is the default.
func (f *Flags) OneOf(p *string, name, value string, names []string, usage string) {
	list := strings.Join(names, ", ")
	f.StringVar(p, name, value, usage+": "+list)
	f.check(func() error {
		if *p != value && !slices.Contains(names, *p) {
			return fmt.Errorf("-%s %q: want one of %s", name, *p, list)
		}
		return nil
	})
}

// File adds a file that will be written when all is done, or none if it is empty. Parse finds out whether it can be: nobody
// shall wait for minutes to be told that there is no such folder.
func (f *Flags) File(p *string, name, value, usage string) {
	f.StringVar(p, name, value, usage)
	f.check(func() error {
		if *p == "" {
			return nil
		}
		if err := writable(*p); err != nil {
			return fmt.Errorf("-%s %s: %w: name a file that can be written, or none with -%s=", name, *p, err, name)
		}
		return nil
	})
}

// Folder adds an existing folder that files are written into. Where it is empty, another is used.
func (f *Flags) Folder(p *string, name, usage string) {
	f.StringVar(p, name, "", usage)
	f.check(func() error {
		if *p == "" {
			return nil
		}
		if err := writable(filepath.Join(*p, "file")); err != nil {
			return fmt.Errorf("-%s %s: %w: want an existing folder that can be written to", name, *p, err)
		}
		return nil
	})
}

// writable tells whether a file can be written, and leaves all as it is.
func writable(path string) error {
	if info, err := os.Stat(path); err == nil {
		if info.IsDir() {
			return errors.New("it is a folder")
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return cause(err)
		}
		return f.Close()
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".writable-*")
	if err != nil {
		return cause(err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// cause is an error of a file without the name.
func cause(err error) error {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

func (f *Flags) check(c func() error) { f.checks = append(f.checks, c) }

// Parse reads args, which are flags only. Its errors have the name of the program. With -help it lists the flags and returns
// flag.ErrHelp, which Main takes for success.
func (f *Flags) Parse(args []string) error {
	err := f.FlagSet.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.help()
		return err
	case err != nil:
		return fmt.Errorf("%s: %w: see -help", f.Name(), err)
	case f.NArg() > 0:
		return fmt.Errorf("%s: argument %q: want flags only, see -help", f.Name(), f.Arg(0))
	}
	for _, check := range f.checks {
		if err := check(); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return nil
}

func (f *Flags) help() {
	fmt.Fprintf(f.errw, "usage: go run ./examples/%s [flags]\n\n", f.Name())
	f.SetOutput(f.errw)
	f.PrintDefaults()
	f.SetOutput(io.Discard)
}
