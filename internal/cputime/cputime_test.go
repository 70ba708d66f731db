package cputime_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/cputime"
)

// Work adds to both clocks. Sleeping, on Linux, adds next to nothing to the thread's.
func TestClocks(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	process, thread, began := cputime.Process(), cputime.Thread(), time.Now()
	for time.Since(began) < 20*time.Millisecond {
		continue
	}
	require.Greater(t, cputime.Process(), process)
	require.Greater(t, cputime.Thread(), thread)
	if runtime.GOOS == "linux" {
		thread = cputime.Thread()
		time.Sleep(200 * time.Millisecond)
		require.Less(t, cputime.Thread()-thread, 100*time.Millisecond)
	}
}
