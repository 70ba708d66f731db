package offload

import "golang.org/x/sys/unix"

const directFlag = unix.O_DIRECT

// noCache turns the kernel's read-ahead off, which would fill the cache with what nobody asked for.
func noCache(fd int) { _ = unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM) }

// flushPages has the disk take what was written, and waits for it.
func flushPages(fd int, off, n int64) error {
	const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := unix.SyncFileRange(fd, off, n, wait)
	if err == unix.ENOSYS || err == unix.EINVAL { // a file system without it
		return unix.Fdatasync(fd)
	}
	return err
}

// dropPages takes clean pages out of the cache. A file system in memory keeps them.
func dropPages(fd int, off, n int64) { _ = unix.Fadvise(fd, off, n, unix.FADV_DONTNEED) }
