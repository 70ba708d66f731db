package data

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShufflePermutes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 100, 60000} {
		order := Shuffle(n, 7, 3)
		require.Len(t, order, n)
		if n > 3 {
			require.False(t, slices.IsSorted(order))
		}
		slices.Sort(order)
		for i, v := range order {
			require.EqualValues(t, i, v)
		}
	}
	require.Nil(t, Shuffle(-1, 7, 3))
}

// Saved training states rely on the order: these values never change.
func TestShuffleIsPinned(t *testing.T) {
	require.Equal(t, Shuffle(1000, 1, 2), Shuffle(1000, 1, 2))
	require.NotEqual(t, Shuffle(1000, 1, 2), Shuffle(1000, 1, 3))
	require.NotEqual(t, Shuffle(1000, 1, 2), Shuffle(1000, 2, 2))
	require.Equal(t, []int32{7, 2, 1, 6, 11, 8, 0, 10, 4, 9, 5, 3}, Shuffle(12, 1, 0))
}

// Each of the 24 orders of 4 comes up equally often: chi-squared with 23 degrees of freedom, 99.9% below 49.7.
func TestShuffleIsUniform(t *testing.T) {
	const each = 500
	count := map[[4]int32]int{}
	for epoch := range uint64(24 * each) {
		count[[4]int32(Shuffle(4, 5, epoch))]++
	}
	require.Len(t, count, 24)
	var chi float64
	for _, c := range count {
		chi += math.Pow(float64(c-each), 2) / each
	}
	require.Less(t, chi, 49.7)
}

// With a bound of 3*2^30 a product without the second draw would favour every third number, two to one.
func TestBelowIsUnbiased(t *testing.T) {
	d := drawer{seed: 1, stream: 2}
	const n, draws = 3 << 30, 30000
	var by [3]int
	for range draws {
		v := d.below(n)
		require.Less(t, v, uint32(n))
		by[v%3]++
	}
	for _, c := range by {
		require.InDelta(t, draws/3, c, 400) // five standard deviations
	}
	require.Greater(t, d.offset, uint64(draws+draws/5), "a quarter of the words is drawn again")
}

func BenchmarkShuffle(b *testing.B) {
	for b.Loop() {
		Shuffle(60000, 1, 2)
	}
}
