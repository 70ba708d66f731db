package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// block is a part of a markdown text that a command of the repository writes:
//
//	<!-- go run ./internal/techniques recompute -->
//	| ...
//	<!-- end -->
//
// Where there is a fence right behind the first line, what the command prints stands within it, and before that may be a
// line for the reader ("$ go run ..."). A paragraph "..." stands for what is left out: see elide.
var block = regexp.MustCompile("(?ms)^<!-- (go run \\./[^\n]*?) -->\n((?:```\\w*\n)?(?:\\$ [^\n]*\n)?)(.*?)(^```\n)?^<!-- end -->\n")

// elsewhere are commands that write their blocks themselves, because what they print is measured: there are no byte figures
// of ours to compare.
var elsewhere = []string{"./internal/bench"}

// runner runs commands of the module in the folder root, each compiled once.
type runner struct {
	root string
	bin  string            // folder of programs
	made map[string]string // program by package
}

func newRunner(root string) (*runner, error) {
	bin, err := os.MkdirTemp("", "thimble-doctest-")
	return &runner{root: root, bin: bin, made: map[string]string{}}, err
}

func (r *runner) close() { _ = os.RemoveAll(r.bin) }

// run gives what "go run ./package arguments" prints.
func (r *runner) run(command string) (string, error) {
	args := strings.Fields(command)[2:]
	program, ok := r.made[args[0]]
	if !ok {
		program = filepath.Join(r.bin, fmt.Sprint(len(r.made)))
		if runtime.GOOS == "windows" {
			program += ".exe"
		}
		if _, err := r.exec("go", "build", "-o", program, args[0]); err != nil {
			return "", fmt.Errorf("%s: %w", command, err)
		}
		r.made[args[0]] = program
	}
	out, err := r.exec(program, args[1:]...)
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return out, nil
}

// exec runs a program and gives its standard output; an error has the other one.
func (r *runner) exec(program string, args ...string) (string, error) {
	var out, errw bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, &out, &errw
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, errw.String())
	}
	return out.String(), nil
}

// blocks gives a text with all its blocks written anew, except those that skip says to leave alone.
func blocks(root, text string, skip func(command string) bool) (string, error) {
	r, err := newRunner(root)
	if err != nil {
		return "", err
	}
	defer r.close()
	var failed error
	now := block.ReplaceAllStringFunc(text, func(old string) string {
		m := block.FindStringSubmatch(old)
		if failed != nil || skip(m[1]) {
			return old
		}
		out, err := r.run(m[1])
		if err != nil {
			failed = err
			return old
		}
		return "<!-- " + m[1] + " -->\n" + m[2] + elide(m[3], out) + m[4] + "<!-- end -->\n"
	})
	return now, failed
}

// elide gives what a command prints with those paragraphs left out for which old has "...": as many as old has before the
// first stay at the beginning, as many as it has behind the last at the end, and what stands between two is found by its
// first paragraph. If it is not there, all stays.
func elide(old, output string) string {
	const cut = "\n...\n\n"
	parts := strings.Split(old, cut)
	rest := strings.SplitAfter(output, "\n\n")
	var now []string
	for i, part := range parts {
		want := strings.SplitAfter(part, "\n\n")
		at := 0
		switch {
		case i == 0:
		case i == len(parts)-1:
			at = len(rest) - len(want)
		default:
			at = slices.Index(rest, want[0])
		}
		if len(parts) == 1 || at < 0 || at+len(want) > len(rest) {
			return output
		}
		now = append(now, strings.TrimRight(strings.Join(rest[at:at+len(want)], ""), "\n")+"\n")
		rest = rest[at+len(want):]
	}
	return strings.Join(now, cut)
}

// writesItself tells whether a command is one of elsewhere.
func writesItself(command string) bool {
	for _, p := range elsewhere {
		if strings.Contains(command+" ", " "+p+" ") {
			return true
		}
	}
	return false
}

// module is the root of the module that a file is in.
func module(path string) (string, error) {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s: there is no go.mod above it", path)
		}
	}
}
