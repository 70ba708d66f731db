//go:build !race

package memory

import "golang.org/x/sys/unix"

const (
	mapFlags   = unix.MAP_ANON | unix.MAP_PRIVATE | unix.MAP_NORESERVE
	dropAdvice = unix.MADV_DONTNEED // at once, and the next read gives zeros
)

// advisePages asks for huge pages or declines them. A kernel without them says EINVAL, which changes nothing.
func advisePages(mem []byte, huge bool) {
	advice := unix.MADV_NOHUGEPAGE
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	_ = unix.Madvise(mem, advice)
}
