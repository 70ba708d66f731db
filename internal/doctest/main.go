// Command doctest keeps the documentation true: it runs what a markdown file says it has run, and compares.
//
//	go run ./internal/doctest README.md docs/techniques.md     tells what differs
//	go run ./internal/doctest -update README.md                writes it anew
//	go run ./internal/doctest -run docs/from-scratch.md        runs a literate program and shows its output
//	go generate ./internal/doctest                             writes all anew that byte figures stand in, pictures too
//
// What a command has printed stands in a block between two comments, the first of which names the command:
//
//	<!-- go run ./internal/techniques recompute -->
//	...
//	<!-- end -->
//
// A line that ends in "([file](file))" behind "> " quotes that file. Byte figures must be the same; times, losses and resident sets, which no two runs have in common, are not compared. A
// literate program is a file whose Go blocks, one after the other, are a program; its text blocks are what the program's
// sections print.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// All that a change of byte figures makes stale:
//go:generate go run ../techniques -pictures ../../docs/techniques
//go:generate go run . -update ../../docs/techniques.md ../../docs/from-scratch.md ../../README.md
//go:generate go test ../../examples/vitl16 -run TestPublished -args -update

func main() {
	if err := doctest(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func doctest(args []string, out, errw io.Writer) error {
	f := flag.NewFlagSet("doctest", flag.ContinueOnError)
	f.SetOutput(errw)
	run := f.Bool("run", false, "run a literate program and show its output")
	update := f.Bool("update", false, "write files anew where they differ")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		return fmt.Errorf("doctest: no file: want markdown files, see -help")
	}
	for _, path := range f.Args() {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("doctest: %w", err)
		}
		if *run {
			output, err := runProgram(string(text))
			fmt.Fprint(out, output)
			if err != nil {
				return err
			}
			continue
		}
		if err := file(path, string(text), *update, out, writesItself); err != nil {
			return err
		}
	}
	return nil
}

// file brings one file up to date, or tells that it is not. skip says which commands are not run.
func file(path, text string, update bool, out io.Writer, skip func(command string) bool) error {
	now, err := current(path, text, skip)
	if err == nil {
		err = quotes(path, now)
	}
	if err != nil {
		return fmt.Errorf("doctest: %s: %w", path, err)
	}
	was, is := mask(text), mask(now)
	switch {
	case update && now != text:
		fmt.Fprintf(out, "%s is written anew\n", path)
		return os.WriteFile(path, []byte(now), 0o644)
	case was == is:
		fmt.Fprintf(out, "%s is up to date\n", path)
		return nil
	}
	return fmt.Errorf("doctest: %s is stale: run go run ./internal/doctest -update %s\n%s", path, path, difference(was, is))
}

// current is a file as it should be.
func current(path, text string, skip func(command string) bool) (string, error) {
	root, err := module(path)
	if err != nil {
		return "", err
	}
	if isProgram(text) {
		output, err := runProgram(text)
		if err != nil {
			return "", err
		}
		if text, err = filled(text, output); err != nil {
			return "", err
		}
	}
	return blocks(root, text, skip)
}

// difference shows the lines in which two texts differ: those of a, then those of b; "" if they are equal.
func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	const most = 20
	var out strings.Builder
	for _, side := range []struct {
		sign  string
		lines []string
	}{{"- ", x}, {"+ ", y}} {
		for i, line := range side.lines {
			if i == most {
				out.WriteString(side.sign + "...\n")
				break
			}
			out.WriteString(side.sign + line + "\n")
		}
	}
	return out.String()
}
