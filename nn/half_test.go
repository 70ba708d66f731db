package nn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// halfModels make a model of each kind with its loss on a batch.
var halfModels = map[string]func(r *rig, dt tensor.DType) (any, func(s *autograd.Scope) *autograd.Value){
	"gpt": func(r *rig, dt tensor.DType) (any, func(s *autograd.Scope) *autograd.Value) {
		m, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 11, Context: 8, Dim: 16, Heads: 2, Layers: 2, Dropout: 0.1, DType: dt})
		require.NoError(r.t, err)
		x, y := r.words(11)
		return m, func(s *autograd.Scope) *autograd.Value { return m.Loss(s, s.Input(x), s.Input(y)) }
	},
	"llama": func(r *rig, dt tensor.DType) (any, func(s *autograd.Scope) *autograd.Value) {
		m, err := nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: 11, Dim: 16, Heads: 2, Layers: 2, Hidden: 24, DType: dt})
		require.NoError(r.t, err)
		x, y := r.words(11)
		return m, func(s *autograd.Scope) *autograd.Value { return m.Loss(s, s.Input(x), s.Input(y)) }
	},
	"vit": func(r *rig, dt tensor.DType) (any, func(s *autograd.Scope) *autograd.Value) {
		m, err := nn.NewViT(r.sess, nn.ViTConfig{Image: 8, Patch: 4, Channels: 3, Dim: 16, Heads: 2, Layers: 2, Classes: 5, DType: dt})
		require.NoError(r.t, err)
		x, y := r.uniform(dt, 4, 3, 8, 8), floats(r, []int64{0, 1, 2, 3}, 4)
		return m, func(s *autograd.Scope) *autograd.Value {
			return ops.CrossEntropy(s, m.Forward(s, s.Input(x)), s.Input(y))
		}
	},
	"convnet": func(r *rig, dt tensor.DType) (any, func(s *autograd.Scope) *autograd.Value) {
		conv, err := nn.NewConv2D(r.sess, 3, 6, 3, nn.Conv2DConfig{DType: dt, Padding: 1})
		require.NoError(r.t, err)
		bn, err := nn.NewBatchNorm(r.sess, 6, nn.BatchNormConfig{DType: dt})
		require.NoError(r.t, err)
		gn, err := nn.NewGroupNorm(r.sess, 2, 6, nn.GroupNormConfig{DType: dt})
		require.NoError(r.t, err)
		m := nn.Sequential{conv, bn, gn, r.linear(8, 5, nn.LinearConfig{DType: dt})}
		x := r.uniform(dt, 4, 3, 8, 8)
		return m, func(s *autograd.Scope) *autograd.Value {
			return ops.Mean(s, ops.Square(s, m.Forward(s, s.Input(x))))
		}
	},
}

// words are a batch of tokens and their targets.
func (r *rig) words(vocab int64) (x, y *tensor.Tensor) {
	const n = 16
	a, b := make([]int64, n), make([]int64, n)
	for i := range int64(n) {
		a[i], b[i] = i*5%vocab, (i*5+5)%vocab
	}
	return floats(r, a, 2, 8), floats(r, b, 2, 8)
}

func differ(a, b []float64) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

// A model wholly in a half type begins with the values of the float32 model, rounded once, and trains.
func TestModelsInHalf(t *testing.T) {
	for name, build := range halfModels {
		for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
			r, twin := newRig(t, 1), newRig(t, 1)
			m, loss := build(r, dt)
			wide, _ := build(twin, tensor.Float32)
			for i, p := range nn.AllParams(m) {
				require.Equal(t, dt, p.Spec().DType, "%s %s", name, p.Name())
				q, err := nn.AllParams(wide)[i].Tensor().To(dt, memory.Other, site)
				require.NoError(t, err)
				// all but the few that rounding would bring to the excluded end of a uniform distribution
				require.LessOrEqual(t, differ(values(t, q), values(t, p.Tensor())), 1+p.Spec().Elems()/100, "%s %s", name, p.Name())
				q.Release()
			}
			half := optim.RoundStochastic
			if dt == tensor.Float16 { // second moments below 6e-8 would be 0
				half = optim.MasterWeights
			}
			opt, err := optim.NewAdamW(nn.Params(m), optim.AdamWConfig{LR: 1e-2, Half: half})
			require.NoError(t, err)
			var losses []float64
			step := func(s *autograd.Scope) error {
				l := loss(s)
				if !s.Dry() {
					v, err := l.Tensor().Item()
					require.NoError(t, err)
					losses = append(losses, v)
				}
				l.Backward(s)
				for _, p := range opt.Params() {
					require.Equal(t, dt, p.Grad().DType())
				}
				defer opt.ZeroGrad(s)
				return opt.Step(s)
			}
			plantest.Compare(t, r.sess, step)
			for range 20 {
				require.NoError(t, r.sess.Step(t.Context(), step))
			}
			r.ok(func(s *autograd.Scope) { require.False(t, math.IsNaN(loss(s.Eval()).Item())) })
			last := losses[len(losses)-1]
			require.Less(t, last, 0.9*losses[0], "%s %s: %v", name, dt, losses)
			require.False(t, math.IsNaN(last))
		}
	}
}

// Batch norm under autocast: a half type in, float32 statistics.
func TestBatchNormUnderAutocast(t *testing.T) {
	r, twin := newRig(t, 1), newRig(t, 1)
	_, low := halfModels["convnet"](r, tensor.Float32)
	_, full := halfModels["convnet"](twin, tensor.Float32)
	for _, mode := range []func(*autograd.Scope) *autograd.Scope{
		func(s *autograd.Scope) *autograd.Scope { return s }, (*autograd.Scope).Eval,
	} {
		var got, want float64
		r.ok(func(s *autograd.Scope) {
			got = low(mode(s).WithAutocast(autograd.CastPolicy{Low: tensor.BFloat16})).Item()
		})
		twin.ok(func(s *autograd.Scope) { want = full(mode(s)).Item() })
		require.InEpsilon(t, want, got, 0.02)
	}
}

// An average of a half type moves by less than the type can hold, and a swap brings the value back to the bit.
func TestEMAOfHalves(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		r := newRig(t, 1)
		p, err := r.sess.NewParam("p", tensor.Of(dt, 3), nn.Constant(1))
		require.NoError(t, err)
		before := r.dev.Stats().Live
		e, err := nn.NewEMA([]*autograd.Param{p}, 0.999)
		require.NoError(t, err)
		require.EqualValues(t, 12, r.dev.Stats().Live-before)
		require.NoError(t, tensor.Fill(p.Tensor(), 3))
		plantest.Compare(t, r.sess, func(s *autograd.Scope) error { e.Update(s); return nil })
		done := 2 // a Compare is that many steps
		for range 1000 - done {
			r.ok(e.Update)
		}
		want := 3 - 2*math.Pow(0.999, 1000)
		require.InDelta(t, want, values(t, e.State()[0].Tensor)[0], 1e-3)

		avg, live := values(t, e.State()[0].Tensor), r.dev.Stats().Live
		require.NoError(t, e.Swap())
		require.InDelta(t, want, values(t, p.Tensor())[0], 0.01)
		require.EqualValues(t, 6, r.dev.Stats().Live-live)
		require.NoError(t, e.Swap())
		require.Equal(t, []float64{3, 3, 3}, values(t, p.Tensor()))
		require.Equal(t, avg, values(t, e.State()[0].Tensor))
		require.Equal(t, live, r.dev.Stats().Live)
		r.dev.FailAt(1)
		require.ErrorContains(t, e.Swap(), "nn: EMA.Swap: p: ")
		r.dev.FailAt(0)
		require.False(t, e.Swapped())
		require.Equal(t, []float64{3, 3, 3}, values(t, p.Tensor()))
		require.NoError(t, e.Swap())
		e.Close()
		require.Equal(t, before, r.dev.Stats().Live)
		r.close()
	}
}
