//go:build !race

// Under the race detector Go's heap has more in it.

package ops_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// A tiny op takes next to nothing of Go's heap: one slab of values and one of buffers in 64 ops.
func TestTinyOpTakesLittleOfGoHeap(t *testing.T) {
	const n = 4096
	r := newRig(t, autograd.Config{Workers: 1})
	defer r.close()
	x := r.tensor(floats(2, 4).values(1), tensor.Float32)
	row := r.tensor(floats(4).values(2), tensor.Float32)
	defer x.Release()
	defer row.Release()
	var mallocs uint64
	for range 2 { // the first fills the session's pools
		r.ok(func(s *autograd.Scope) {
			v, broadcast := s.Input(x), s.Input(row)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range n {
				s.Free(ops.Add(s, v, v))
				s.Free(ops.Add(s, v, broadcast))
			}
			runtime.ReadMemStats(&after)
			mallocs = after.Mallocs - before.Mallocs
		})
	}
	require.Less(t, float64(mallocs)/(2*n), 0.2)
}
