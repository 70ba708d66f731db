package memory_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/memory"
)

// player runs a program, which is any string of bytes, on a device and, if there is one, on the model beside it. It
// checks the laws after every step.
type player struct {
	t      require.TestingT
	d      *memory.Device
	m      *model
	bufs   []*memory.Buffer // one entry a reference
	events []memory.Event
}

// newPlayer takes over the device's trace.
func newPlayer(t require.TestingT, d *memory.Device, m *model) *player {
	p := &player{t: t, d: d, m: m}
	d.SetTrace(func(e memory.Event) { p.events = append(p.events, e) })
	return p
}

// program returns n random steps.
func program(seed uint64, n int) []byte {
	prog := make([]byte, 4*n)
	rng := rand.New(rand.NewPCG(seed, 17))
	for i := range prog {
		prog[i] = byte(rng.Uint32())
	}
	return prog
}

// play runs a step for every four bytes: what to do, on which buffer or for which kind, and a size.
func (p *player) play(prog []byte) {
	for ; len(prog) >= 4; prog = prog[4:] {
		p.step(prog[0], prog[1], size(prog[2], prog[3]))
		p.check()
	}
}

// size spreads two bytes over sizes from 0 to 512 KiB that often repeat, so that exact fits and ties occur.
func size(class, fine byte) int64 {
	base := int64(1) << (class % 20)
	if class < 100 {
		return base - 1
	}
	return base/2 + int64(fine)*base/512
}

func (p *player) step(what, which byte, size int64) {
	k := memory.Kind(int(which) % memory.NumKinds)
	at := memory.Site{Op: fmt.Sprintf("op%d", what), Scope: fmt.Sprintf("s/%d", which)}
	switch what % 16 {
	case 0, 1, 2, 3, 4, 5:
		p.alloc(size, k, at)
	case 6:
		p.tryAlloc(size, k, at)
	case 7, 8, 9, 10, 11:
		p.release(which)
	case 12:
		p.rekind(which, k)
	case 13:
		p.handle(which)
	case 14:
		p.trim(which)
	case 15:
		p.mark(which)
	}
}

func (p *player) alloc(size int64, k memory.Kind, at memory.Site) {
	b, err := p.d.Alloc(size, k, at)
	if p.m == nil {
		if err == nil {
			p.hold(b)
		}
		return
	}
	addr, ok := p.m.alloc(size, k)
	if !ok {
		var oom *memory.OOMError
		require.ErrorAs(p.t, err, &oom)
		p.m.stats.Failed++
		return
	}
	require.NoError(p.t, err)
	require.Equal(p.t, addr, b.Addr())
	p.hold(b)
}

func (p *player) tryAlloc(size int64, k memory.Kind, at memory.Site) {
	b, ok := p.d.TryAlloc(size, k, at)
	if p.m != nil {
		addr, want := p.m.alloc(size, k)
		require.Equal(p.t, want, ok)
		if !ok {
			p.m.stats.Refused++
			return
		}
		require.Equal(p.t, addr, b.Addr())
	}
	if ok {
		p.hold(b)
	}
}

// hold signs the buffer's bytes, so that an overlap or a Trim that took too much shows when they are checked.
func (p *player) hold(b *memory.Buffer) {
	copy(b.Bytes(), bytes.Repeat([]byte{byte(b.ID())}, len(b.Bytes())))
	p.bufs = append(p.bufs, b)
}

func (p *player) pick(which byte) (int, bool) {
	if len(p.bufs) == 0 {
		return 0, false
	}
	return int(which) * len(p.bufs) / 256, true
}

func (p *player) release(which byte) {
	i, ok := p.pick(which)
	if !ok {
		return
	}
	b := p.bufs[i]
	if signed := bytes.Count(b.Bytes(), []byte{byte(b.ID())}); signed != len(b.Bytes()) {
		require.Fail(p.t, "overwritten", "buffer %d: %d of %d bytes are its own", b.ID(), signed, len(b.Bytes()))
	}
	p.bufs = append(p.bufs[:i], p.bufs[i+1:]...)
	b.Release()
	if b.Refs() == 0 && p.m != nil {
		p.m.free(b.ID())
	}
}

func (p *player) rekind(which byte, k memory.Kind) {
	if i, ok := p.pick(which); ok {
		p.bufs[i].SetKind(k)
		if p.m != nil {
			p.m.live[p.m.find(p.bufs[i].ID())].kind = k
		}
	}
}

// handle does what concerns the handle alone.
func (p *player) handle(which byte) {
	i, ok := p.pick(which)
	if !ok {
		return
	}
	switch b := p.bufs[i]; which % 3 {
	case 0:
		p.bufs = append(p.bufs, b.Retain())
	case 1:
		b.Bump()
	case 2:
		b.Describe(fmt.Sprintf("uint8[%d]", b.Size()), "test")
	}
}

func (p *player) trim(which byte) {
	if which%4 != 0 {
		return
	}
	got := p.d.Trim()
	if p.m != nil {
		require.Equal(p.t, p.m.trim(), got)
	}
}

func (p *player) mark(which byte) {
	if which%8 != 0 {
		p.d.Mark(fmt.Sprintf("phase %d", which))
		return
	}
	p.d.ResetPeak()
	if p.m != nil {
		p.m.resetPeak()
	}
}

// check compares with the model, or at least with the laws.
func (p *player) check() {
	s := p.d.Stats()
	sound := s.Live == sum(s.LiveByKind) && s.Peak == sum(s.PeakByKind) && s.Live == s.AllocBytes-s.FreeBytes && s.Live <= min(s.Arena, s.Reserved)
	if !sound {
		require.Fail(p.t, "the figures contradict each other", "%+v", s)
	}
	if p.m == nil {
		return
	}
	want := p.m.now()
	want.Hash = s.Hash
	if s != want { // require.Equal is slow, and this runs after every step
		require.Equal(p.t, want, s)
	}
}

func sum(by [memory.NumKinds]int64) (n int64) {
	for _, b := range by {
		n += b
	}
	return n
}

// releaseAll gives back what the player holds.
func (p *player) releaseAll() {
	for len(p.bufs) > 0 {
		p.release(0)
	}
}

func newDevice(t testing.TB, c memory.Config) *memory.Device {
	t.Helper()
	d, err := memory.NewDevice(c)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() }) // what a test leaks on purpose stays mapped
	return d
}
