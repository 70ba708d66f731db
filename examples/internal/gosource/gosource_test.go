package gosource

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoad(t *testing.T) {
	text, err := Load(context.Background(), "", 100_000)
	require.NoError(t, err)
	require.Equal(t, 100_000, len(text.Train)+len(text.Test))
	require.Contains(t, string(text.Train), "package ")
	_, err = Load(context.Background(), t.TempDir(), 0)
	require.ErrorContains(t, err, "has no files")
}
