package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSavedIsCurrent(t *testing.T) {
	got, err := os.ReadFile("../../docs/saved.md")
	require.NoError(t, err)
	require.Equal(t, saved(), string(got), "docs/saved.md is not what the rules say: run go generate ./ops")
}
