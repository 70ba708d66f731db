package checkpoint_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

var site = memory.Site{Op: "test"}

// rig is a device with a session.
type rig struct {
	t    testing.TB
	dev  *memory.Device
	sess *autograd.Session
}

func newRig(t testing.TB) *rig {
	t.Helper()
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 32})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 3, Workers: 2})
	require.NoError(t, err)
	return &rig{t, dev, sess}
}

// close checks that nothing was left behind.
func (r *rig) close() {
	r.t.Helper()
	require.NoError(r.t, r.sess.Close())
	require.NoError(r.t, r.dev.Close())
}

func (r *rig) step(f func(s *autograd.Scope)) error {
	return r.sess.Step(context.Background(), func(s *autograd.Scope) error { f(s); return nil })
}

func (r *rig) ok(f func(s *autograd.Scope)) {
	r.t.Helper()
	require.NoError(r.t, r.step(f))
}

// fails asks for an error of the step with these texts, after which nothing is left.
func (r *rig) fails(f func(s *autograd.Scope), texts ...string) {
	r.t.Helper()
	live := r.dev.Stats().Live
	err := r.step(f)
	for _, text := range texts {
		require.ErrorContains(r.t, err, text)
	}
	require.Equal(r.t, live, r.dev.Stats().Live)
}

// uniform is an input of random numbers.
func (r *rig) uniform(shape ...int) *tensor.Tensor {
	r.t.Helper()
	t, err := tensor.New(r.dev, memory.Input, site, tensor.Of(tensor.Float32, shape...))
	require.NoError(r.t, err)
	require.NoError(r.t, tensor.FillUniform(t, &tensor.Stream{Seed: 9}, -1, 1))
	return t
}

// ids is an input of numbers below n.
func (r *rig) ids(n int, shape ...int) *tensor.Tensor {
	r.t.Helper()
	data := make([]int64, tensor.Of(tensor.Int64, shape...).Elems())
	for i := range data {
		data[i] = int64(i * i % n)
	}
	t, err := tensor.From(r.dev, memory.Input, site, data, shape...)
	require.NoError(r.t, err)
	return t
}

func (r *rig) linear(in, out int) *nn.Linear {
	r.t.Helper()
	l, err := nn.NewLinear(r.sess, in, out)
	require.NoError(r.t, err)
	return l
}

func values(t testing.TB, x *tensor.Tensor) []float32 {
	t.Helper()
	c, err := x.Contiguous(memory.Other, site)
	require.NoError(t, err)
	defer c.Release()
	return append([]float32(nil), tensor.Data[float32](c)...)
}

// grads copies the gradients of m's parameters and clears them.
func grads(t testing.TB, m any) (list [][]float32) {
	t.Helper()
	for _, p := range nn.AllParams(m) {
		var g []float32
		if p.Grad() != nil {
			g = values(t, p.Grad())
		}
		list = append(list, g)
		p.ZeroGrad()
	}
	return list
}

// module is a Module from a function.
type module func(s *autograd.Scope, x *autograd.Value) *autograd.Value

func (f module) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value { return f(s, x) }

// task is a model with a loss.
type task struct {
	name  string
	model any
	chain func(nn.Chain) // sets the model's Chain; nil if it has none
	loss  func(s *autograd.Scope) *autograd.Value
	free  []*tensor.Tensor
}

func (k *task) close() {
	for _, t := range k.free {
		t.Release()
	}
}

// train runs steps of AdamW and gives the losses and the parameters at the end.
func (k *task) train(r *rig, steps int) (losses []float64, params [][]float32) {
	r.t.Helper()
	return k.trainHomes(r, steps, func() {})
}

// trainHomes is train; home brings the parameters back to the device.
func (k *task) trainHomes(r *rig, steps int, home func()) (losses []float64, params [][]float32) {
	r.t.Helper()
	opt, err := optim.NewAdamW(nn.Params(k.model), optim.AdamWConfig{LR: 1e-2, WeightDecay: 0.01})
	require.NoError(r.t, err)
	for range steps {
		require.NoError(r.t, r.sess.Step(context.Background(), func(s *autograd.Scope) error {
			loss := k.loss(s)
			losses = append(losses, loss.Item())
			loss.Backward(s)
			if err := opt.Step(s); err != nil {
				return err
			}
			opt.ZeroGrad(s)
			return nil
		}))
	}
	home()
	for _, p := range nn.AllParams(k.model) {
		params = append(params, values(r.t, p.Tensor()))
	}
	for _, b := range nn.NamedBuffers(k.model) {
		params = append(params, values(r.t, b))
	}
	return losses, params
}

func gptTask(r *rig, layers int) *task {
	r.t.Helper()
	m, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 17, Context: 6, Dim: 8, Heads: 2, Layers: layers, Dropout: 0.2})
	require.NoError(r.t, err)
	x, y := r.ids(17, 2, 6), r.ids(13, 2, 6)
	return &task{"gpt", m, func(c nn.Chain) { m.Chain = c },
		func(s *autograd.Scope) *autograd.Value { return m.Loss(s, s.Input(x), s.Input(y)) }, []*tensor.Tensor{x, y}}
}

func llamaTask(r *rig, layers int) *task {
	r.t.Helper()
	m, err := nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: 17, Dim: 8, Heads: 4, KVHeads: 2, Layers: layers, Hidden: 12})
	require.NoError(r.t, err)
	x, y := r.ids(17, 2, 6), r.ids(13, 2, 6)
	return &task{"llama", m, func(c nn.Chain) { m.Chain = c },
		func(s *autograd.Scope) *autograd.Value { return m.Loss(s, s.Input(x), s.Input(y)) }, []*tensor.Tensor{x, y}}
}

func vitTask(r *rig, layers int) *task {
	r.t.Helper()
	m, err := nn.NewViT(r.sess, nn.ViTConfig{Image: 4, Patch: 2, Dim: 8, Heads: 2, Layers: layers, Hidden: 12, Classes: 3, Dropout: 0.1})
	require.NoError(r.t, err)
	x, y := r.uniform(2, 3, 4, 4), r.ids(3, 2)
	return &task{"vit", m, func(c nn.Chain) { m.Chain = c },
		func(s *autograd.Scope) *autograd.Value { return m.Loss(s, s.Input(x), s.Input(y)) }, []*tensor.Tensor{x, y}}
}

// convTask is a convolutional network with batch norm; wrap may change its list of modules.
func convTask(r *rig, wrap func(nn.Sequential) nn.Module) *task {
	r.t.Helper()
	conv := func(in, out int) nn.Module {
		c, err := nn.NewConv2D(r.sess, in, out, 3, nn.Conv2DConfig{Padding: 1})
		require.NoError(r.t, err)
		return c
	}
	norm := func(n int) nn.Module {
		b, err := nn.NewBatchNorm(r.sess, n)
		require.NoError(r.t, err)
		return b
	}
	net := wrap(nn.Sequential{conv(1, 4), norm(4), nn.ReLU{}, nn.MaxPool2D{Size: 2}, conv(4, 6), norm(6), nn.ReLU{},
		nn.Dropout{P: 0.1}, nn.Flatten{}, r.linear(6*3*3, 4)})
	x, y := r.uniform(3, 1, 6, 6), r.ids(4, 3)
	return &task{"conv", net, nil, func(s *autograd.Scope) *autograd.Value {
		return ops.CrossEntropy(s, net.Forward(s, s.Input(x)), s.Input(y))
	}, []*tensor.Tensor{x, y}}
}

// convChain is convTask with a Chain: five blocks of its modules, each in a scope of its own, which frees what it takes.
func convChain(r *rig, _ int) *task {
	r.t.Helper()
	var blocks []nn.Forward
	var all nn.Sequential
	k := convTask(r, func(q nn.Sequential) nn.Module {
		all = q
		return q
	})
	for i, cut := range [][2]int{{0, 3}, {3, 4}, {4, 7}, {7, 9}, {9, 10}} {
		part := all[cut[0]:cut[1]]
		blocks = append(blocks, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			y := s.Do(fmt.Sprint(i), func(s *autograd.Scope) *autograd.Value { return part.Forward(s, x) })
			s.Free(x)
			return y
		})
	}
	chain := checkpoint.Chain(checkpoint.All)
	k.chain = func(c nn.Chain) { chain = c }
	x, y := k.free[0], k.free[1]
	k.loss = func(s *autograd.Scope) *autograd.Value {
		return ops.CrossEntropy(s, chain(s, s.Input(x), blocks), s.Input(y))
	}
	return k
}

// headOp is the sum of x, which it frees; nothing is saved.
func headOp(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	z := ops.Sum(s, x)
	s.Free(x)
	return z
}
