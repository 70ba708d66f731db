package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/memory"
)

func TestEvents(t *testing.T) {
	var got []memory.Event
	at := memory.Site{Op: "linear", Scope: "gpt"}
	d := newDevice(t, memory.Config{Virtual: true, Trace: func(e memory.Event) { got = append(got, e) }})
	require.True(t, d.Tracing())
	d.Mark("forward")
	b, err := d.Alloc(100, memory.Temporary, at)
	require.NoError(t, err)
	b.Describe("uint8[100]", "input of matmul")
	b.SetKind(memory.Activation)
	b.Retain().Release()
	require.EqualValues(t, 1, d.Begin(memory.Site{Op: "matmul'"}))
	named := memory.Site{Op: "linear", Scope: "gpt/head"}
	b.SetSite(named)
	d.Mark("backward")
	b.Release()
	by := memory.Site{Op: "matmul'"}
	require.Equal(t, []memory.Event{
		{Seq: 1, Act: memory.Mark, Phase: "forward"},
		{Seq: 2, ID: 1, Act: memory.Alloc, Bytes: 100, Live: 100, Arena: 128, Kind: memory.Temporary, Site: at, Phase: "forward"},
		{Seq: 3, ID: 1, Act: memory.Describe, Bytes: 100, Live: 100, Arena: 128, Kind: memory.Temporary, Site: at, Spec: "uint8[100]", Why: "input of matmul", Phase: "forward"},
		{Seq: 4, ID: 1, Act: memory.SetKind, Bytes: 100, Live: 100, Arena: 128, Kind: memory.Activation, Site: at, Spec: "uint8[100]", Why: "input of matmul", Phase: "forward"},
		{Seq: 5, ID: 1, Act: memory.Describe, Bytes: 100, Live: 100, Arena: 128, Kind: memory.Activation, Site: named, Spec: "uint8[100]", Why: "input of matmul", Phase: "forward", By: by, Op: 1},
		{Seq: 6, Act: memory.Mark, Live: 100, Arena: 128, Phase: "backward", By: by, Op: 1},
		{Seq: 7, ID: 1, Act: memory.Free, Bytes: 100, Kind: memory.Activation, Site: named, Spec: "uint8[100]", Why: "input of matmul", Phase: "backward", By: by, Op: 1},
	}, got)

	old := d.SetTrace(nil)
	require.NotNil(t, old)
	require.False(t, d.Tracing())
	d.Mark("untraced")
	d.SetTrace(old)
	d.Mark("again")
	require.EqualValues(t, 9, got[len(got)-1].Seq, "what nobody saw is numbered too")
}

// The hash tells runs apart by act, address, size, kind and order, and by nothing else.
func TestHash(t *testing.T) {
	run := func(f func(d *memory.Device)) uint64 {
		d := newDevice(t, memory.Config{Virtual: true})
		f(d)
		return d.Stats().Hash
	}
	get := func(d *memory.Device, n int64, k memory.Kind) *memory.Buffer {
		b, err := d.Alloc(n, k, memory.Site{})
		require.NoError(t, err)
		return b
	}
	hashes := []uint64{
		run(func(d *memory.Device) {}),
		run(func(d *memory.Device) { get(d, 1, memory.Param) }),
		run(func(d *memory.Device) { get(d, 2, memory.Param) }),
		run(func(d *memory.Device) { get(d, 1, memory.Grad) }),
		run(func(d *memory.Device) { get(d, 1, memory.Param).SetKind(memory.Grad) }),
		run(func(d *memory.Device) { get(d, 1, memory.Param).Release() }),
		run(func(d *memory.Device) { get(d, 1, memory.Param); get(d, 2, memory.Param) }),
		run(func(d *memory.Device) { get(d, 2, memory.Param); get(d, 1, memory.Param) }),
		run(func(d *memory.Device) { get(d, 1<<40, memory.Param) }),
		run(func(d *memory.Device) { get(d, 1<<50, memory.Param) }),
	}
	seen := map[uint64]bool{}
	for i, h := range hashes {
		require.False(t, seen[h], "run %d", i)
		seen[h] = true
	}
	require.Equal(t, hashes[1], run(func(d *memory.Device) {
		d.Mark("x")
		get(d, 1, memory.Param).Describe("a", "b")
	}))
	require.Equal(t, hashes[0], run(func(d *memory.Device) {
		get(d, 1, memory.Param)
		d.ResetPeak()
	}))
}

func TestNames(t *testing.T) {
	require.Equal(t, "linear in gpt/blocks.3", memory.Site{Op: "linear", Scope: "gpt/blocks.3"}.String())
	require.Equal(t, "linear", memory.Site{Op: "linear"}.String())
	require.Equal(t, "an unnamed op in gpt", memory.Site{Scope: "gpt"}.String())
	require.Equal(t, "an unnamed site", memory.Site{}.String())
	for a, want := range []string{"alloc", "free", "setkind", "mark", "describe", "act(5)"} {
		require.Equal(t, want, memory.Act(a).String())
	}
}
