package offload_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// BenchmarkMicroBatches is the offload rung of examples/ladder: an update of a small vision transformer in bfloat16 with 16
// micro-batches of 8 images, blocks recomputed, activations, parameters and gradients in files. Its tensors have a few pages
// each, so that the number of transfers counts, and how many are under way.
//
//	go test ./offload -run xxx -bench MicroBatches -benchtime 10x
func BenchmarkMicroBatches(b *testing.B) {
	b.Run("device", func(b *testing.B) { microBatches(b, func(*memory.Device) *offload.Store { return nil }) })
	b.Run("disk", func(b *testing.B) {
		moved := map[offload.Move]int{}
		var st *offload.Store
		microBatches(b, func(dev *memory.Device) (opened *offload.Store) {
			var err error
			st, err = offload.Open(offload.Config{Device: dev, Tier: offload.Disk, BlockBytes: 32 << 10, MinBytes: 4 << 10, Dir: b.TempDir(),
				Trace: func(t offload.Transfer) { moved[t.Move]++ }})
			require.NoError(b, err)
			return st
		})
		n, s := float64(b.N+1), st.Stats() // and the first update
		b.ReportMetric(float64(s.Stall.Milliseconds())/n, "stall-ms/op")
		b.ReportMetric(float64(s.Misses)/n, "misses/op")
		b.ReportMetric(float64(moved[offload.Read])/n, "reads/op")
		b.ReportMetric(float64(moved[offload.Write])/n, "writes/op")
	})
}

// microBatches times updates with all in the store that open gives, or nothing if that is nil.
func microBatches(b *testing.B, open func(*memory.Device) *offload.Store) {
	const micro, images = 16, 8
	dev, err := memory.NewDevice(memory.Config{})
	require.NoError(b, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1})
	require.NoError(b, err)
	st := open(dev)
	var home autograd.Home
	if st != nil {
		home = st
	}
	var m *nn.ViT
	require.NoError(b, sess.BuildIn(home, func() (err error) {
		m, err = nn.NewViT(sess, nn.ViTConfig{Image: 28, Patch: 7, Channels: 1, Dim: 32, Heads: 2, Layers: 6, Classes: 10, DType: tensor.BFloat16})
		return err
	}))
	m.Chain = checkpoint.Chain(checkpoint.PerBlock)
	opt, err := optim.NewSGD(nn.Params(m), optim.SGDConfig{LR: 0.1, Half: optim.RoundStochastic})
	require.NoError(b, err)
	w, err := train.NewWindow(opt, train.WindowConfig{Micro: micro})
	require.NoError(b, err)
	x, err := tensor.New(dev, memory.Input, memory.Site{}, tensor.Of(tensor.BFloat16, images, 1, 28, 28))
	require.NoError(b, err)
	require.NoError(b, tensor.FillUniform(x, &tensor.Stream{Seed: 1}, 0, 1))
	y, err := tensor.Zeros(dev, memory.Input, memory.Site{}, tensor.Of(tensor.Int64, images))
	require.NoError(b, err)
	update := func(s *autograd.Scope) error {
		for range micro {
			f := s
			if st != nil {
				f = s.WithSaver(st)
			}
			loss := m.Loss(f, s.Input(x), s.Input(y))
			if _, err := w.Backward(s, loss); err != nil {
				return err
			}
			s.Free(loss)
		}
		return nil
	}
	require.NoError(b, sess.Step(b.Context(), update)) // what is asked for is known from here on
	for b.Loop() {
		require.NoError(b, sess.Step(b.Context(), update))
	}
	x.Release()
	y.Release()
	if st != nil {
		require.NoError(b, st.Close())
	}
	require.NoError(b, sess.Close())
	require.NoError(b, dev.Close())
}
