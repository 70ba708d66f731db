package data

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func tinyImages() *Images {
	return &Images{X: tiny()[setFiles[0]].Data, Y: []byte{4, 0, 2}, N: 3, H: 2, W: 2, Classes: 5}
}

func TestBatch(t *testing.T) {
	x, y := make([]float32, 8), make([]int64, 2)
	require.NoError(t, tinyImages().Batch([]int32{2, 0}, x, y, Norm{}))
	require.Equal(t, []float32{.2, .4, .6, .8, 0, 1, 0, 1}, x)
	require.Equal(t, []int64{2, 4}, y)
	require.NoError(t, tinyImages().Batch([]int32{1, 1}, x, y, Norm{Mean: .5, Std: .25}))
	require.InDeltaSlice(t, []float64{-1.98431, -1.96863, -1.95294, -1.93725, -1.98431, -1.96863, -1.95294, -1.93725}, x, 1e-5)
	require.Equal(t, []int64{0, 0}, y)
	require.NoError(t, tinyImages().Batch(nil, nil, nil, Norm{}))
}

func TestBatchRefuses(t *testing.T) {
	im := tinyImages()
	for _, c := range []struct {
		idx  []int32
		x, y int
		want string
	}{
		{[]int32{0, 1}, 7, 2, "batch of 2 images of 2x2: room for 7 pixels and 2 labels: want 8 and 2"},
		{[]int32{0, 1}, 8, 1, "room for 8 pixels and 1 labels: want 8 and 2"},
		{[]int32{0, 3}, 8, 2, "index 3 at 1: want 0 to 2"},
		{[]int32{-1}, 4, 1, "index -1 at 0"},
	} {
		x, y := make([]float32, c.x), make([]int64, c.y)
		require.ErrorContains(t, im.Batch(c.idx, x, y, Norm{}), c.want)
		require.Equal(t, make([]float32, c.x), x)
		require.Equal(t, make([]int64, c.y), y)
	}
}

func TestBatchAllocatesNothing(t *testing.T) {
	im, idx, x, y := tinyImages(), []int32{0, 1}, make([]float32, 8), make([]int64, 2)
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = im.Batch(idx, x, y, Norm{}) }))
}

func TestNorm(t *testing.T) {
	im := tinyImages()
	norm := im.Norm()
	x, y := make([]float32, 12), make([]int64, 3)
	require.NoError(t, im.Batch([]int32{0, 1, 2}, x, y, norm))
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	require.InDelta(t, 0, sum/12, 1e-6)
	require.InDelta(t, 1, math.Sqrt(squares/12), 1e-6)
	require.Equal(t, Norm{Mean: .2, Std: 1}, (&Images{X: []byte{51, 51, 51, 51}, N: 1, H: 2, W: 2}).Norm())
	require.Equal(t, Norm{Std: 1}, (&Images{}).Norm())
}

func BenchmarkBatch(b *testing.B) {
	im := &Images{X: make([]byte, 1000*784), Y: make([]byte, 1000), N: 1000, H: 28, W: 28}
	idx, x, y := Shuffle(1000, 1, 0)[:64], make([]float32, 64*784), make([]int64, 64)
	b.SetBytes(64 * 784)
	for b.Loop() {
		_ = im.Batch(idx, x, y, Norm{Mean: .1307, Std: .3081})
	}
}
