package memory_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/memory"
)

// Laws 1, 2, 3 and 6: random programs on a device and on a naive model of it give the same addresses and figures after
// every step.
func TestModel(t *testing.T) {
	for _, c := range []memory.Config{
		{Reserve: 1 << 30},
		{Limit: 1 << 20},
		{Limit: 3 << 20, Reserve: 8 << 20},
		{Limit: 100},
		{Virtual: true},
		{Virtual: true, Limit: 2 << 20},
		{Virtual: true, Reserve: 1 << 20},
	} {
		t.Run(fmt.Sprintf("limit=%d,virtual=%v", c.Limit, c.Virtual), func(t *testing.T) {
			for seed := range uint64(8) {
				d := newDevice(t, c)
				space := c.Reserve
				if space == 0 {
					space = 1 << 62
				}
				p := newPlayer(t, d, newModel(c.Limit, space))
				p.play(program(seed, 600))
				p.releaseAll()
				s := d.Stats()
				require.Zero(t, s.Live)
				require.Zero(t, s.Arena)
				require.NoError(t, d.Close())
			}
		})
	}
}

// Law 1 at every event, not only after every step.
func TestEventsSumToLive(t *testing.T) {
	d := newDevice(t, memory.Config{Virtual: true})
	p := newPlayer(t, d, nil)
	p.play(program(42, 3000))
	p.releaseAll()

	live, peak := map[uint64]memory.Event{}, int64(0)
	for i, e := range p.events {
		require.EqualValues(t, i+1, e.Seq)
		switch e.Act {
		case memory.Alloc:
			require.NotContains(t, live, e.ID)
			live[e.ID] = e
		case memory.Free:
			require.Equal(t, live[e.ID].Kind, e.Kind)
			delete(live, e.ID)
		case memory.SetKind, memory.Describe:
			live[e.ID] = e
		}
		var bytes int64
		for _, b := range live {
			bytes += b.Bytes
		}
		require.Equal(t, bytes, e.Live)
		peak = max(peak, bytes)
	}
	require.Empty(t, live)
	d2 := newDevice(t, memory.Config{Virtual: true})
	q := newPlayer(t, d2, nil)
	q.play(program(42, 3000))
	q.releaseAll()
	require.Equal(t, p.events, q.events, "law 3: same events, same addresses")
	require.Equal(t, d.Stats(), d2.Stats())
}

// Law 3: real and virtual devices, traced or not, give the same figures and the same hash.
func TestRealLikeVirtual(t *testing.T) {
	var all []memory.Stats
	for _, c := range []memory.Config{{}, {Virtual: true}, {HugePages: true}} {
		d := newDevice(t, c)
		p := newPlayer(t, d, nil)
		if c.HugePages {
			d.SetTrace(nil)
		}
		p.play(program(7, 1000))
		all = append(all, d.Stats())
		p.releaseAll()
		require.NoError(t, d.Close())
	}
	require.Equal(t, all[0], all[1])
	require.Equal(t, all[0], all[2])
}

// The placement rules one by one, with addresses that a person can follow.
func TestPlacement(t *testing.T) {
	d := newDevice(t, memory.Config{Virtual: true})
	get := func(n int64) *memory.Buffer {
		b, err := d.Alloc(n, memory.Other, memory.Site{})
		require.NoError(t, err)
		return b
	}
	a, b, c, e, f := get(1), get(128), get(64), get(100), get(64)
	require.Equal(t, []int64{0, 64, 192, 256, 384}, []int64{a.Addr(), b.Addr(), c.Addr(), e.Addr(), f.Addr()})
	require.EqualValues(t, 448, d.Stats().Arena)

	a.Release() // holes: 64 at 0, 128 at 256
	e.Release()
	e = get(65)
	require.EqualValues(t, 256, e.Addr(), "best fit")
	a = get(0)
	require.Zero(t, a.Addr(), "zero bytes occupy 64")
	require.EqualValues(t, 448, get(64).Addr(), "no hole: the top")

	a.Release() // holes: 64 at 0, 64 at 192
	c.Release()
	a = get(64)
	require.Zero(t, a.Addr(), "equal holes: the lowest")
	a.Release()
	b.Release() // 0..256 is one hole
	require.Zero(t, get(256).Addr(), "holes that touch are one")

	e.Release() // a hole below f
	require.EqualValues(t, 512, d.Stats().Arena)
}

// The rules that tell large buffers from small ones.
func TestPlacementOfLargeAndSmall(t *testing.T) {
	const large = 64 << 10
	d := newDevice(t, memory.Config{Virtual: true})
	get := func(n int64) *memory.Buffer {
		b, err := d.Alloc(n, memory.Other, memory.Site{})
		require.NoError(t, err)
		return b
	}
	a, b := get(2*large), get(1)
	require.EqualValues(t, 2*large, b.Addr())
	a.Release()
	s, l := get(large/2-64), get(large)
	require.EqualValues(t, 2*large-(large/2-64), s.Addr(), "small: at the end of the hole")
	require.Zero(t, l.Addr(), "large: at its beginning")
	require.EqualValues(t, large, get(large/2).Addr(), "32 KiB are large")
	end := d.Stats().Arena

	x := get(15 * large)
	require.EqualValues(t, end, x.Addr())
	y := get(16 * large)
	require.EqualValues(t, end+16*large, y.Addr(), "a sixteenth larger than what it comes to lie on: room for another")
	x.Release()
	require.EqualValues(t, end, get(16*large).Addr(), "which takes it")
	y.Release()
	y = get(15 * large)
	require.EqualValues(t, end+16*large, y.Addr(), "smaller: no room")
	z := get(16*large + 1)
	require.EqualValues(t, end+31*large, z.Addr(), "more than a sixteenth larger: no room")
	z.Release()
	require.EqualValues(t, end+31*large+large/2, get(15*large+large/2).Addr(), "the arena has come down to what made it grow before")
}

func TestArenaShrinks(t *testing.T) {
	d := newDevice(t, memory.Config{Virtual: true})
	var bufs []*memory.Buffer
	for range 4 {
		b, err := d.Alloc(64, memory.Other, memory.Site{})
		require.NoError(t, err)
		bufs = append(bufs, b)
	}
	bufs[1].Release()
	bufs[2].Release()
	require.EqualValues(t, 256, d.Stats().Arena)
	bufs[3].Release()
	require.EqualValues(t, 64, d.Stats().Arena, "the top falls through the hole below it")
	bufs[0].Release()
	require.Zero(t, d.Stats().Arena)
	require.EqualValues(t, 256, d.Stats().ArenaPeak)
	d.ResetPeak()
	require.Zero(t, d.Stats().ArenaPeak)
}

// The split at the peak is that of the first instant, and SetKind does not move it.
func TestPeakByKind(t *testing.T) {
	d := newDevice(t, memory.Config{Virtual: true})
	a, err := d.Alloc(100, memory.Temporary, memory.Site{})
	require.NoError(t, err)
	a.SetKind(memory.Activation)
	s := d.Stats()
	require.EqualValues(t, 100, s.PeakByKind[memory.Temporary])
	require.EqualValues(t, 100, s.LiveByKind[memory.Activation])
	a.Release()
	_, err = d.Alloc(100, memory.Grad, memory.Site{})
	require.NoError(t, err)
	require.Equal(t, s.PeakByKind, d.Stats().PeakByKind)
	d.ResetPeak()
	require.EqualValues(t, 100, d.Stats().PeakByKind[memory.Grad])
}

func FuzzDevice(f *testing.F) {
	f.Add(uint16(0), false, program(1, 50))
	f.Add(uint16(20), true, program(2, 200))
	f.Fuzz(func(t *testing.T, limit uint16, virtual bool, prog []byte) {
		if len(prog) > 4000 {
			prog = prog[:4000]
		}
		d := newDevice(t, memory.Config{Limit: int64(limit) << 10, Reserve: 256 << 20, Virtual: virtual})
		p := newPlayer(t, d, newModel(int64(limit)<<10, 256<<20))
		half := len(prog) / 8 * 4
		p.play(prog[:half])
		before, holders := d.Stats(), d.Holders()
		d.Fork()
		dry := newPlayer(t, d, nil)
		dry.bufs = append(dry.bufs, p.bufs...)
		dry.play(prog[half:])
		d.Join()
		require.Equal(t, before, d.Stats())
		require.Equal(t, holders, d.Holders())
		newPlayer(t, d, nil)
		p.play(prog[half:])
		p.releaseAll()
		require.NoError(t, d.Close())
	})
}
