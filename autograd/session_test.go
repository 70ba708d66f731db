package autograd_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
)

// TestNewMisuse: New says which field is wrong, and what it wants.
func TestNewMisuse(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{})
	require.NoError(t, err)
	for text, cfg := range map[string]autograd.Config{
		"Config.Device is nil: want a device from memory.NewDevice":                   {},
		"Config.Workers is -1: want 0 (GOMAXPROCS) to 4095":                           {Device: dev, Workers: -1},
		"Config.Workers is 4096: want 0 (GOMAXPROCS) to 4095":                         {Device: dev, Workers: 4096},
		fmt.Sprintf("Config.Lanes is -1: want 0 (%d) or more", autograd.DefaultLanes): {Device: dev, Lanes: -1},
	} {
		_, err := autograd.New(cfg)
		require.EqualError(t, err, "autograd: "+text)
	}
	require.NoError(t, dev.Close())
}
