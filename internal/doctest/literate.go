package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// fence is a fenced block of a markdown text: its language and lines.
var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```\n")

// program gives the Go blocks of a literate program, one after the other.
func program(text string) string {
	var b strings.Builder
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if m[1] == "go" {
			b.WriteString(m[2] + "\n")
		}
	}
	return b.String()
}

// runProgram compiles and runs a literate program in a module of its own, which has no dependencies, and gives what it
// prints.
func runProgram(text string) (string, error) {
	dir, err := os.MkdirTemp("", "thimble-doctest-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for name, content := range map[string]string{"main.go": program(text), "go.mod": "module scratch\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return "", err
		}
	}
	var out, errw bytes.Buffer
	for _, args := range [][]string{{"vet", "."}, {"run", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errw
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("doctest: go %s: %w\n%s", args[0], err, errw.String())
		}
	}
	return out.String(), nil
}

// section is where the output of one section of a literate program begins: "3. lifetimes".
var section = regexp.MustCompile(`(?m)^\d+\. `)

// filled is a literate program with its text blocks replaced by what its sections print, in order.
func filled(text, output string) (string, error) {
	var parts []string
	at := section.FindAllStringIndex(output, -1)
	for i, m := range at {
		end := len(output)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		parts = append(parts, output[m[0]:end])
	}
	n := 0
	text = fence.ReplaceAllStringFunc(text, func(block string) string {
		if !strings.HasPrefix(block, "```text\n") {
			return block
		}
		if n++; n > len(parts) {
			return block
		}
		return "```text\n" + parts[n-1] + "```\n"
	})
	if n != len(parts) {
		return "", fmt.Errorf("doctest: the program prints %d sections: want %d, one for each text block", len(parts), n)
	}
	return text, nil
}

// isProgram tells whether a file is a literate program.
func isProgram(text string) bool { return strings.Contains(text, "```go\npackage main\n") }
