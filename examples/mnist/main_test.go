package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
)

// TestLearns: an epoch of 2,000 images is enough to read most digits, in the memory that was predicted.
func TestLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole training")
	}
	var out, errw bytes.Buffer
	args := []string{"-epochs", "1", "-limit", "2000", "-batch", "32", "-lr", "2e-3", "-json"}
	require.NoError(t, mnist(context.Background(), args, &out, &errw))
	_, err := row.ReadJSON(strings.NewReader("[" + out.String() + "]"))
	require.NoError(t, err)
	var f figures
	require.NoError(t, json.Unmarshal(out.Bytes(), &f))
	require.Equal(t, *f.PredictedPeak, *f.MeasuredPeak)
	require.Equal(t, *f.MeasuredPeak, f.ByKind.Sum())
	require.Equal(t, int64(206_922), f.Parameters)
	require.Equal(t, 62, f.Steps)
	require.Len(t, f.Epochs, 1)
	accuracy, ok := f.Accuracy.Value()
	require.True(t, ok)
	require.Greater(t, accuracy, 0.8)
}

// TestText: the table, the same for the same seed.
func TestText(t *testing.T) {
	text := func(args ...string) []string {
		var out, errw bytes.Buffer
		require.NoError(t, mnist(context.Background(), append(args, "-epochs", "2", "-limit", "64", "-batch", "24"), &out, &errw))
		require.Contains(t, out.String(), "206922 parameters, 24 images an update")
		require.Contains(t, out.String(), "epoch    loss  accuracy  seconds")
		require.Contains(t, out.String(), "4 updates")
		require.Contains(t, out.String(), "peak memory: predicted ")
		lines := strings.Split(out.String(), "\n")
		return []string{lines[4][:23], lines[5][:23]} // without seconds
	}
	one := text()
	require.Equal(t, one, text("-threads", "1"))
	require.NotEqual(t, one, text("-seed", "2"))
}

// TestResume: two epochs and a third are three.
func TestResume(t *testing.T) {
	table := func(args ...string) []string {
		var out, errw bytes.Buffer
		require.NoError(t, mnist(context.Background(), append(args, "-limit", "64", "-batch", "24"), &out, &errw))
		return regexp.MustCompile(`(?m)^ +\d+  \d\.\d+ +\d+\.\d+%`).FindAllString(out.String(), -1)
	}
	whole := table("-epochs", "3")
	require.Len(t, whole, 3)
	file := filepath.Join(t.TempDir(), "state")
	require.Equal(t, whole[:2], table("-epochs", "2", "-save", file))
	require.Equal(t, whole[2:], table("-epochs", "3", "-save", file, "-resume"))
	var out bytes.Buffer
	err := mnist(context.Background(), []string{"-epochs", "3", "-limit", "64", "-batch", "24", "-save", file, "-resume"}, &out, &out)
	require.ErrorContains(t, err, "has had 3 epochs: want more with -epochs")
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"-data", filepath.Join(empty, "missing")}, []string{"missing", "train-images"}},
		{[]string{"-data", empty}, []string{empty, "train-images"}},
		{[]string{"-epochs", "0"}, []string{"-epochs 0", "want 1 or more"}},
		{[]string{"-batch", "0"}, []string{"batch 0", "want 1 or more"}},
		{[]string{"-limit", "100"}, []string{"batch 128", "want at most 100"}},
		{[]string{"-limit", "-1"}, []string{"-limit -1", "want 0 or more"}},
		{[]string{"-lr", "0", "-limit", "200"}, []string{"-lr 0: want more than 0", "0"}},
		{[]string{"-resume"}, []string{"-resume without -save"}},
		{[]string{"fast"}, []string{`argument "fast"`, "-help"}},
	} {
		var out, errw bytes.Buffer
		err := mnist(context.Background(), c.args, &out, &errw)
		require.Error(t, err, "%v", c.args)
		for _, text := range c.texts {
			require.ErrorContains(t, err, text, "%v", c.args)
		}
	}
}
