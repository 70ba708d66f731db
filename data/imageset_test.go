package data

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func tinyImages() *Images {
	return &Images{X: tiny()[setFiles[0]].Data, Y: []byte{4, 0, 2}, N: 3, H: 2, W: 2, Classes: 5}
}

// whole is the one batch of all items of ds in the order of idx.
func whole(t testing.TB, ds Dataset, idx ...int32) (x []float32, y []int64) {
	t.Helper()
	d := device(t)
	l, err := NewLoader(d, ds, LoaderConfig{BatchSampler: func(int) [][]int32 { return [][]int32{idx} }})
	require.NoError(t, err)
	for b, err := range l.Epoch(t.Context(), 0) {
		require.NoError(t, err)
		if b.X.DType() == tensor.Float32 {
			x = append(x, tensor.Data[float32](b.X)...)
		}
		y = append(y, tensor.Data[int64](b.Y)...)
	}
	return x, y
}

func device(t testing.TB) *memory.Device {
	d, err := memory.NewDevice(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func TestImageDataset(t *testing.T) {
	ds, err := tinyImages().Dataset(Norm{})
	require.NoError(t, err)
	require.Equal(t, []tensor.Spec{tensor.Of(tensor.Float32, 1, 2, 2), {DType: tensor.Int64}}, ds.Fields())
	x, y := whole(t, ds, 2, 0)
	require.Equal(t, []float32{.2, .4, .6, .8, 0, 1, 0, 1}, x)
	require.Equal(t, []int64{2, 4}, y)
	ds, err = tinyImages().Dataset(Norm{Mean: .5, Std: .25}, 4)
	require.NoError(t, err)
	require.Equal(t, tensor.Of(tensor.Float32, 4), ds.Fields()[0])
	x, y = whole(t, ds, 1, 1)
	require.InDeltaSlice(t, []float64{-1.98431, -1.96863, -1.95294, -1.93725, -1.98431, -1.96863, -1.95294, -1.93725}, x, 1e-5)
	require.Equal(t, []int64{0, 0}, y)

	_, err = tinyImages().Dataset(Norm{}, 5)
	require.ErrorContains(t, err, "data: Images.Dataset: shape [5] for images of 2x2: want 4 elements")
	_, err = tinyImages().Dataset(Norm{}, -2, -2)
	require.ErrorContains(t, err, "negative")
}

func TestNorm(t *testing.T) {
	im := tinyImages()
	ds, err := im.Dataset(im.Norm())
	require.NoError(t, err)
	x, _ := whole(t, ds, 0, 1, 2)
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

// An epoch of an MNIST of a thousand images, per image.
func BenchmarkImages(b *testing.B) {
	im := &Images{X: make([]byte, 1000*784), Y: make([]byte, 1000), N: 1000, H: 28, W: 28}
	ds, err := im.Dataset(Norm{Mean: .1307, Std: .3081})
	require.NoError(b, err)
	for name, workers := range map[string]int{"caller": 0, "2 workers": 2} {
		b.Run(name, func(b *testing.B) {
			l, err := NewLoader(device(b), ds, LoaderConfig{Batch: 64, Shuffle: true, Workers: workers})
			require.NoError(b, err)
			b.SetBytes(784 * 1000)
			for b.Loop() {
				for _, err := range l.Epoch(b.Context(), 0) {
					require.NoError(b, err)
				}
			}
		})
	}
}
