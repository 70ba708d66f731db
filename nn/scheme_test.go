package nn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// Each scheme has the variance and the range that its paper gives, for matrices and for kernels.
func TestInitSchemes(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 26})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 5})
	require.NoError(t, err)
	in, out := 20*9, 30*9 // of [30 20 3 3]
	for _, c := range []struct {
		name    string
		init    nn.Init
		std     float64
		uniform bool
	}{
		{"kaiming normal", nn.KaimingNormal(), math.Sqrt(2 / float64(in)), false},
		{"kaiming uniform", nn.KaimingUniform(), math.Sqrt(2 / float64(in)), true},
		{"xavier normal", nn.XavierNormal(), math.Sqrt(2 / float64(in+out)), false},
		{"xavier uniform", nn.XavierUniform(), math.Sqrt(2 / float64(in+out)), true},
	} {
		p, err := sess.NewParam(c.name, tensor.Of(tensor.Float64, 30, 20, 3, 3), c.init)
		require.NoError(t, err)
		var squares, largest float64
		data := tensor.Data[float64](p.Tensor())
		for _, v := range data {
			squares += v * v
			largest = max(largest, math.Abs(v))
		}
		require.InDelta(t, c.std, math.Sqrt(squares/float64(len(data))), 0.04*c.std, c.name)
		if bound := math.Sqrt(3) * c.std; c.uniform {
			require.LessOrEqual(t, largest, bound, c.name)
			require.Greater(t, largest, 0.99*bound, c.name)
		} else {
			require.Greater(t, largest, 2.5*c.std, c.name)
		}
	}
	_, err = sess.NewParam("vector", tensor.Of(tensor.Float32, 3), nn.XavierNormal())
	require.ErrorContains(t, err, "init of float32[3]: want a weight [out in ...]")
	require.NoError(t, sess.Close())
	require.NoError(t, dev.Close())
}
