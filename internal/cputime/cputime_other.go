//go:build !linux

// Package cputime tells the processor time that benchmarks compare: other work on the machine adds less to it than to the time
// that passes.
package cputime

import "time"

var began = time.Now()

// Process is the time since the process began, where its share of it is not to be had.
func Process() time.Duration { return time.Since(began) }

// Thread is Process, where a thread's own share is not known.
func Thread() time.Duration { return time.Since(began) }
