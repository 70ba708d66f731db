package data_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
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
	for n, want := range map[int]int{1: 9, 3: 3, 4: 2, 9: 1} {
		ds, err := data.Sequences(b, n)
		require.NoError(t, err)
		require.Equal(t, want, ds.Len())
	}
	ds, err := data.Sequences(b, 3)
	require.NoError(t, err)
	require.Equal(t, []tensor.Spec{tensor.Of(tensor.Int64, 3), tensor.Of(tensor.Int64, 3)}, ds.Fields())
	dev, err := memory.NewDevice(memory.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.Close()) }()
	l, err := data.NewLoader(dev, ds, data.LoaderConfig{Batch: 2, Sampler: func(int) []int32 { return []int32{2, 0} }})
	require.NoError(t, err)
	for batch, err := range l.Epoch(t.Context(), 0) {
		require.NoError(t, err)
		require.Equal(t, []int64{'g', 'h', 'i', 'a', 'b', 'c'}, tensor.Data[int64](batch.X))
		require.Equal(t, []int64{'h', 'i', 'j', 'b', 'c', 'd'}, tensor.Data[int64](batch.Y))
	}
	_, err = data.Sequences(b, 10)
	require.ErrorContains(t, err, "a text of 10 bytes has none: want 11 or more")
	_, err = data.Sequences(b, 0)
	require.ErrorContains(t, err, "want 1 or more")
}
