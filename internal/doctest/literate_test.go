package main

import (
	"go/format"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const scratch = "../../docs/from-scratch.md"

// TestFromScratch: the literate program compiles, its output is what stands in the text, and it is formatted.
func TestFromScratch(t *testing.T) {
	text, err := os.ReadFile(scratch)
	require.NoError(t, err)
	source := program(string(text))
	formatted, err := format.Source([]byte(source))
	require.NoError(t, err)
	require.Empty(t, difference(strings.TrimSpace(source), strings.TrimSpace(string(formatted))), "gofmt")
	output, err := runProgram(string(text))
	require.NoError(t, err)
	now, err := filled(string(text), output)
	require.NoError(t, err)
	require.Empty(t, difference(string(text), now), "run go run ./internal/doctest -update docs/from-scratch.md")
}

// TestFilled: each section's output goes to its block, and their numbers must agree.
func TestFilled(t *testing.T) {
	text := "```go\npackage main\n```\na\n```text\nold\n```\nb\n```text\n```\n```sh\nx\n```\n"
	now, err := filled(text, "1. one\nx\n2. two\n")
	require.NoError(t, err)
	require.Equal(t, "```go\npackage main\n```\na\n```text\n1. one\nx\n```\nb\n```text\n2. two\n```\n```sh\nx\n```\n", now)
	_, err = filled(text, "1. one\n")
	require.ErrorContains(t, err, "prints 1 sections")
	_, err = runProgram("```go\npackage main\n\nfunc main() { missing() }\n```\n")
	require.ErrorContains(t, err, "undefined: missing")
}
