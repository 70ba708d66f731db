package offload

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/thimble-ml/thimble/memory"
)

// cached is the bytes of a file in the page cache.
func cached(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var st unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &st, 0); err != nil {
		t.Skipf("cachestat: %v", err)
	}
	return int64(st.Cache) * int64(os.Getpagesize())
}

// TestPageCacheIsEmpty is law O5: past the cache, and with what a file system without direct transfers gets.
func TestPageCacheIsEmpty(t *testing.T) {
	const n = 8 << 20
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(t.TempDir(), &fs))
	if int64(fs.Type) == unix.TMPFS_MAGIC {
		t.Skip("a file system in memory keeps its pages")
	}
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 25})
	require.NoError(t, err)
	buf, err := dev.Alloc(n, memory.Staging, memory.Site{})
	require.NoError(t, err)
	defer func() {
		buf.Release()
		require.NoError(t, dev.Close())
	}()
	for _, direct := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "file")
		file, err := createUncached(path)
		require.NoError(t, err)
		file.(*uncached).refuse.Store(!direct)
		mem := buf.Bytes()
		for i := range mem {
			mem[i] = byte(i * i >> 8)
		}
		_, err = file.WriteAt(mem, page)
		require.NoError(t, err)
		require.Less(t, cached(t, path), int64(n/8), "direct %v: after writing", direct)
		clear(mem)
		_, err = file.ReadAt(mem, page)
		require.NoError(t, err)
		require.Less(t, cached(t, path), int64(n/8), "direct %v: after reading", direct)
		for i := range mem {
			if mem[i] != byte(i*i>>8) {
				t.Fatalf("direct %v: byte %d", direct, i)
			}
		}
		t.Logf("direct wanted %v, refused %v", direct, file.(*uncached).refuse.Load())
		require.NoError(t, file.Close())
	}
}

// TestFallsBack: memory that direct transfers refuse goes the other way.
func TestFallsBack(t *testing.T) {
	file, err := createUncached(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	mem := make([]byte, 3*page)
	copy(mem[33:], "where no page begins")
	_, err = file.WriteAt(mem[33:33+page], 0)
	require.NoError(t, err)
	got := make([]byte, 2*page)
	_, err = file.ReadAt(got[1:1+page], 0)
	require.NoError(t, err)
	require.Equal(t, "where no page begins", string(got[1:21]))
	require.NoError(t, file.Close())
}

// TestNameless: what a process that is killed had in files goes with it.
func TestNameless(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 25})
	require.NoError(t, err)
	st, err := Open(Config{Device: dev, Tier: Disk, Dir: t.TempDir(), MinBytes: 1})
	require.NoError(t, err)
	f, err := st.openFile(State)
	require.NoError(t, err)
	left, err := os.ReadDir(st.Folder())
	require.NoError(t, err)
	require.Empty(t, left)
	mem := st.ring.free[0].block
	n, err := f.WriteAt(mem, 0)
	require.NoError(t, err)
	require.Len(t, mem, n)
	require.NoError(t, st.Close())
	require.NoDirExists(t, st.Folder())
	require.NoError(t, dev.Close())
}
