package row

import (
	"os"
	"strconv"
	"strings"
)

// Available returns how many bytes of memory this process may still take without the system paging or killing, or false
// where that is not known: on Linux the kernel's MemAvailable, or what the control group has left if that is less.
func Available() (n int64, known bool) {
	meminfo, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(meminfo)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemAvailable:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			n, known = kib<<10, err == nil
		}
	}
	most, limited := number("/sys/fs/cgroup/memory.max")
	used, counted := number("/sys/fs/cgroup/memory.current")
	if left := most - used; known && limited && counted && left < n {
		n = max(left, 0)
	}
	return n, known
}

// number reads a file that holds one; "max" is none.
func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
