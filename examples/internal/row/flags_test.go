package row

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// flagsOf are some flags of all kinds.
func flagsOf(errw *bytes.Buffer) (f *Flags, batch *int) {
	f = NewFlags("demo", errw)
	var dim, threads int
	var json bool
	var lr float64
	var model, chart string
	var seed uint64
	batch = new(int)
	f.Int(batch, "batch", 4, 1, "images an update")
	f.Multiple(&dim, "dim", 64, 4, "channels")
	f.Positive(&lr, "lr", 1e-3, "learning rate")
	f.OneOf(&model, "model", "", []string{"mlp", "vit"}, "what is trained")
	f.Chart(&chart, "")
	f.Run(&seed, "weights", &threads)
	f.JSON(&json)
	return f, batch
}

func TestFlags(t *testing.T) {
	var errw bytes.Buffer
	f, batch := flagsOf(&errw)
	require.NoError(t, f.Parse([]string{"-batch", "8", "-json", "-model", "vit"}))
	require.Equal(t, 8, *batch)
	require.Empty(t, errw.String())
}

// TestFlagErrors: each says once what was given and what is wanted.
func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ flag, value, text string }{
		{"batch", "0", "demo: -batch 0: want 1 or more"},
		{"batch", "x", `demo: invalid value "x" for flag -batch: parse error: see -help`},
		{"dim", "6", "demo: -dim 6: want a multiple of 4"},
		{"dim", "0", "demo: -dim 0: want a multiple of 4"},
		{"lr", "NaN", "demo: -lr NaN: want more than 0"},
		{"lr", "0", "demo: -lr 0: want more than 0"},
		{"model", "gpt", `demo: -model "gpt": want one of mlp, vit`},
		{"threads", "-1", "demo: -threads -1: want 0 or more"},
		{"speed", "1", "demo: flag provided but not defined: -speed: see -help"},
		{"chart", "/dev", "demo: -chart /dev: it is a folder: name a file that can be written, or none with -chart="},
		{"chart", "no/such.png", "demo: -chart no/such.png: no such file or directory: name a file that can be written, or none with -chart="},
	} {
		var errw bytes.Buffer
		f, _ := flagsOf(&errw)
		require.EqualError(t, f.Parse([]string{"-" + c.flag, c.value}), c.text)
		require.Empty(t, errw.String())
	}
	f, _ := flagsOf(&bytes.Buffer{})
	require.EqualError(t, f.Parse([]string{"-json", "fast"}), `demo: argument "fast": want flags only, see -help`)
}

func TestFlagHelp(t *testing.T) {
	var errw bytes.Buffer
	f, _ := flagsOf(&errw)
	require.ErrorIs(t, f.Parse([]string{"-help"}), flag.ErrHelp)
	for _, text := range []string{"usage: go run ./examples/demo [flags]\n\n", "channels, a multiple of 4 (default 64)", "what is trained: mlp, vit"} {
		require.Contains(t, errw.String(), text)
	}
}

// TestFileFlag: to ask whether a file can be written changes nothing.
func TestFileFlag(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	require.NoError(t, os.WriteFile(there, []byte("text"), 0o600))
	for _, path := range []string{there, filepath.Join(dir, "new")} {
		f, _ := flagsOf(&bytes.Buffer{})
		require.NoError(t, f.Parse([]string{"-chart", path}))
	}
	text, err := os.ReadFile(there)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 1)
}
