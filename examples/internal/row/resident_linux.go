package row

import (
	"fmt"
	"io"
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

// faultIn reads the mappings of files once, so that they are resident: pages of the program's code that a row is the first to
// run are no memory of what it trains.
func faultIn() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) { // 55d0c000-55d0e000 r-xp 00002000 fe:00 247278   /file
		f := strings.Fields(line)
		if len(f) < 6 || f[1][0] != 'r' || f[1][1] == 'w' || !strings.HasPrefix(f[5], "/") {
			continue
		}
		var from, to int64
		if n, _ := fmt.Sscanf(f[0], "%x-%x", &from, &to); n == 2 && from >= 0 {
			_, _ = io.Copy(io.Discard, io.NewSectionReader(mem, from, to-from))
		}
	}
}
