package memory_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/memory"
)

// Law 4: the same program gives the same events, figures and return values in a dry run and then for real.
func TestDryRunIsRealRun(t *testing.T) {
	for _, c := range []memory.Config{{}, {Limit: 64 << 20}, {Virtual: true}} {
		for seed := range uint64(10) {
			d := newDevice(t, c)
			before := newPlayer(t, d, nil)
			before.play(program(seed, 300))

			d.Fork()
			dry := newPlayer(t, d, nil)
			dry.bufs = slices.Clone(before.bufs)
			dry.play(program(seed+100, 300))
			planned := d.Stats()
			d.Join()

			real := newPlayer(t, d, nil)
			real.bufs = before.bufs
			real.play(program(seed+100, 300))
			require.Equal(t, dry.events, real.events)
			require.Equal(t, planned, d.Stats())
			real.releaseAll()
			require.NoError(t, d.Close())
		}
	}
}

// Law 4: Join restores everything, and a device that was forked goes on like its twin that never was.
func TestJoinRestores(t *testing.T) {
	for seed := range uint64(10) {
		forked, twin := newDevice(t, memory.Config{Limit: 8 << 20}), newDevice(t, memory.Config{Limit: 8 << 20})
		p, q := newPlayer(t, forked, nil), newPlayer(t, twin, nil)
		p.play(program(seed, 300))
		q.play(program(seed, 300))
		stats, holders, versions := forked.Stats(), forked.Holders(), versionsOf(p.bufs)

		for round := range uint64(2) {
			forked.Fork()
			dry := newPlayer(t, forked, nil)
			dry.bufs = slices.Clone(p.bufs)
			dry.play(program(seed+50+round, 500))
			forked.Join()
			require.Equal(t, stats, forked.Stats())
			require.Equal(t, holders, forked.Holders())
			require.Equal(t, versions, versionsOf(p.bufs))
		}

		old := p.events
		forked.SetTrace(func(e memory.Event) { old = append(old, e) })
		p.play(program(seed+200, 300))
		q.play(program(seed+200, 300))
		require.Equal(t, q.events, old)
		require.Equal(t, twin.Stats(), forked.Stats())
	}
}

func versionsOf(bufs []*memory.Buffer) (vs []uint32) {
	for _, b := range bufs {
		vs = append(vs, b.Version())
	}
	return vs
}

// What a dry run does to a real buffer is undone, and its bytes are there throughout.
func TestForkRealBuffer(t *testing.T) {
	d := newDevice(t, memory.Config{})
	b, err := d.Alloc(4, memory.Param, memory.Site{Op: "weight"})
	require.NoError(t, err)
	b.Describe("uint8[4]", "parameter")
	copy(b.Bytes(), "abcd")

	d.Fork()
	require.True(t, d.Forked())
	require.True(t, d.Virtual())
	require.False(t, b.Virtual())
	require.Equal(t, "abcd", string(b.Bytes()))
	b.Retain()
	b.Bump()
	b.SetKind(memory.Other)
	b.Describe("", "nothing")
	b.SetSite(memory.Site{Op: "other"})
	b.Release()
	b.Release()
	require.PanicsWithValue(t, "memory: cpu: bytes of a released buffer: 4 bytes of other made by other", func() { b.Bytes() })
	require.Empty(t, d.Holders())
	v, err := d.Alloc(4, memory.Param, memory.Site{})
	require.NoError(t, err)
	require.Nil(t, v.Bytes())
	require.Equal(t, b.Addr(), v.Addr(), "the address that the release opened")
	d.Join()

	require.False(t, d.Virtual())
	require.Equal(t, "abcd", string(b.Bytes()))
	require.Equal(t, []memory.Holder{{ID: 1, Bytes: 4, Kind: memory.Param, Site: memory.Site{Op: "weight"}, Refs: 1, Spec: "uint8[4]", Why: "parameter"}}, d.Holders())
	require.Zero(t, b.Version())
}

// A buffer that outlives its dry run counts nowhere, has no bytes, and can be released once.
func TestForkOrphan(t *testing.T) {
	d := newDevice(t, memory.Config{})
	d.Fork()
	b, err := d.Alloc(100, memory.Other, memory.Site{Op: "keep"})
	require.NoError(t, err)
	d.Join()
	before := d.Stats()

	require.True(t, b.Virtual())
	require.Nil(t, b.Bytes())
	b.Retain()
	b.SetKind(memory.Grad)
	b.Bump()
	b.Describe("uint8[100]", "")
	b.Release()
	b.Release()
	require.Panics(t, b.Release)
	require.Equal(t, before, d.Stats())
	require.NoError(t, d.Close())
}

// A dry run tells what would not fit; memory that the caller can do without is refused as in the real run.
func TestForkIgnoresLimit(t *testing.T) {
	for _, c := range []memory.Config{{Limit: 1 << 20}, {Reserve: 1 << 20}, {Limit: 1 << 20, Virtual: true}} {
		d := newDevice(t, c)
		d.Fork()
		_, ok := d.TryAlloc(2<<20, memory.Staging, memory.Site{})
		require.False(t, ok)
		_, err := d.Alloc(1<<40, memory.Other, memory.Site{})
		require.NoError(t, err)
		require.Equal(t, int64(1<<40), d.Stats().ArenaPeak)
		require.EqualValues(t, 1, d.Stats().Refused)
		_, ok = d.TryAlloc(1, memory.Staging, memory.Site{})
		require.False(t, ok)
		_, err = d.Alloc(1<<62, memory.Other, memory.Site{})
		require.ErrorContains(t, err, "over the address space of 4.0 EiB")
		d.Join()
		require.Zero(t, d.Stats().Failed+d.Stats().Refused)
		_, err = d.Alloc(2<<20, memory.Other, memory.Site{})
		require.Error(t, err)
	}
}

func TestForkDoesNotCountForFailAt(t *testing.T) {
	d := newDevice(t, memory.Config{})
	d.FailAt(1)
	d.Fork()
	_, err := d.Alloc(1, memory.Other, memory.Site{})
	require.NoError(t, err)
	d.Join()
	_, err = d.Alloc(1, memory.Other, memory.Site{})
	require.Error(t, err)
}

func TestForkMisuse(t *testing.T) {
	d := newDevice(t, memory.Config{Name: "gpu"})
	require.PanicsWithValue(t, "memory: gpu: join without fork", d.Join)
	d.Fork()
	require.PanicsWithValue(t, "memory: gpu: fork within a dry run", d.Fork)
	require.EqualError(t, d.Close(), "memory: gpu: close within a dry run: call Join first")
	d.Join()
	require.NoError(t, d.Close())
}

// Trim in a dry run counts and leaves the memory alone.
func TestForkTrim(t *testing.T) {
	d := newDevice(t, memory.Config{})
	a, err := d.Alloc(1<<20, memory.Other, memory.Site{})
	require.NoError(t, err)
	copy(a.Bytes(), "abcd")
	d.Fork()
	a.Release()
	require.EqualValues(t, 1<<20, d.Trim())
	require.Zero(t, d.Stats().Reserved)
	d.Join()
	require.EqualValues(t, 1<<20, d.Stats().Reserved)
	require.Equal(t, "abcd", string(a.Bytes()[:4]))
}
