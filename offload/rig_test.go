package offload_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// rig is a training of a small GPT: B sequences of T tokens.
type rig struct {
	t      testing.TB
	dev    *memory.Device
	sess   *autograd.Session
	store  *offload.Store // of activations; nil: they stay
	model  *nn.GPT
	params []*autograd.Param
	opt    optim.Optimizer
	x, y   *tensor.Tensor
	loss   float64
}

const (
	B, T, V = 2, 16, 13
	width   = 32
	layers  = 3
)

func newRig(t testing.TB, virtual bool) *rig {
	t.Helper()
	r := &rig{t: t}
	var err error
	r.dev, err = memory.NewDevice(memory.Config{Reserve: 1 << 28, Virtual: virtual})
	require.NoError(t, err)
	r.sess, err = autograd.New(autograd.Config{Device: r.dev, Seed: 3, Workers: 2})
	require.NoError(t, err)
	r.build()
	words, targets := make([]int64, B*T), make([]int64, B*T)
	for i := range words {
		words[i], targets[i] = int64((i*i+3*i)%V), int64((i*5+1)%V)
	}
	at := memory.Site{Op: "batch"}
	r.x, err = tensor.From(r.dev, memory.Input, at, words, B, T)
	require.NoError(t, err)
	r.y, err = tensor.From(r.dev, memory.Input, at, targets, B, T)
	require.NoError(t, err)
	return r
}

// build makes the model.
func (r *rig) build() {
	r.t.Helper()
	var err error
	r.model, err = nn.NewGPT(r.sess, nn.GPTConfig{Vocab: V, Context: T, Dim: width, Layers: layers, Heads: 2, Dropout: 0.1})
	require.NoError(r.t, err)
	r.params = nn.Params(r.model)
}

// adamw gives the rig an optimizer.
func (r *rig) adamw() {
	r.t.Helper()
	var err error
	r.opt, err = optim.NewAdamW(r.params, optim.AdamWConfig{LR: 1e-2, WeightDecay: 0.1})
	require.NoError(r.t, err)
}

// open opens a store with blocks so small that tensors take several, closed when the test ends.
func (r *rig) open(c offload.Config) *offload.Store {
	r.t.Helper()
	c.Device = r.dev
	if c.Dir == "" {
		c.Dir = r.t.TempDir()
	}
	if c.Files == nil {
		c.Files = &faulty{} // through the page cache: faster
	}
	if c.BlockBytes == 0 {
		c.BlockBytes, c.MinBytes = 4096, 1
	}
	st, err := offload.Open(c)
	require.NoError(r.t, err)
	return st
}

func (r *rig) step(s *autograd.Scope) error {
	if r.store != nil {
		s = s.WithSaver(r.store)
	}
	loss := r.model.Loss(s, s.Input(r.x), s.Input(r.y))
	r.loss = loss.Item()
	loss.Backward(s)
	if err := r.opt.Step(s); err != nil {
		return err
	}
	r.opt.ZeroGrad(s)
	return nil
}

func (r *rig) run() error { return r.sess.Step(context.Background(), r.step) }

func (r *rig) ok(steps int) {
	r.t.Helper()
	for range steps {
		require.NoError(r.t, r.run())
	}
}

// values are all parameters, wherever they live.
func (r *rig) values() (all []float32) {
	r.t.Helper()
	for _, p := range r.params {
		w, err := p.Fetch()
		require.NoError(r.t, err)
		all = append(all, tensor.Data[float32](&w)...)
		w.Release()
	}
	return all
}

func (r *rig) same(want *rig, what string) {
	r.t.Helper()
	require.True(r.t, slices.Equal(want.values(), r.values()), "%s: other parameters", what)
	require.Equal(r.t, want.loss, r.loss, what)
}

// close ends everything and finds what was left.
func (r *rig) close() {
	r.t.Helper()
	if r.store != nil {
		require.NoError(r.t, r.store.Close())
	}
	r.x.Release()
	r.y.Release()
	require.NoError(r.t, r.sess.Close())
	require.NoError(r.t, r.dev.Close())
}
