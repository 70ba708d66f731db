// Package cputime tells the processor time that benchmarks compare: other work on the machine adds less to it than to the time
// that passes.
package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Process is what this process has used of processors, Go's collector included.
func Process() time.Duration { return read(unix.CLOCK_PROCESS_CPUTIME_ID) }

// Thread is what the calling thread has used of a processor.
func Thread() time.Duration { return read(unix.CLOCK_THREAD_CPUTIME_ID) }

func read(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0 // as if nothing had been used: there is no such kernel
	}
	return time.Duration(t.Nano())
}
