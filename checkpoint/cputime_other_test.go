//go:build !linux

package checkpoint_test

import "time"

var began = time.Now()

// cpuTime is the time since the process began, where its share of it is not to be had.
func cpuTime() time.Duration { return time.Since(began) }
