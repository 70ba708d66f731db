package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocs: what commands have printed into the documentation is what they print now, in every markdown file. Blocks of
// examples are left to their own tests, which have run them anyway.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs commands")
	}
	checked := func(command string) bool { return writesItself(command) || strings.Contains(command, " ./examples/") }
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	ran := 0
	for _, path := range append(files, "../../README.md") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if isProgram(string(text)) { // TestFromScratch
			continue
		}
		var out bytes.Buffer
		require.NoError(t, file(path, string(text), false, &out, func(command string) bool {
			skip := checked(command)
			if !skip {
				ran++
			}
			return skip
		}))
	}
	require.Greater(t, ran, 10, "the blocks are found")
}

// TestBlocks: a command's output takes the place of the old one, within its fence, and the rest stays.
func TestBlocks(t *testing.T) {
	text := "a\n<!-- go run ./internal/doctest/testdata/hello -->\n```\n$ hello\nold\n```\n<!-- end -->\nb\n<!-- go run ./internal/bench -->\n| x |\n<!-- end -->\n"
	now, err := blocks("../..", text, writesItself)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(text, "old\n", "hello\n\nworld\n", 1), now)
	_, err = blocks("../..", "<!-- go run ./nowhere -->\n<!-- end -->\n", writesItself)
	require.ErrorContains(t, err, "go run ./nowhere")
}

// TestStale: a file whose bytes differ is told, with the lines; one whose times differ is not, and -update writes it.
func TestStale(t *testing.T) {
	table := func(peak, ms string) string {
		return "title; amd64, avx2 kernels\n\nname      peak  ms/step  of base\n----  --------  -------  -------\na     " + peak + "  " + ms + "    50.0%\n\n[1] note\n"
	}
	require.Empty(t, difference(mask(table("1.00 MiB", "  12.34")), mask(table("1.00 MiB", "1012.34"))))
	require.Equal(t, "- a 1.00 MiB 50.0%\n+ a 2.00 MiB 50.0%\n", difference(mask(table("1.00 MiB", "  12.34")), mask(table("2.00 MiB", "  12.34"))))

	path := filepath.Join(t.TempDir(), "x.md")
	require.NoError(t, os.WriteFile(path, []byte("<!-- go run ./internal/doctest/testdata/hello -->\nold\n<!-- end -->\n"), 0o600))
	require.ErrorContains(t, doctest([]string{path}, &bytes.Buffer{}, &bytes.Buffer{}), "there is no go.mod above it")
	require.ErrorContains(t, doctest(nil, &bytes.Buffer{}, &bytes.Buffer{}), "want markdown files")
	require.ErrorIs(t, doctest([]string{path + "x"}, &bytes.Buffer{}, &bytes.Buffer{}), os.ErrNotExist)
}

// TestElide: paragraphs that the text leaves out stay out.
func TestElide(t *testing.T) {
	old := "title\n\ntable\n\n...\n\nnotes\n\nend\n"
	require.Equal(t, "Title\n\nTable\n\n...\n\nNotes\n\nEnd\n", elide(old, "Title\n\nTable\n\nkinds\n\nmore\n\nNotes\n\nEnd\n"))
	require.Equal(t, "Title\n\nEnd\n", elide("title\n\nend\n", "Title\n\nEnd\n"))
	require.Equal(t, "a\n\nb\n", elide(old, "a\n\nb\n"))
	old = "title\n\n...\n\nsecond:\n\nold\n\n...\n\nend\n"
	require.Equal(t, "Title\n\n...\n\nsecond:\n\nnew\n\n...\n\nEnd\n", elide(old, "Title\n\nkinds\n\nsecond:\n\nnew\n\nkinds\n\nnotes\n\nEnd\n"))
	require.Equal(t, "Title\n\nthird:\n\nnew\n\nkinds\n\nEnd\n", elide(old, "Title\n\nthird:\n\nnew\n\nkinds\n\nEnd\n"))
}

// TestQuotes: what a text quotes must be there.
func TestQuotes(t *testing.T) {
	require.NoError(t, quotes("../../docs/x.md", "> Thimble trains neural networks in Go ([design.md](design.md))\n"))
	require.ErrorContains(t, quotes("../../docs/x.md", "> Thimble flies ([design.md](design.md#top))\n"), `"Thimble flies" is not in design.md`)
	require.ErrorIs(t, quotes("x.md", "> a ([b](none.md))\n"), os.ErrNotExist)
}

// TestCommandsExist: every program that the documentation has the reader run is there.
func TestCommandsExist(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	command := regexp.MustCompile(`go (?:run|test|generate) (?:-\w+ )*\./([\w/]+)`)
	seen := 0
	for _, path := range append(files, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			seen++
			require.DirExists(t, filepath.Join("../..", m[1]), "%s: %s", path, m[0])
		}
	}
	require.Greater(t, seen, 30)
}
