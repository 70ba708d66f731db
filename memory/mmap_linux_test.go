//go:build !race && !386 && !arm

package memory_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/memory"
	"golang.org/x/sys/unix"
)

// rss returns the resident bytes of this process.
func rss(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

// Law 7, and the resident set follows: up when pages are written, down by Trim, in the middle of the arena and above.
func TestTrimShrinksResidentSet(t *testing.T) {
	d := newDevice(t, memory.Config{})
	const size, slack = 64 << 20, 8 << 20
	at0 := rss(t)
	low, mid, high, top := alloc(t, d, 4096), alloc(t, d, size), alloc(t, d, 4096), alloc(t, d, size)
	for _, b := range []*memory.Buffer{low, mid, high, top} {
		for i := range b.Bytes()[:b.Size()/4096] {
			copy(b.Bytes()[i*4096:], "x...") // every page, with nothing on Go's heap
		}
	}
	require.InDelta(t, 2*size, rss(t)-at0, slack)
	require.EqualValues(t, 2*size+granule, d.Stats().Reserved)

	stale := mid.Bytes()
	mid.Release()
	top.Release()
	require.EqualValues(t, size+2*4096, d.Stats().Arena)
	require.EqualValues(t, 2*size-granule, d.Trim())
	require.Zero(t, d.Trim(), "once")
	require.EqualValues(t, size+2*4096, d.Stats().Arena)
	require.EqualValues(t, 2*granule, d.Stats().Reserved)
	require.InDelta(t, 0, rss(t)-at0, slack)
	require.Zero(t, stale[size/2], "a stale slice reads zeros")
	require.Equal(t, byte('x'), low.Bytes()[0])
	require.Equal(t, byte('x'), high.Bytes()[0])

	again := alloc(t, d, size/2)
	require.EqualValues(t, 4096, again.Addr())
	require.EqualValues(t, size/2+2*granule, d.Stats().Reserved)
	copy(again.Bytes(), "written again")
}

// What the system refuses to take stays counted as reserved.
func TestTrimSparesLockedPages(t *testing.T) {
	d := newDevice(t, memory.Config{})
	b := alloc(t, d, 4*granule)
	locked := b.Bytes()[granule : 2*granule]
	if err := unix.Mlock(locked); err != nil {
		t.Skip("mlock:", err)
	}
	b.Release()
	require.Zero(t, d.Trim())
	require.EqualValues(t, 4*granule, d.Stats().Reserved)
	require.NoError(t, unix.Munlock(locked))
	require.EqualValues(t, 4*granule, d.Trim())
}

func TestCloseUnmaps(t *testing.T) {
	maps := func() int {
		text, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return strings.Count(string(text), "\n")
	}
	before := maps()
	for range 50 {
		d := newDevice(t, memory.Config{Reserve: 1 << 30})
		alloc(t, d, 1<<20).Release()
		require.NoError(t, d.Close())
	}
	require.InDelta(t, before, maps(), 10)
}

func TestHugePages(t *testing.T) {
	d := newDevice(t, memory.Config{HugePages: true})
	b := alloc(t, d, 8<<20)
	copy(b.Bytes()[4<<20:], "abc")
	b.Release()
	require.NoError(t, d.Close())
}

// A handle costs well under one Go allocation, and placement none.
func TestAllocsInGo(t *testing.T) {
	d := newDevice(t, memory.Config{})
	alloc(t, d, 100)
	n := testing.AllocsPerRun(10000, func() {
		b, _ := d.Alloc(1000, memory.Temporary, memory.Site{Op: "linear"})
		b.Release()
	})
	require.Zero(t, n, "AllocsPerRun rounds 1/64 down")
}

// Under an address-space limit the reservation is halved until it fits, but not below Limit.
func TestAddressSpaceLimit(t *testing.T) {
	if os.Getenv("THIMBLE_ULIMIT") == "" {
		cmd := exec.Command("sh", "-c", `ulimit -v 4194304; exec "$0" -test.run='^TestAddressSpaceLimit$' -test.v`, os.Args[0])
		cmd.Env = append(os.Environ(), "THIMBLE_ULIMIT=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "PASS: TestAddressSpaceLimit")
		return
	}
	_, err := memory.NewDevice(memory.Config{Limit: 8 << 30})
	require.ErrorContains(t, err, "memory: cpu: cannot reserve 8589934592 bytes of address space (limit 8589934592): mmap: cannot allocate memory")

	d := newDevice(t, memory.Config{})
	alloc(t, d, 256<<20).Release()
	_, err = d.Alloc(4<<30, memory.Other, memory.Site{})
	require.ErrorContains(t, err, "over the address space of")
	require.NoError(t, d.Close())

	d = newDevice(t, memory.Config{Limit: 100 << 20, Reserve: 1 << 40})
	alloc(t, d, 100<<20).Release()
	require.NoError(t, d.Close())
}

// TestLock: the arena's pages are locked as far as the system allows, what is refused is reported and works all the same,
// and Trim hands locked pages back.
func TestLock(t *testing.T) {
	d := newDevice(t, memory.Config{Lock: true})
	b := alloc(t, d, 256<<10)
	if d.LockErr() != nil {
		t.Skip(d.LockErr())
	}
	require.EqualValues(t, 256<<10, d.Stats().Locked)
	b.Release()
	require.EqualValues(t, 256<<10, d.Trim())
	require.Zero(t, d.Stats().Locked)

	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit))
	if limit.Cur > 1<<30 || os.Geteuid() == 0 {
		t.Skip("this process may lock as much as it likes")
	}
	b = alloc(t, d, int64(limit.Cur)+1<<20)
	require.ErrorContains(t, d.LockErr(), "could not be locked in RAM, 0 are: ")
	require.Zero(t, d.Stats().Locked)
	copy(b.Bytes(), "works")
}

// locked returns the bytes of this process that are locked in RAM.
func locked(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "VmLck:")
	require.True(t, ok)
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	require.NoError(t, err)
	return kb << 10
}

// Buffer.Lock takes the whole pages of a buffer and gives them back with it, so that its neighbours' stay as they are and Trim works.
func TestBufferLock(t *testing.T) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit))
	page := int64(os.Getpagesize())
	if limit.Cur < 1<<20 {
		t.Skip("ulimit -l leaves no room")
	}
	d := newDevice(t, memory.Config{})
	at0 := locked(t)
	low, b, high := alloc(t, d, 100), alloc(t, d, 20*page), alloc(t, d, 100)
	for range 2 {
		n, err := b.Lock()
		require.NoError(t, err)
		require.Equal(t, 19*page, n)
		require.Equal(t, at0+n, locked(t))
	}
	n, err := low.Lock()
	require.NoError(t, err)
	require.Zero(t, n, "less than a page")
	b.Retain().Release()
	require.Equal(t, at0+19*page, locked(t))
	d.Fork()
	n, err = alloc(t, d, 20*page).Lock()
	require.NoError(t, err)
	require.Zero(t, n)
	b.Release()
	d.Join()
	require.Equal(t, at0+19*page, locked(t), "a dry run unlocks nothing")
	b.Release()
	require.Equal(t, at0, locked(t))
	low.Release()
	high.Release()
	require.Panics(t, func() { _, _ = b.Lock() })
}

// Where the limit forbids it, Lock says so, and the buffer works.
func TestBufferLockForbidden(t *testing.T) {
	if os.Getenv("THIMBLE_LOCK") == "" {
		cmd := exec.Command("sh", "-c", "ulimit -l 16 && exec \"$0\" -test.run '^TestBufferLockForbidden$'", os.Args[0])
		cmd.Env = append(os.Environ(), "THIMBLE_LOCK=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	d := newDevice(t, memory.Config{})
	b := alloc(t, d, 1<<20)
	if n, err := b.Lock(); err == nil { // root may
		require.NotZero(t, n)
	} else {
		require.ErrorContains(t, err, "memory: cpu: lock ")
		require.ErrorContains(t, err, "of other made by")
	}
	b.Bytes()[1<<19] = 1
	b.Release()
}
