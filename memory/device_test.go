package memory_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/memory"
)

func TestNewDeviceChecks(t *testing.T) {
	for want, c := range map[string]memory.Config{
		"memory: Config.Limit is -1 bytes: want 0 (no limit) or more":                                                 {Limit: -1},
		"memory: Config.Reserve is -5 bytes: want 0 (the default) or more":                                            {Reserve: -5},
		"memory: Config.Reserve of 9 bytes is below Config.Limit of 10 bytes: want at least the limit":                {Reserve: 9, Limit: 10},
		"memory: Config.Reserve of 9223372036854775807 and Config.Limit of 0 bytes: want at most 4611686018427387904": {Reserve: math.MaxInt64},
	} {
		d, err := memory.NewDevice(c)
		require.EqualError(t, err, want)
		require.Nil(t, d)
	}
	d := newDevice(t, memory.Config{})
	require.Equal(t, "cpu", d.Name())
	require.False(t, d.Virtual())
	require.Equal(t, "gpu", newDevice(t, memory.Config{Name: "gpu", Virtual: true}).Name())
}

func TestAllocChecks(t *testing.T) {
	d := newDevice(t, memory.Config{})
	at := memory.Site{Op: "linear", Scope: "gpt"}
	before := d.Stats()
	_, err := d.Alloc(-1, memory.Param, at)
	require.EqualError(t, err, "memory: cpu: alloc of -1 bytes by linear in gpt: want 0 or more")
	_, err = d.Alloc(1, 10, at)
	require.EqualError(t, err, "memory: cpu: alloc of 1 bytes by linear in gpt: kind(10) is not a kind")
	require.Equal(t, before, d.Stats())
	require.NoError(t, d.Close())
	_, err = d.Alloc(1, memory.Param, at)
	require.EqualError(t, err, "memory: cpu: alloc of 1 bytes by linear in gpt: the device is closed")

	_, ok := d.TryAlloc(1, memory.Param, at)
	require.False(t, ok)
	require.EqualValues(t, 1, d.Stats().Refused)
}

// Sizes near the end of int64 neither wrap around nor cost anything.
func TestHugeVirtual(t *testing.T) {
	d := newDevice(t, memory.Config{Virtual: true})
	var bufs []*memory.Buffer
	for range 4 {
		b, err := d.Alloc(1<<60-64, memory.Param, memory.Site{})
		require.NoError(t, err)
		bufs = append(bufs, b)
	}
	require.Equal(t, int64(4*(1<<60-64)), d.Stats().Live)
	for _, n := range []int64{1 << 60, 1 << 62, math.MaxInt64 - 63, math.MaxInt64} {
		_, err := d.Alloc(n, memory.Param, memory.Site{})
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
		require.Contains(t, err.Error(), "raise Config.Reserve; most of it is param")
	}
	_, err := d.Alloc(256, memory.Param, memory.Site{})
	require.NoError(t, err, "the last bytes")
	bufs[1].Release()
	_, err = d.Alloc(1<<59, memory.Param, memory.Site{})
	require.NoError(t, err)
	require.EqualValues(t, d.Stats().Live, d.Stats().AllocBytes-d.Stats().FreeBytes)
}

func TestFailAt(t *testing.T) {
	d := newDevice(t, memory.Config{})
	try := func() error {
		b, err := d.Alloc(64, memory.Scratch, memory.Site{Op: "matmul", Scope: "mlp"})
		if err == nil {
			b.Release()
		}
		return err
	}
	d.FailAt(3)
	require.NoError(t, try())
	b, ok := d.TryAlloc(64, memory.Staging, memory.Site{})
	require.True(t, ok, "optional memory does not count")
	b.Release()
	require.NoError(t, try())
	before := d.Stats()
	err := try()
	require.EqualError(t, err, "memory: cpu: out of memory: matmul in mlp asked for 64 bytes of scratch: failure injected by FailAt")
	var oom *memory.OOMError
	require.True(t, errors.As(err, &oom) && oom.Injected)
	before.Failed++
	require.Equal(t, before, d.Stats(), "law 6")
	require.NoError(t, try(), "once")

	d.FailAt(1)
	d.FailAt(0)
	require.NoError(t, try())
}

func TestCloseNamesLeaks(t *testing.T) {
	d := newDevice(t, memory.Config{})
	var bufs []*memory.Buffer
	for i := range int64(7) {
		b, err := d.Alloc(i*1000, memory.Activation, memory.Site{Op: "relu", Scope: "mlp"})
		require.NoError(t, err)
		bufs = append(bufs, b)
	}
	bufs[6].Retain()
	require.EqualError(t, d.Close(), `memory: cpu: buffers still alive at Close: 7, 20.5 KiB (21000 bytes); the mapping stays until they are released and Close is called again:
  6000 bytes of activation made by relu in mlp (references: 2)
  5000 bytes of activation made by relu in mlp (references: 1)
  4000 bytes of activation made by relu in mlp (references: 1)
  3000 bytes of activation made by relu in mlp (references: 1)
  2000 bytes of activation made by relu in mlp (references: 1)
  and 2 more`)
	_, err := d.Alloc(1, memory.Other, memory.Site{})
	require.ErrorContains(t, err, "closed")
	copy(bufs[1].Bytes(), "still there")

	bufs[6].Release()
	for _, b := range bufs {
		b.Release()
	}
	require.NoError(t, d.Close())
	require.NoError(t, d.Close(), "twice is fine")
	require.Zero(t, d.Stats().Reserved)
	require.Zero(t, d.Trim())
}

func TestHoldersByAddress(t *testing.T) {
	d := newDevice(t, memory.Config{Virtual: true})
	var bufs []*memory.Buffer
	for range 3 {
		b, err := d.Alloc(64, memory.Param, memory.Site{Op: "a"})
		require.NoError(t, err)
		bufs = append(bufs, b)
	}
	bufs[0].Release()
	b, err := d.Alloc(10, memory.Grad, memory.Site{Op: "b"})
	require.NoError(t, err)
	b.Retain()
	require.Equal(t, []memory.Holder{
		{ID: 4, Addr: 0, Bytes: 10, Kind: memory.Grad, Site: memory.Site{Op: "b"}, Refs: 2},
		{ID: 2, Addr: 64, Bytes: 64, Kind: memory.Param, Site: memory.Site{Op: "a"}, Refs: 1},
		{ID: 3, Addr: 128, Bytes: 64, Kind: memory.Param, Site: memory.Site{Op: "a"}, Refs: 1},
	}, d.Holders())
}
