package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
)

// planOf plays a program under best fit and gives its plan.
func planOf(t *testing.T, prog []byte) (plan []memory.Planned, arena, best int64) {
	t.Helper()
	d := newDevice(t, memory.Config{Reserve: 1 << 30})
	p := newPlayer(t, d, nil)
	p.play(prog)
	p.releaseAll()
	plan, arena = memory.Place(nil, p.events)
	require.NoError(t, d.Close())
	return plan, arena, arenaOf(p.events)
}

// arenaOf is the end of the highest buffer of the events.
func arenaOf(events []memory.Event) (arena int64) {
	for _, e := range events {
		arena = max(arena, e.Addr+occupied(e.Bytes))
	}
	return arena
}

// requireApart checks that no two buffers of a plan lie on each other, and gives its arena and its most rounded bytes.
func requireApart(t *testing.T, plan []memory.Planned) (arena, most int64) {
	t.Helper()
	live := map[int64]int64{} // end by address
	sum := int64(0)
	for i, e := range plan {
		end := e.Addr + occupied(e.Bytes)
		if e.Act == memory.Free {
			require.Equal(t, end, live[e.Addr], "event %d", i)
			delete(live, e.Addr)
			sum -= end - e.Addr
			continue
		}
		for addr, other := range live {
			require.True(t, end <= addr || other <= e.Addr, "event %d: [%d %d) on [%d %d)", i, e.Addr, end, addr, other)
		}
		live[e.Addr] = end
		sum += end - e.Addr
		arena, most = max(arena, end), max(most, sum)
	}
	return arena, most
}

// Random programs: a plan is sound, a device that follows it does what it says, with the same figures but for the arena,
// and bytes of no buffer are touched by another.
func TestFollow(t *testing.T) {
	better := 0
	for seed := range uint64(6) {
		prog := program(seed, 600)
		plan, arena, best := planOf(t, prog)
		got, most := requireApart(t, plan)
		require.Equal(t, arena, got)
		require.GreaterOrEqual(t, arena, most)
		if arena < best {
			better++
		}
		for _, virtual := range []bool{false, true} {
			d := newDevice(t, memory.Config{Reserve: 1 << 30, Virtual: virtual})
			p := newPlayer(t, d, nil)
			d.Follow(plan)
			p.play(prog)
			p.releaseAll()
			require.Zero(t, d.Following())
			require.Equal(t, arena, arenaOf(p.events))
			require.Zero(t, d.Stats().Arena)
			at := 0
			for _, e := range p.events {
				if e.Act == memory.Alloc || e.Act == memory.Free {
					require.Equal(t, plan[at], memory.Planned{Act: e.Act, Addr: e.Addr, Bytes: e.Bytes})
					at++
				}
			}
			require.NoError(t, d.Close())
		}
	}
	require.Greater(t, better, 4, "of 6 programs")
}

// From the first event that differs the device places by best fit, over what is live then: compared with the naive model.
func TestFollowUntilItDiffers(t *testing.T) {
	prog := program(3, 600)
	plan, _, _ := planOf(t, prog)
	for _, cut := range []int{0, 1, 7, 50, 123, 200} {
		wrong := append([]memory.Planned(nil), plan...)
		wrong[cut].Bytes++
		d := newDevice(t, memory.Config{Reserve: 1 << 30})
		p := newPlayer(t, d, nil)
		d.Follow(wrong)
		p.play(prog)
		p.releaseAll()
		require.Zero(t, d.Following())
		m, at := newModel(0, 1<<30), 0
		ids := map[uint64]uint64{}
		for _, e := range p.events {
			switch e.Act {
			case memory.Free:
				m.free(ids[e.ID])
			case memory.Alloc:
				if at < cut {
					require.Equal(t, plan[at].Addr, e.Addr)
					m.put(e.Addr, e.Bytes, e.Kind)
				} else {
					addr, _ := m.alloc(e.Bytes, e.Kind)
					require.Equal(t, addr, e.Addr, "event %d, %d were followed", at, cut)
				}
				ids[e.ID] = m.nextID
			default:
				continue
			}
			at++
		}
		require.NoError(t, d.Close())
	}
}

// Buffers that are there before the plan stay where they are, a limit is obeyed, and a dry run puts the place in the plan
// back.
func TestFollowAroundWhatIsHeld(t *testing.T) {
	d := newDevice(t, memory.Config{Limit: 4096})
	held := alloc(t, d, 100)
	var events []memory.Event
	old := d.SetTrace(func(e memory.Event) { events = append(events, e) })
	step := func() {
		a := alloc(t, d, 64)
		b := alloc(t, d, 1000)
		a.Release()
		c := alloc(t, d, 128)
		b.Release()
		c.Release()
	}
	holders := d.Holders()
	step()
	d.SetTrace(old)
	best := d.Stats().ArenaPeak
	plan, arena := memory.Place(holders, events)
	require.Less(t, arena, best)
	d.Follow(plan)
	d.Fork()
	step()
	require.Zero(t, d.Following())
	d.Join()
	require.Equal(t, len(plan), d.Following())
	d.ResetPeak()
	step()
	require.Zero(t, d.Following())
	require.Equal(t, arena, d.Stats().ArenaPeak)

	far := []memory.Planned{{Act: memory.Alloc, Addr: 4096 - 64, Bytes: 128}}
	d.Follow(far)
	b := alloc(t, d, 128)
	require.EqualValues(t, 128, b.Addr(), "the plan ends above the limit: best fit")
	b.Release()
	d.Follow([]memory.Planned{{Act: memory.Alloc, Addr: 64, Bytes: 128}})
	b = alloc(t, d, 128)
	require.EqualValues(t, 128, b.Addr(), "the place is taken")
	b.Release()
	d.Follow(plan)
	d.Follow(nil)
	require.Zero(t, d.Following())
	held.Release()
	require.NoError(t, d.Close())
}

func alloc(t *testing.T, d *memory.Device, n int64) *memory.Buffer {
	t.Helper()
	b, err := d.Alloc(n, memory.Other, memory.Site{})
	require.NoError(t, err)
	return b
}
