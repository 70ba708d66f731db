package report_test

import (
	"cmp"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/memory/report"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// training is a GPT that learns, in micro-batches.
type training struct {
	t    testing.TB
	dev  *memory.Device
	sess *autograd.Session
	step func(*autograd.Scope) error
}

type trainingConfig struct {
	layers, micro    int
	dim, batch, time int // 0: 32, 2, 16
	limit            int64
	recompute        bool
}

func newTraining(t testing.TB, c trainingConfig) *training {
	t.Helper()
	batch, time, dim := cmp.Or(c.batch, 2), cmp.Or(c.time, 16), cmp.Or(c.dim, 32)
	dev, err := memory.NewDevice(memory.Config{Limit: c.limit, Reserve: 1 << 28})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1})
	require.NoError(t, err)
	model, err := nn.NewGPT(sess, nn.GPTConfig{Vocab: 64, Context: time, Dim: dim, Heads: 2, Layers: c.layers, Dropout: 0.1, PlainHead: true})
	require.NoError(t, err)
	if c.recompute {
		model.Wrap = func(s *autograd.Scope, _ int, x *autograd.Value, block nn.Forward) *autograd.Value {
			return checkpoint.Run1(s, block, x)
		}
	}
	opt, err := optim.NewAdamW(nn.Params(model), optim.AdamWConfig{LR: 1e-3})
	require.NoError(t, err)
	w, err := train.NewWindow(opt, train.WindowConfig{Micro: max(c.micro, 1)})
	require.NoError(t, err)
	x, err := tensor.Zeros(dev, memory.Input, memory.Site{Op: "batch"}, tensor.Of(tensor.Int64, batch, time))
	require.NoError(t, err)
	t.Cleanup(func() {
		x.Release()
		require.NoError(t, sess.Close())
		require.NoError(t, dev.Close())
	})
	return &training{t, dev, sess, func(s *autograd.Scope) error {
		for range max(c.micro, 1) {
			s.Do("", func(s *autograd.Scope) *autograd.Value {
				_, err = w.Backward(s, model.Loss(s, s.Input(x), s.Input(x)))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}}
}

// run runs a step.
func (r *training) run() {
	r.t.Helper()
	require.NoError(r.t, r.sess.Step(context.Background(), r.step))
}

// record records a step, from a fresh peak on.
func (r *training) record(c report.RecordConfig) *report.Recording {
	r.t.Helper()
	r.dev.ResetPeak()
	rec, err := report.Record(r.dev, c)
	require.NoError(r.t, err)
	r.run()
	return rec.Stop()
}
