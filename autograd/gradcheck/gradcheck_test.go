package gradcheck_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/autograd/gradcheck"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func TestCheckRestoresAndNamesTheElement(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 20})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	require.NoError(t, err)
	x, err := tensor.From(dev, memory.Input, memory.Site{}, []float64{-1, 0, 2}, 3)
	require.NoError(t, err)
	live, rand := dev.Stats().Live, sess.Rand()
	cube := func(op cubeOp) gradcheck.Func {
		return func(s *autograd.Scope, in []*autograd.Value) []*autograd.Value {
			return []*autograd.Value{autograd.Apply(s, op, in[0])}
		}
	}
	require.NoError(t, gradcheck.Check(sess, cube(cubeOp{}), []*tensor.Tensor{x}, gradcheck.Config{}))
	err = gradcheck.Check(sess, cube(cubeOp{wrong: true}), []*tensor.Tensor{x}, gradcheck.Config{})
	require.ErrorContains(t, err, "gradient of input 0 float64[3] at element 0")
	err = gradcheck.Check(sess, cube(cubeOp{}), []*tensor.Tensor{x}, gradcheck.Config{Fixed: []int{0}})
	require.ErrorContains(t, err, "no output requires a gradient")
	require.Equal(t, []float64{-1, 0, 2}, tensor.Data[float64](x))
	require.Equal(t, live, dev.Stats().Live)
	require.Equal(t, rand, sess.Rand())
}
