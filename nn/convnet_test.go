package nn_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

func TestConvNet(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 26})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	require.NoError(t, err)
	_, err = nn.NewConvNet(sess, nn.ConvNetConfig{Height: 3, Width: 28, Classes: 10})
	require.ErrorContains(t, err, "nn: NewConvNet: images of 3 x 28: want 4 x 4 or more")
	for n := int64(1); n <= 8; n++ { // a failed constructor gives everything back
		dev.FailAt(n)
		_, err = nn.NewConvNet(sess, nn.ConvNetConfig{Height: 8, Width: 8, Classes: 10})
		dev.FailAt(0)
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
		require.Zero(t, dev.Stats().Live)
	}
	net, err := nn.NewConvNet(sess, nn.ConvNetConfig{Height: 28, Width: 28, Classes: 10})
	require.NoError(t, err)
	require.EqualValues(t, 206_922, nn.NumParams(net))
	x, err := tensor.Zeros(dev, memory.Input, memory.Site{}, tensor.Of(tensor.Float32, 2, 1, 28, 28))
	require.NoError(t, err)
	require.NoError(t, sess.Step(context.Background(), func(s *autograd.Scope) error {
		require.Equal(t, []int{2, 10}, net.Forward(s, s.Input(x)).Shape())
		return nil
	}))
	x.Release()
	require.NoError(t, sess.Close())
	require.NoError(t, dev.Close())
}
