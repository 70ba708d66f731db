package amp_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// model is a model with a batch.
type model struct {
	net  any
	loss func(s scope) value
	opt  *optim.AdamW
}

// languageModel is a small GPT or Llama, with dropout where there is one.
func languageModel(t *testing.T, r *rig, llama bool) *model {
	x, y := r.tensor(tensor.Int64, 2, 8), r.tensor(tensor.Int64, 2, 8)
	for i := range tensor.Data[int64](x) {
		tensor.Data[int64](x)[i], tensor.Data[int64](y)[i] = int64(i*5%11), int64((i*5+5)%11)
	}
	m := &model{}
	if llama {
		net, err := nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: 11, Dim: 16, Heads: 2, Layers: 2, Hidden: 24})
		require.NoError(t, err)
		m.net, m.loss = net, func(s scope) value { return net.Loss(s, s.Input(x), s.Input(y)) }
	} else {
		net, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 11, Context: 8, Dim: 16, Heads: 2, Layers: 2, Dropout: 0.1})
		require.NoError(t, err)
		m.net, m.loss = net, func(s scope) value { return net.Loss(s, s.Input(x), s.Input(y)) }
	}
	var err error
	m.opt, err = optim.NewAdamW(nn.Params(m.net), optim.AdamWConfig{LR: 1e-2, WeightDecay: 0.1})
	require.NoError(t, err)
	return m
}

// step is a training step under p, which gives its loss.
func (m *model) step(s scope, p autograd.CastPolicy) (float64, error) {
	loss := m.loss(s.WithAutocast(p))
	loss.Backward(s)
	defer m.opt.ZeroGrad(s)
	return loss.Item(), m.opt.Step(s)
}

// trained is the loss of the last of some steps, and the parameters' bits.
func trained(t *testing.T, llama bool, workers int, p autograd.CastPolicy) (last float64, bits []float32) {
	r := newRigWith(t, workers)
	m := languageModel(t, r, llama)
	for range 20 {
		require.NoError(t, r.sess.Step(context.Background(), func(s scope) (err error) {
			last, err = m.step(s, p)
			return err
		}))
	}
	for _, q := range nn.Params(m.net) {
		require.Equal(t, tensor.Float32, q.Spec().DType)
		bits = append(bits, tensor.Data[float32](q.Tensor())...)
	}
	return last, bits
}

// A model trains under autocast as without, to rounding; the same bits come out whatever the number of workers is.
func TestModelsUnderAutocast(t *testing.T) {
	for name, llama := range map[string]bool{"gpt": false, "llama": true} {
		plain, exact := trained(t, llama, 1, amp.Off)
		for _, p := range []autograd.CastPolicy{amp.BFloat16, amp.Float16} {
			one, bits := trained(t, llama, 1, p)
			require.NotEqual(t, exact, bits, "%s %s: nothing was rounded", name, p.Low)
			require.InEpsilon(t, plain, one, 0.05, "%s %s", name, p.Low)
			_, again := trained(t, llama, 2, p)
			require.Equal(t, bits, again, "%s %s", name, p.Low)
		}
	}
}

// Law M3 under autocast; and what is kept for backward gets smaller.
func TestDryRunUnderAutocast(t *testing.T) {
	for _, llama := range []bool{false, true} {
		var kept [2]int64
		for i, p := range []autograd.CastPolicy{amp.Off, amp.BFloat16} {
			r := newRig(t)
			m := languageModel(t, r, llama)
			plantest.Compare(t, r.sess, func(s scope) error { _, err := m.step(s, p); return err })
			r.ok(func(s scope) {
				for _, e := range autograd.Saved(m.loss(s.WithAutocast(p))) {
					kept[i] += e.Bytes
				}
			})
		}
		require.Less(t, float64(kept[1]), 0.8*float64(kept[0]))
	}
}

// The residual stream stays in float32, as torch's does: a half is added to it, not it to a half.
func TestResidualStream(t *testing.T) {
	r := newRig(t)
	x := r.tensor(tensor.Float32, 2, 4, 16)
	b, err := nn.NewBlock(r.sess, 16, 2, nn.BlockConfig{})
	require.NoError(t, err)
	r.ok(func(s scope) {
		low := s.WithAutocast(amp.BFloat16)
		y := b.Forward(low, s.Input(x))
		require.Equal(t, tensor.Float32, y.DType())
		want := b.Forward(s, s.Input(x)).Tensor()
		for i := range tensor.Data[float32](want) {
			w, g := tensor.Data[float32](want)[i], tensor.Data[float32](y.Tensor())[i]
			require.Less(t, math.Abs(float64(w-g)), 0.05)
		}
	})
}
