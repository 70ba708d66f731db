//go:build long

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// SGD with a cosine is within two points of AdamW where weights are good already, and far from it where they are not.
func TestWithinTwoPoints(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, finetune(context.Background(), []string{"-json", "-chart", ""}, &out, &errw), "%s", errw.String())
	var rows []figures
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	var accuracy []float64
	for _, f := range rows {
		a, ok := f.Accuracy.Value()
		require.True(t, ok)
		accuracy = append(accuracy, a)
	}
	require.Greater(t, accuracy[2], accuracy[1]-0.02)
	require.Greater(t, accuracy[2], accuracy[3]+0.02)
}
