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

var site = memory.Site{Op: "test"}

// rig is a device with a session.
type rig struct {
	t    *testing.T
	dev  *memory.Device
	sess *autograd.Session
}

func newRig(t *testing.T, seed uint64) *rig {
	t.Helper()
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 30})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: seed, Workers: 2})
	require.NoError(t, err)
	return &rig{t, dev, sess}
}

// close checks that nothing was left behind.
func (r *rig) close() {
	r.t.Helper()
	require.NoError(r.t, r.sess.Close())
	require.NoError(r.t, r.dev.Close())
}

func floats[T tensor.Elem](r *rig, data []T, shape ...int) *tensor.Tensor {
	r.t.Helper()
	t, err := tensor.From(r.dev, memory.Input, site, data, shape...)
	require.NoError(r.t, err)
	return t
}

// uniform is an input of n random numbers.
func (r *rig) uniform(dt tensor.DType, shape ...int) *tensor.Tensor {
	r.t.Helper()
	t, err := tensor.New(r.dev, memory.Input, site, tensor.Of(dt, shape...))
	require.NoError(r.t, err)
	require.NoError(r.t, tensor.FillUniform(t, &tensor.Stream{Seed: 9}, -1, 1))
	return t
}

func (r *rig) param(shape ...int) *autograd.Param {
	r.t.Helper()
	p, err := r.sess.NewParam("new", tensor.Of(tensor.Float64, shape...), nn.Uniform(-1, 1))
	require.NoError(r.t, err)
	return p
}

func (r *rig) linear(in, out int, cfg ...nn.LinearConfig) *nn.Linear {
	r.t.Helper()
	l, err := nn.NewLinear(r.sess, in, out, cfg...)
	require.NoError(r.t, err)
	return l
}

func (r *rig) norm(n int, cfg ...nn.LayerNormConfig) *nn.LayerNorm {
	r.t.Helper()
	l, err := nn.NewLayerNorm(r.sess, n, cfg...)
	require.NoError(r.t, err)
	return l
}

func (r *rig) embedding(rows, dim int, cfg ...nn.EmbeddingConfig) *nn.Embedding {
	r.t.Helper()
	l, err := nn.NewEmbedding(r.sess, rows, dim, cfg...)
	require.NoError(r.t, err)
	return l
}

func (r *rig) step(f func(s *autograd.Scope)) error {
	return r.sess.Step(context.Background(), func(s *autograd.Scope) error { f(s); return nil })
}

func (r *rig) ok(f func(s *autograd.Scope)) {
	r.t.Helper()
	require.NoError(r.t, r.step(f))
}

// forward is m's result on x, as float64.
func (r *rig) forward(m nn.Module, x *tensor.Tensor) (shape []int, y []float64) {
	r.t.Helper()
	r.ok(func(s *autograd.Scope) {
		v := m.Forward(s, s.Input(x))
		shape, y = v.Shape(), values(r.t, v.Tensor())
	})
	return shape, y
}

// values is every element of t.
func values(t *testing.T, x *tensor.Tensor) []float64 {
	t.Helper()
	c, err := x.To(tensor.Float64, memory.Other, site)
	require.NoError(t, err)
	defer c.Release()
	return append([]float64(nil), tensor.Data[float64](c)...)
}

func names(m any) (list []string) {
	for name := range nn.NamedParams(m) {
		list = append(list, name)
	}
	return list
}

// module is a Module from a function.
type module func(s *autograd.Scope, x *autograd.Value) *autograd.Value

func (f module) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value { return f(s, x) }
