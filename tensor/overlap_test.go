package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Views overlap exactly if they have an element in common.
func TestOverlaps(t *testing.T) {
	d := device(t, memory.Config{})
	x, other := from(t, d, count[float32](4*6*5), 4, 6, 5), zeros(t, d, tensor.Float32, 4, 6, 5)
	var views []*tensor.Tensor
	for dim, n := range x.Shape() {
		for lo := range n {
			for _, hi := range []int{lo, lo + 1, n} {
				v := must(t)(x.Slice(dim, lo, hi))
				views = append(views, v, must(t)(v.Transpose(0, 2)))
			}
		}
	}
	views = append(views, must(t)(must(t)(x.Slice(1, 1, 3)).Slice(2, 1, 3)), must(t)(must(t)(x.Slice(1, 3, 6)).Slice(2, 2, 4)))
	seen := func(v *tensor.Tensor) map[float64]bool {
		set := map[float64]bool{}
		for _, e := range values(v) { // x counts its elements
			set[e] = true
		}
		return set
	}
	for _, a := range views {
		in := seen(a)
		for _, b := range views {
			common := false
			for e := range seen(b) {
				common = common || in[e]
			}
			require.Equal(t, common, a.Overlaps(b), "%v at %d and %v at %d", a, a.Offset(), b, b.Offset())
		}
		require.False(t, a.Overlaps(other))
	}
	require.False(t, new(tensor.Tensor).Overlaps(new(tensor.Tensor)))
}
