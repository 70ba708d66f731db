package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/durable"
	"github.com/thimble-ml/thimble/internal/durable/durabletest"
)

// names lists a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []string
	for _, e := range list {
		all = append(all, e.Name())
	}
	return all
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, part := range strings.SplitAfter(s, " ") {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	require.NoError(t, durable.Write(durable.OS, path, text("the old one")))
	require.Equal(t, "the old one", content(t, path))
	long := strings.Repeat("long ", 100_000)
	require.NoError(t, durable.Write(durable.OS, path, text(long)))
	require.Equal(t, long, content(t, path))
	require.Equal(t, []string{"x"}, names(t, dir))
	t.Chdir(dir)
	require.NoError(t, durable.Write(durable.OS, "y", text("in the working directory")))
	require.Equal(t, []string{"x", "y"}, names(t, dir))
}

// Whatever fails, the old file stays whole, the error names it, and nothing else is left.
func TestWriteFails(t *testing.T) {
	long := strings.Repeat("new ", 100_000)
	for _, kind := range []durabletest.Kind{durabletest.Error, durabletest.Short} {
		for at := 1; ; at++ {
			dir := t.TempDir()
			path := filepath.Join(dir, "x")
			require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
			fs := durabletest.New(kind, at)
			err := durable.Write(fs, path, text(long))
			if !fs.Hit() {
				require.NoError(t, err)
				require.Greater(t, at, 2)
				break
			}
			require.ErrorContains(t, err, "write "+path+": ")
			require.Equal(t, []string{"x"}, names(t, dir))
			if fs.Last() == "syncdir" { // the new name is there, but may not outlast a power cut
				require.Equal(t, long, content(t, path))
			} else {
				require.Equal(t, "old", content(t, path))
			}
		}
	}
	mine, dir := errors.New("mine"), t.TempDir()
	path := filepath.Join(dir, "x")
	require.ErrorIs(t, durable.Write(durable.OS, path, func(io.Writer) error { return mine }), mine)
	require.PanicsWithValue(t, "boom", func() { _ = durable.Write(durable.OS, path, func(io.Writer) error { panic("boom") }) })
	require.Empty(t, names(t, dir))
	require.ErrorContains(t, durable.Write(durable.OS, filepath.Join(dir, "no", "x"), text("")), filepath.Join("no", "x"))
	require.ErrorContains(t, durable.Write(durable.OS, dir+"/", text("")), "want the name of a file")
	require.NoError(t, os.Mkdir(path, 0o700))
	require.ErrorContains(t, durable.Write(durable.OS, path, text("")), path)
	require.Equal(t, []string{"x"}, names(t, dir))
}

// A process that is gone in the middle leaves the old file or the new one, and a temporary file at most, which the next
// Write removes. Files of other names stay.
func TestWriteDies(t *testing.T) {
	long := strings.Repeat("new ", 100_000)
	for at := 1; ; at++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "x")
		for _, name := range []string{"x", ".y.0123abcd.tmp", ".x.0123abcg.tmp", ".x.tmp", "x.0123abcd.tmp"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600))
		}
		fs := durabletest.New(durabletest.Death, at)
		err := durable.Write(fs, path, text(long))
		if !fs.Hit() {
			require.NoError(t, err)
			break
		}
		require.Error(t, err)
		require.Contains(t, []string{"old", long}, content(t, path))
		require.LessOrEqual(t, len(names(t, dir)), 6)
		require.NoError(t, durable.Write(durable.OS, path, text("next")))
		require.Equal(t, []string{".x.0123abcg.tmp", ".x.tmp", ".y.0123abcd.tmp", "x", "x.0123abcd.tmp"}, names(t, dir))
	}
}
