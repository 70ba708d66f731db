package memory_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/memory"
)

func TestOOMText(t *testing.T) {
	d := newDevice(t, memory.Config{Limit: 1 << 20, Virtual: true})
	_, err := d.Alloc(200<<10, memory.Param, memory.Site{Op: "weight", Scope: "gpt"})
	require.NoError(t, err)
	for i := range 6 {
		_, err := d.Alloc(100<<10, memory.Activation, memory.Site{Op: "linear", Scope: fmt.Sprintf("gpt/blocks.%d", i)})
		require.NoError(t, err)
	}
	_, err = d.Alloc(3<<20, memory.Temporary, memory.Site{Op: "matmul", Scope: "gpt/blocks.6"})
	require.EqualError(t, err, `memory: cpu: out of memory: matmul in gpt/blocks.6 asked for 3.0 MiB (3145728 bytes) of temporary: over Limit 1.0 MiB (1048576 bytes)
  live 800.0 KiB (819200 bytes), arena 800.0 KiB (819200 bytes)
  by kind: activation 600.0 KiB, param 200.0 KiB
  by scope: gpt 200.0 KiB, gpt/blocks.0 100.0 KiB, gpt/blocks.1 100.0 KiB, gpt/blocks.2 100.0 KiB, 3 more
  try: raise Limit; most of it is temporary: a smaller batch or more micro-batches (train.Window), or free temporaries earlier (Scope.Do, Scope.Free)`)

	_, err = d.Alloc(300<<10, memory.Temporary, memory.Site{})
	require.ErrorContains(t, err, "most of it is activation: a smaller batch or more micro-batches (train.Window), or move what backward reads to host memory or disk (offload)")

	var oom *memory.OOMError
	require.ErrorAs(t, fmt.Errorf("autograd: %w", err), &oom)
	require.EqualValues(t, 300<<10, oom.Asked)
	require.Equal(t, []memory.Holding{{Name: "activation", Bytes: 600 << 10, Buffers: 6}, {Name: "param", Bytes: 200 << 10, Buffers: 1}}, oom.ByKind)
	require.Len(t, oom.ByScope, 7)
	require.EqualValues(t, 2, d.Stats().Failed)
}

// When holes add up to what was asked, the text says that Trim is no help.
func TestOOMScattered(t *testing.T) {
	d := newDevice(t, memory.Config{Limit: 64 << 10, Virtual: true})
	var bufs []*memory.Buffer
	for range 64 {
		b, err := d.Alloc(1<<10, memory.Activation, memory.Site{Op: "relu"})
		require.NoError(t, err)
		bufs = append(bufs, b)
	}
	for i := 0; i < len(bufs); i += 2 {
		bufs[i].Release()
	}
	_, err := d.Alloc(4<<10, memory.Activation, memory.Site{Op: "relu"})
	require.EqualError(t, err, `memory: cpu: out of memory: relu asked for 4.0 KiB (4096 bytes) of activation: over Limit 64.0 KiB (65536 bytes)
  live 32.0 KiB (32768 bytes), arena 64.0 KiB (65536 bytes), of which 32.0 KiB free in 32 holes, the largest 1.0 KiB
  by kind: activation 32.0 KiB
  by scope: (no scope) 32.0 KiB
  try: what is free would do, but lies scattered, and Trim moves nothing: allocate first what lives longest; raise Limit; most of it is activation: a smaller batch or more micro-batches (train.Window), or move what backward reads to host memory or disk (offload)`)
	_, err = d.Alloc(33<<10, memory.Activation, memory.Site{Op: "relu"})
	require.NotContains(t, err.Error(), "scattered")
}

func TestOOMAddressSpace(t *testing.T) {
	d := newDevice(t, memory.Config{Reserve: 1 << 20})
	_, err := d.Alloc(2<<20, memory.OptState, memory.Site{Op: "adamw"})
	require.EqualError(t, err, `memory: cpu: out of memory: adamw asked for 2.0 MiB (2097152 bytes) of optstate: over the address space of 1.0 MiB (1048576 bytes)
  live 0 bytes, arena 0 bytes
  try: raise Config.Reserve; most of it is optstate: an optimizer with less state (SGD, Adafactor), or its state in host memory or on disk (Store of its config, offload)`)
}

// What the system said is found through the error.
func TestOOMSystem(t *testing.T) {
	err := error(&memory.OOMError{Device: "cpu", Asked: 10, Err: syscall.ENOMEM})
	require.True(t, errors.Is(err, syscall.ENOMEM))
	require.Contains(t, err.Error(), "the system refused: "+syscall.ENOMEM.Error())
	require.NotContains(t, err.Error(), "raise")
}

// A limit holds to the byte, holes and rounding included.
func TestLimitExact(t *testing.T) {
	d := newDevice(t, memory.Config{Limit: 256})
	a, err := d.Alloc(65, memory.Other, memory.Site{})
	require.NoError(t, err)
	b, ok := d.TryAlloc(128, memory.Other, memory.Site{})
	require.True(t, ok)
	_, ok = d.TryAlloc(0, memory.Other, memory.Site{})
	require.False(t, ok)
	_, err = d.Alloc(1, memory.Other, memory.Site{})
	require.Error(t, err)
	s := d.Stats()
	require.Equal(t, [2]uint64{1, 1}, [2]uint64{s.Refused, s.Failed})
	a.Release()
	c, err := d.Alloc(128, memory.Other, memory.Site{})
	require.NoError(t, err)
	b.Release()
	c.Release()
	require.NoError(t, d.Close())
}
