package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
)

// TestDocs: the arenas that docs/design.md names are those of the defaults.
func TestDocs(t *testing.T) {
	o, err := parse(nil, &bytes.Buffer{})
	require.NoError(t, err)
	mib := map[string]any{}
	for _, name := range row.Names(tierRows) {
		arena, err := o.predict(name)
		require.NoError(t, err)
		mib[name] = fmt.Sprintf("%.1f", float64(arena)/(1<<20))
	}
	text, err := os.ReadFile("../../docs/design.md")
	require.NoError(t, err)
	want := fmt.Sprintf("arena %s MiB plain, %s with activations on disk, %s with the optimizer's state, %s with parameters and gradients, %s (a ninth) with all of it",
		mib[none], mib["activations-disk"], mib["optimizer-disk"], mib["parameters-disk"], mib["all-disk"])
	require.True(t, strings.Contains(strings.Join(strings.Fields(string(text)), " "), want), "docs/design.md is stale: want %s", want)
}
