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

// A forward and backward pass of a GPT (4 blocks of 256 channels, 4 x 128 tokens) in float32, under autocast, and wholly in
// bfloat16: its time, and at the highest instant what is live beside parameters and their gradients, and how much of that is
// for an instant only.
func BenchmarkGPTByDType(b *testing.B) {
	for _, c := range []struct {
		name string
		dt   tensor.DType
		cast autograd.CastPolicy
	}{
		{"float32", tensor.Float32, autograd.CastPolicy{}},
		{"autocast", tensor.Float32, autograd.CastPolicy{Low: tensor.BFloat16}},
		{"bfloat16", tensor.BFloat16, autograd.CastPolicy{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 30})
			require.NoError(b, err)
			sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1})
			require.NoError(b, err)
			m, err := nn.NewGPT(sess, nn.GPTConfig{Vocab: 512, Context: 128, Dim: 256, Heads: 4, Layers: 4, DType: c.dt})
			require.NoError(b, err)
			x, err := tensor.Zeros(dev, memory.Input, site, tensor.Of(tensor.Int64, 4, 128))
			require.NoError(b, err)
			step := func(s *autograd.Scope) error {
				m.Loss(s.WithAutocast(c.cast), s.Input(x), s.Input(x)).Backward(s)
				return nil
			}
			require.NoError(b, sess.Step(context.Background(), step)) // gradients are there
			var most, instant int64
			dev.SetTrace(func(memory.Event) {
				k := dev.Stats().LiveByKind
				most = max(most, k[memory.Temporary]+k[memory.Activation]+k[memory.Scratch])
				instant = max(instant, k[memory.Temporary]+k[memory.Scratch])
			})
			require.NoError(b, sess.Step(context.Background(), step))
			dev.SetTrace(nil)
			for b.Loop() {
				require.NoError(b, sess.Step(context.Background(), step))
			}
			b.ReportMetric(float64(most)/(1<<20), "peak-MiB")
			b.ReportMetric(float64(instant)/(1<<20), "instant-MiB")
			x.Release()
			require.NoError(b, sess.Close())
			require.NoError(b, dev.Close())
		})
	}
}
