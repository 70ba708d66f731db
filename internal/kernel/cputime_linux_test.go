package kernel_test

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what the calling thread has used of a processor, which others that run beside it do not add to.
func cpuTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
