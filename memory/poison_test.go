//go:build invariants

package memory_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/memory"
)

func TestPoison(t *testing.T) {
	d := newDevice(t, memory.Config{})
	for _, n := range []int{0, 1, 63, 100, 5000} {
		b, err := d.Alloc(int64(n), memory.Other, memory.Site{})
		require.NoError(t, err)
		stale := b.Bytes()
		require.Equal(t, bytes.Repeat([]byte{0xFF}, n), append([]byte{}, stale...), "before the first write")
		clear(stale)
		b.Release()
		require.Equal(t, bytes.Repeat([]byte{0xFF}, n), append([]byte{}, stale...), "after the end")
	}
}

// A dry run releases real buffers without touching what they hold.
func TestPoisonSparesDryRun(t *testing.T) {
	d := newDevice(t, memory.Config{})
	b, err := d.Alloc(4, memory.Other, memory.Site{})
	require.NoError(t, err)
	copy(b.Bytes(), "abcd")
	d.Fork()
	b.Release()
	d.Join()
	require.Equal(t, "abcd", string(b.Bytes()))
}
