package row

import (
	"os"
	"strconv"
	"strings"
)

// residentSet returns the resident set of now and the highest since the last reset, in bytes.
func residentSet() (now, high int64, known bool) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, false
	}
	now, known = field(string(status), "VmRSS:")
	high, ok := field(string(status), "VmHWM:")
	return now, high, known && ok
}

// field returns a field of /proc/self/status ("VmRSS:	    2136 kB") in bytes.
func field(status, name string) (int64, bool) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// resetHigh makes the highest resident set that of now (proc_pid_clear_refs(5): "5", since Linux 4.0).
func resetHigh() bool {
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil
}
