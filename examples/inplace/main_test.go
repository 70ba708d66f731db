package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
)

// TestSameLoss: what is written over changes no bit of the loss, and lowers the peak that was predicted to the byte.
func TestSameLoss(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, inplace(context.Background(), []string{"-json", "-steps", "1", "-batch", "4096", "-hidden", "128"}, &out, &errw), "%s", errw.String())
	_, err := row.ReadJSON(bytes.NewReader(out.Bytes()))
	require.NoError(t, err)
	var rows []figures
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, 3)
	for i, f := range rows {
		require.Equal(t, ways[i].name, f.Name)
		require.Equal(t, *f.PredictedPeak, *f.MeasuredPeak, f.Name)
		require.Equal(t, rows[0].Loss, f.Loss, f.Name)
		if i > 0 {
			require.Greater(t, f.InPlace, rows[i-1].InPlace)
			require.Less(t, f.Peak(), rows[i-1].Peak())
		}
	}
	require.Zero(t, rows[0].InPlace)
}

func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, inplace(context.Background(), []string{"-steps", "1", "-batch", "32", "-hidden", "8"}, &out, &errw))
	for _, text := range []string{"two hidden layers of 8, 32 images an update", "in place", "written over instead of allocated", "relu_", "dropout_", "relu_'"} {
		require.Contains(t, out.String(), text)
	}
}

func TestRefused(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, inplace(context.Background(), []string{"-refused"}, &out, &out))
	require.Equal(t, len(refused), strings.Count(out.String(), "Told "))
	require.Contains(t, out.String(), "modified by an inplace operation")
	require.Contains(t, out.String(), "a leaf that requires grad")
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"-steps", "0"}, "steps 0"},
		{[]string{"fast"}, `argument "fast"`},
		{[]string{"-steps", "1000"}, "1000 steps of 4096 images: the training set has 60000"},
	} {
		var out bytes.Buffer
		require.ErrorContains(t, inplace(context.Background(), c.args, &out, &out), c.text)
	}
}
