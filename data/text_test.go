package data_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/data"
)

func TestLoadText(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.go": "package b // 0123456789", "a/a.go": "package a // abcdefghij", "c.txt": "not this"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	tree, err := data.LoadText(dir, ".go", 0)
	require.NoError(t, err)
	require.Equal(t, "package a // abcdefghijpackage b // 0123456789", string(tree.Train)+string(tree.Test))
	require.Len(t, tree.Test, 4)

	some, err := data.LoadText(dir, ".go", 30)
	require.NoError(t, err)
	require.Equal(t, 30, len(some.Train)+len(some.Test))
	one, err := data.LoadText(filepath.Join(dir, "b.go"), "", 0)
	require.NoError(t, err)
	require.Equal(t, "package b // 0123456789", string(one.Train)+string(one.Test))

	for path, text := range map[string]string{
		filepath.Join(dir, "missing"): "want a file or a folder",
		filepath.Join(dir, "c.txt"):   "has 8 bytes: want 20 or more",
	} {
		_, err := data.LoadText(path, "", 0)
		require.ErrorContains(t, err, text)
	}
	_, err = data.LoadText(dir, ".py", 0)
	require.ErrorContains(t, err, `no files that end in ".py"`)
}

func TestSequences(t *testing.T) {
	b := []byte("abcdefghij")
	require.Equal(t, 3, data.Windows(b, 3))
	require.Equal(t, 2, data.Windows(b, 4))
	require.Zero(t, data.Windows(nil, 4))
	x, y := make([]int64, 6), make([]int64, 6)
	require.NoError(t, data.Sequences(b, 3, []int32{2, 0}, x, y))
	require.Equal(t, []int64{'g', 'h', 'i', 'a', 'b', 'c'}, x)
	require.Equal(t, []int64{'h', 'i', 'j', 'b', 'c', 'd'}, y)
	require.ErrorContains(t, data.Sequences(b, 3, []int32{3}, x[:3], y[:3]), "sequence 3: want 0 to 2")
	require.ErrorContains(t, data.Sequences(b, 3, []int32{0}, x, y[:3]), "want 3")
	require.ErrorContains(t, data.Sequences(b, 0, nil, nil, nil), "want 1 or more")
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = data.Sequences(b, 3, []int32{2, 0}, x, y) }))
}
