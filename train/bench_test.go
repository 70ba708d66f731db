package train_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// BenchmarkState saves and loads 4 parameters of 8 MiB with their moments: 96 MiB. Save waits for the disk.
//
//	go test ./train -run xxx -bench State
func BenchmarkState(b *testing.B) {
	dev, err := memory.NewDevice(memory.Config{})
	require.NoError(b, err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	require.NoError(b, err)
	defer func() { require.NoError(b, sess.Close()); require.NoError(b, dev.Close()) }()
	var ps []*autograd.Param
	for range 4 {
		p, err := sess.NewParam("p", tensor.Of(tensor.Float32, 1024, 2048), nil)
		require.NoError(b, err)
		g, err := tensor.Zeros(dev, memory.Grad, site, p.Spec())
		require.NoError(b, err)
		require.NoError(b, p.AdoptGrad(*g))
		ps = append(ps, p)
	}
	opt, err := optim.NewAdamW(ps, optim.AdamWConfig{LR: 1})
	require.NoError(b, err)
	require.NoError(b, sess.Step(b.Context(), func(s *autograd.Scope) error {
		err := opt.Step(s)
		opt.ZeroGrad(s)
		return err
	}))
	path := filepath.Join(b.TempDir(), "state")
	st := train.State{Model: ps, Optimizer: opt}
	b.Run("save", func(b *testing.B) {
		b.SetBytes(96 << 20)
		for b.Loop() {
			require.NoError(b, train.Save(path, st))
		}
	})
	b.Run("save without waiting", func(b *testing.B) {
		b.SetBytes(96 << 20)
		for b.Loop() {
			require.NoError(b, train.SaveTo(quick, path, st))
		}
	})
	b.Run("load", func(b *testing.B) {
		b.SetBytes(96 << 20)
		for b.Loop() {
			_, err := train.Load(path, st)
			require.NoError(b, err)
		}
	})
}
