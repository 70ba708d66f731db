package autograd_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
)

// Lanes of 32 KiB and more are a buffer each, smaller ones one buffer with what is shared. What a kernel sees is the same
// either way: as many bytes as it asked for, no two lanes on one place.
func TestScratch(t *testing.T) {
	for _, c := range []struct {
		work  autograd.Work
		sizes []int64 // of the buffers
	}{
		{autograd.Work{Scratch: 32<<10 - 64, Shared: 100, Chunks: 3}, []int64{3*(32<<10-64) + 100}},
		{autograd.Work{Scratch: 32<<10 - 63, Shared: 100, Chunks: 3}, []int64{32 << 10, 32 << 10, 32 << 10, 100}},
		{autograd.Work{Scratch: 40000, Chunks: 2}, []int64{40000, 40000}},
		{autograd.Work{Scratch: 40000, Shared: 8, Chunks: 1}, []int64{40008}},
		{autograd.Work{Shared: 1 << 20, Chunks: 9}, []int64{1 << 20}},
		{autograd.Work{Chunks: 9}, nil},
	} {
		t.Run(fmt.Sprint(c.work), func(t *testing.T) {
			r := newRig(t, memory.Config{})
			defer r.close()
			use := func(s *autograd.Scope) { s.Run(site, c.work, func(run *autograd.Run) { fill(t, run, c.work) }) }
			var sizes []int64
			for _, e := range r.trace(use) {
				if e.Act == memory.Alloc {
					sizes = append(sizes, e.Bytes)
				}
			}
			require.Equal(t, c.sizes, sizes)
			for k := range c.sizes {
				r.dev.FailAt(int64(k + 1))
				r.fails(use, "test", "memory")
			}
		})
	}
}

// fill writes all scratch and checks that nothing was written twice.
func fill(t *testing.T, run *autograd.Run, w autograd.Work) {
	all := [][]byte{run.Shared()}
	require.Len(t, run.Shared(), int(w.Shared))
	for i := range w.Chunks {
		if w.Scratch == 0 || i == 8 {
			break
		}
		require.Len(t, run.Lane(i), int(w.Scratch+63)&^63)
		all = append(all, run.Lane(i))
	}
	for i, b := range all {
		for k := range b {
			b[k] = byte(i + 1)
		}
	}
	for i, b := range all {
		for k := range b {
			if b[k] != byte(i+1) {
				t.Fatalf("byte %d of piece %d is in piece %d too", k, i, b[k]-1)
			}
		}
	}
}
