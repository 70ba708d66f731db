package laws

import (
	"context"
	"fmt"
	"hash/fnv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// Sizes of the network. B sequences, T tokens, C channels, V words.
const (
	micro      = 3
	blocks     = 4
	B, T, C, V = 4, 3, 8, 11
)

// block is x += dropout(fc2(gelu(a) + g)), where a and g are the halves of fc1(norm(x)).
type block struct {
	Norm     *nn.LayerNorm
	FC1, FC2 *nn.Linear
	Drop     nn.Dropout
}

func (m *block) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	h := ops.Split(s, m.FC1.Forward(s, m.Norm.Forward(s, x)), -1, 2)
	h2 := ops.Add(s, ops.GELU(s, h[0]), ops.ReLU(s, h[1]))
	return ops.AddInPlace(s, m.Drop.Forward(s, m.FC2.Forward(s, h2)), x)
}

// net is an embedding, blocks, and the embedding's table again as the head.
type net struct {
	Embed  *nn.Embedding
	Pos    *autograd.Param // [T C], broadcast over the batch
	Blocks []*block
	Norm   *nn.LayerNorm

	around func(s *autograd.Scope, x *autograd.Value, block nn.Forward) *autograd.Value // runs a block
}

// again recomputes a block: a region in which lies another, with what is dear kept.
func again(s *autograd.Scope, x *autograd.Value, block nn.Forward) *autograd.Value {
	return checkpoint.Run1(s, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		return checkpoint.Run1(s, block, x, checkpoint.With(checkpoint.DearOnly))
	}, x)
}

// plainly runs a block.
func plainly(s *autograd.Scope, x *autograd.Value, block nn.Forward) *autograd.Value {
	return block(s, x)
}

func newNet(sess *autograd.Session) (*net, error) {
	m := &net{around: plainly}
	var err error
	if m.Embed, err = nn.NewEmbedding(sess, V, C); err != nil {
		return nil, err
	}
	m.Pos, err = sess.NewParam("pos", tensor.Of(tensor.Float32, T+1, C), func(t *tensor.Tensor, r *tensor.Stream) error {
		return tensor.FillNormal(t, r, 0, 1)
	})
	if err != nil {
		return nil, err
	}
	for range blocks {
		b := &block{Drop: nn.Dropout{P: 0.2}}
		if b.Norm, err = nn.NewLayerNorm(sess, C); err != nil {
			return nil, err
		}
		if b.FC1, err = nn.NewLinear(sess, C, 4*C); err != nil {
			return nil, err
		}
		if b.FC2, err = nn.NewLinear(sess, 2*C, C); err != nil {
			return nil, err
		}
		m.Blocks = append(m.Blocks, b)
	}
	m.Norm, err = nn.NewLayerNorm(sess, C)
	return m, err
}

// Loss takes words [B T] and their targets.
func (m *net) Loss(s *autograd.Scope, words, targets *autograd.Value, tick func()) *autograd.Value {
	return s.Do("net", func(s *autograd.Scope) *autograd.Value {
		pos := ops.Slice(s, m.Pos.Value(), 0, 0, T)
		x := ops.Add(s, m.Embed.Forward(s, words), pos)
		for i, b := range m.Blocks {
			x = s.Do(fmt.Sprint("blocks.", i), func(s *autograd.Scope) *autograd.Value { return m.around(s, x, b.Forward) })
			tick()
		}
		return ops.CrossEntropy(s, ops.Linear(s, m.Norm.Forward(s, x), m.Embed.Weight.Value(), nil), targets)
	})
}

// rig is a training run.
type rig struct {
	t      testing.TB
	dev    *memory.Device
	sess   *autograd.Session
	net    *net
	opt    *optim.AdamW
	window *train.Window
	params []*autograd.Param
	x, y   [micro]*tensor.Tensor
	state  int64  // bytes of the optimizer's state
	tick   func() // called in the middle of things
	loss   float64
}

type config struct {
	memory    memory.Config
	lanes     int
	work      int
	recompute bool // blocks
}

func newRig(t testing.TB, c config) *rig {
	t.Helper()
	if c.memory.Reserve == 0 {
		c.memory.Reserve = 1 << 28
	}
	r := &rig{t: t, tick: func() {}}
	var err error
	r.dev, err = memory.NewDevice(c.memory)
	require.NoError(t, err)
	r.sess, err = autograd.New(autograd.Config{Device: r.dev, Seed: 7, Workers: c.work, Lanes: c.lanes})
	require.NoError(t, err)
	r.net, err = newNet(r.sess)
	require.NoError(t, err)
	if c.recompute {
		r.net.around = again
	}
	r.params = nn.Params(r.net)
	before := r.dev.Stats().Live
	r.opt, err = optim.NewAdamW(r.params, optim.AdamWConfig{LR: 1e-2, WeightDecay: 0.01})
	require.NoError(t, err)
	r.state = r.dev.Stats().Live - before
	r.window, err = train.NewWindow(r.opt, train.WindowConfig{Micro: micro})
	require.NoError(t, err)
	for m := range micro {
		words := make([]int64, B*T)
		targets := make([]int32, B*T)
		for i := range words {
			words[i] = int64((i*7 + m*3 + i*i) % V)
			targets[i] = int32((i*5 + m) % V)
		}
		targets[m] = ops.IgnoreIndex
		r.x[m], err = tensor.From(r.dev, memory.Input, memory.Site{Op: "words"}, words, B, T)
		require.NoError(t, err)
		r.y[m], err = tensor.From(r.dev, memory.Input, memory.Site{Op: "targets"}, targets, B, T)
		require.NoError(t, err)
	}
	return r
}

func (r *rig) close() {
	r.t.Helper()
	for m := range micro {
		r.x[m].Release()
		r.y[m].Release()
	}
	require.NoError(r.t, r.sess.Close())
	require.NoError(r.t, r.dev.Close())
}

// step is a whole window over the first n sequences of each micro-batch.
func (r *rig) step(n int) func(s *autograd.Scope) error {
	return func(s *autograd.Scope) error {
		r.loss = 0
		for m := range micro {
			x, err := r.x[m].Slice(0, 0, n)
			if err != nil {
				return err
			}
			y, err := r.y[m].Slice(0, 0, n)
			if err != nil {
				return err
			}
			loss := r.net.Loss(s, s.Input(&x), s.Input(&y), r.tick)
			r.loss += loss.Item() / micro
			r.tick()
			if _, err := r.window.Backward(s, loss); err != nil {
				return err
			}
			r.tick()
		}
		return nil
	}
}

func (r *rig) run(n int) error { return r.sess.Step(context.Background(), r.step(n)) }

func (r *rig) ok(n int) {
	r.t.Helper()
	require.NoError(r.t, r.run(n))
}

// owned is the bytes that objects own.
func (r *rig) owned() int64 {
	n := r.state
	for _, p := range r.params {
		n += p.Tensor().Bytes()
		if g := p.Grad(); g != nil {
			n += g.Bytes()
		}
	}
	for m := range micro {
		n += r.x[m].Bytes() + r.y[m].Bytes()
	}
	return n
}

// hash covers the bits of all parameters and the state of the streams.
func (r *rig) hash() uint64 {
	h := fnv.New64a()
	for _, p := range r.params {
		d := tensor.Data[float32](p.Tensor())
		h.Write(unsafe.Slice((*byte)(unsafe.Pointer(&d[0])), len(d)*4))
	}
	fmt.Fprint(h, r.sess.Rand(), r.window.Position())
	return h.Sum64()
}

// fewer is n, or a tenth of it under -short, as the race detector wants it.
func fewer(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}
