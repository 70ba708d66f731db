package thimble_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble"
)

func TestFeatures(t *testing.T) {
	f := thimble.Features()
	require.Equal(t, runtime.GOARCH, f.Arch)
	require.Contains(t, []string{"go", "avx2"}, f.Kernel)
	require.Equal(t, f.Kernel == "go", len(f.Used) == 0, "plain Go uses nothing beyond the base level")
	require.Subset(t, f.CPU, f.Used, "what is used must be there")
	require.Contains(t, f.String(), f.Arch+", "+f.Kernel+" kernels")
}
