package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/mnist"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func TestMain(m *testing.M) {
	row.ServeChild(run)
	os.Exit(m.Run())
}

var small = []string{"-pretrain", "128", "-images", "64", "-tests", "32", "-epochs", "2", "-dim", "16"}

// TestRows: peaks as predicted, and between the two optimizers the moments, to the byte; the table of them.
func TestRows(t *testing.T) {
	var out, errw bytes.Buffer
	chart := filepath.Join(t.TempDir(), "chart.png")
	require.NoError(t, finetune(context.Background(), append(small, "-json", "-chart", chart), &out, &errw), "%s", errw.String())
	require.FileExists(t, chart)
	_, err := row.ReadJSON(bytes.NewReader(out.Bytes())) // one array, and nothing else
	require.NoError(t, err)
	var rows []figures
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, len(ways))
	for i, f := range rows {
		require.Equal(t, ways[i].name, f.Name)
		require.Equal(t, *f.PredictedPeak, *f.MeasuredPeak, f.Name)
		require.Len(t, f.Epochs, []int{1, 2, 2, 2}[i])
		require.Equal(t, f.Epochs[len(f.Epochs)-1], f.Accuracy)
		require.Equal(t, 4, f.Steps)
	}
	adamw, sgd, alone := rows[1], rows[2], rows[3]
	require.Equal(t, 2*adamw.ByKind[0], adamw.State, "two moments a parameter")
	require.Zero(t, sgd.State)
	require.Equal(t, adamw.Peak()-adamw.State, sgd.Peak())
	require.Equal(t, sgd.Peak(), alone.Peak())
	require.NotEqual(t, sgd.Loss, alone.Loss, "the weights are others")
	require.Contains(t, errw.String(), "[3/4] sgd-cosine")

	o, err := parse(small, &errw)
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, show(&out, o, rows))
	require.Contains(t, out.String(), "128 upright digits, then 64 turned ones, 2 times")
	require.Contains(t, out.String(), "state")
	for _, line := range strings.Split(out.String(), "\n") {
		require.LessOrEqual(t, len(line), 180)
	}
}

func TestTurned(t *testing.T) {
	im := &data.Images{X: []byte{1, 2, 3, 4, 5, 6, 7, 8}, Y: []byte{0, 1}, N: 2, H: 2, W: 2, Classes: 2}
	require.Equal(t, []byte{2, 4, 1, 3, 6, 8, 5, 7}, turned(im).X)
	require.Equal(t, []byte{1, 2, 3, 4, 5, 6, 7, 8}, im.X)
	require.Equal(t, []byte{5, 6, 7, 8}, mnist.Part(im, 1, 1).X)
	require.Equal(t, []byte{1}, mnist.Part(im, 1, 1).Y)
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"-batch", "0"}, "-batch 0: want 1 or more"},
		{[]string{"-dim", "6"}, "-dim 6: want a multiple of 4"},
		{[]string{"-images", "8"}, "-images 8: want at least a batch, which is 32"},
		{[]string{"-pretrain", "60000"}, "the data has 60000 images"},
		{[]string{"-data", filepath.Join(t.TempDir(), "missing")}, "missing"},
		{[]string{"fast"}, `argument "fast"`},
	} {
		var out, errw bytes.Buffer
		require.ErrorContains(t, finetune(context.Background(), append(append([]string{"-chart", ""}, small...), c.args...), &out, &errw), c.text)
	}
}
