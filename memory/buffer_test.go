package memory_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/memory"
)

func TestBufferCounts(t *testing.T) {
	d := newDevice(t, memory.Config{})
	at := memory.Site{Op: "linear", Scope: "gpt/blocks.3"}
	b, err := d.Alloc(100, memory.Temporary, at)
	require.NoError(t, err)
	require.EqualValues(t, 100, b.Size())
	require.EqualValues(t, 1, b.ID())
	require.Equal(t, memory.Temporary, b.Kind())
	require.Equal(t, at, b.Site())
	require.Same(t, d, b.Device())
	require.False(t, b.Virtual())
	require.Len(t, b.Bytes(), 100)
	require.Equal(t, 100, cap(b.Bytes()), "an append must not run into the neighbour")

	require.Same(t, b, b.Retain())
	require.Equal(t, 2, b.Refs())
	b.Release()
	require.Equal(t, 1, d.Stats().Buffers)
	b.Bump()
	b.Bump()
	require.EqualValues(t, 2, b.Version())
	b.Release()
	require.Zero(t, b.Refs())
	require.Zero(t, d.Stats().Buffers)
}

func TestBytesAreAligned(t *testing.T) {
	d := newDevice(t, memory.Config{})
	for _, n := range []int64{1, 63, 64, 65, 4097, 0, 3} {
		b, err := d.Alloc(n, memory.Other, memory.Site{})
		require.NoError(t, err)
		require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b.Bytes())))%64)
		require.NotNil(t, b.Bytes())
		require.Len(t, b.Bytes(), int(n))
	}
}

// Law 5: every use after the end panics and names the maker, whatever lies there now.
func TestUseAfterRelease(t *testing.T) {
	d := newDevice(t, memory.Config{Name: "host"})
	b, err := d.Alloc(100, memory.Grad, memory.Site{Op: "linear", Scope: "gpt/blocks.3"})
	require.NoError(t, err)
	b.Release()
	again, err := d.Alloc(100, memory.Grad, memory.Site{Op: "relu"})
	require.NoError(t, err)
	require.Equal(t, b.Addr(), again.Addr())

	const tail = " a released buffer: 100 bytes of grad made by linear in gpt/blocks.3"
	for what, f := range map[string]func(){
		"release of":  b.Release,
		"retain of":   func() { b.Retain() },
		"bytes of":    func() { b.Bytes() },
		"bump of":     b.Bump,
		"setkind of":  func() { b.SetKind(memory.Param) },
		"describe of": func() { b.Describe("", "") },
		"setsite of":  func() { b.SetSite(memory.Site{}) },
	} {
		require.PanicsWithValue(t, "memory: host: "+what+tail, f)
	}
	require.Equal(t, 1, again.Refs())
}

func TestSetKindUnknown(t *testing.T) {
	d := newDevice(t, memory.Config{})
	b, err := d.Alloc(1, memory.Grad, memory.Site{Op: "linear"})
	require.NoError(t, err)
	require.PanicsWithValue(t, "memory: setkind of a buffer made by linear: kind(10) is not a kind", func() { b.SetKind(10) })
	before := d.Stats()
	b.SetKind(memory.Grad)
	require.Equal(t, before, d.Stats(), "the same kind is no event")
}

func TestKinds(t *testing.T) {
	var names []string
	for _, k := range memory.Kinds() {
		names = append(names, k.String())
	}
	require.Equal(t, []string{"param", "grad", "optstate", "activation", "temporary", "scratch", "input", "staging", "castcopy", "other"}, names)
	require.Equal(t, memory.NumKinds, len(names))
	require.Equal(t, "kind(77)", memory.Kind(77).String())
}
