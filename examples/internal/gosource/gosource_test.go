package gosource

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func TestLoad(t *testing.T) {
	text, err := Load(context.Background(), "", 100_000)
	require.NoError(t, err)
	require.Equal(t, 100_000, len(text.Train)+len(text.Test))
	require.Contains(t, string(text.Train), "package ")
	_, err = Load(context.Background(), t.TempDir(), 0)
	require.ErrorContains(t, err, "has no files")
}

// TestBatches: each sequence once, and a text that is too short is told what is wrong.
func TestBatches(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{})
	require.NoError(t, err)
	text, err := Load(t.Context(), "", 10_000)
	require.NoError(t, err)
	var end row.Cleanup
	epoch, err := Batches{Steps: 2, Batch: 3, Context: 8, Seed: 1}.Open(t.Context(), dev, text, &end)
	require.NoError(t, err)
	batch, err := epoch.Next()
	require.NoError(t, err)
	require.Equal(t, []int{3, 8}, batch.X.Shape())
	x, y := tensor.Data[int64](batch.X), tensor.Data[int64](batch.Y)
	require.Equal(t, x[1:8], y[:7], "the bytes that follow")
	_, err = Batches{Steps: 1000, Batch: 3, Context: 8}.Open(t.Context(), dev, text, &end)
	require.ErrorContains(t, err, "gosource: 1000 steps of batch 3: the text has only")
	end.Run(&err)
	require.NoError(t, dev.Close())
}
