// Command techniques writes the numbers and pictures of docs/techniques.md: it runs a training step of one small model dry,
// plainly and with each technique, checks the technique's formula against what the device counted, and draws both.
//
//	go run ./internal/techniques recompute                     the numbers of one technique
//	go run ./internal/techniques -pictures docs/techniques     all pictures
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, out, errw io.Writer) error {
	f := flag.NewFlagSet("techniques", flag.ContinueOnError)
	f.SetOutput(errw)
	dir := f.String("pictures", "", "write the pictures of all techniques to this folder")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *dir != "" {
		return pictures(*dir)
	}
	if f.NArg() != 1 {
		return fmt.Errorf("techniques: %d names: want one, or -pictures", f.NArg())
	}
	t, err := find(f.Arg(0))
	if err != nil {
		return err
	}
	got, err := t.run()
	if err == nil {
		err = got.check()
	}
	if err != nil {
		return err
	}
	got.show(out)
	return nil
}

// pictures draws all techniques.
func pictures(dir string) error {
	for _, t := range techniques {
		got, err := t.run()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, t.name+".svg"), []byte(got.draw()), 0o644); err != nil {
			return fmt.Errorf("techniques: %w", err)
		}
	}
	return nil
}
