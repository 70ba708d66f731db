//go:build !linux

package kernel_test

import "time"

var started = time.Now()

// cpuTime is the time, where a thread's own is not known.
func cpuTime() time.Duration { return time.Since(started) }
