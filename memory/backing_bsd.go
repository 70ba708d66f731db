//go:build (darwin || freebsd || netbsd || openbsd || dragonfly) && !race

package memory

import "golang.org/x/sys/unix"

const (
	mapFlags   = unix.MAP_ANON | unix.MAP_PRIVATE // these systems do not set swap aside for what is not touched
	dropAdvice = unix.MADV_FREE                   // when the system wants the pages; until then reads give what was there
)

func advisePages([]byte, bool) {}
