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
	require.Equal(t, "go", f.Kernel)
	require.Subset(t, f.CPU, f.Used, "what is used must be there")
	require.Contains(t, f.String(), f.Arch+", go kernels")
}
