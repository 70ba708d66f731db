package checkpoint_test

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what this process has used of processors, Go's collector included: what runs beside it does not add to it.
func cpuTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
