package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// The fused head, the default of language models, gives the bits of the plain one and holds no logits.
func TestFusedHeadOfModels(t *testing.T) {
	const vocab = 301
	build := map[string]func(r *rig, plain bool) (any, nn.Module, error){
		"gpt": func(r *rig, plain bool) (any, nn.Module, error) {
			m, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: vocab, Context: 6, Dim: 8, Heads: 2, Layers: 1, PlainHead: plain})
			return m, m, err
		},
		"llama": func(r *rig, plain bool) (any, nn.Module, error) {
			m, err := nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: vocab, Dim: 8, Heads: 2, Layers: 1, Hidden: 12, PlainHead: plain})
			return m, m, err
		},
		"tied llama": func(r *rig, plain bool) (any, nn.Module, error) {
			m, err := nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: vocab, Dim: 8, Heads: 2, Layers: 1, Hidden: 12, PlainHead: plain, Tied: true})
			return m, m, err
		},
	}
	for name, make := range build {
		t.Run(name, func(t *testing.T) {
			var loss [2]float64
			var grads [2][][]float32
			var ops [2]map[string]bool
			for i, plain := range []bool{true, false} {
				r := newRig(t, 3)
				model, module, err := make(r, plain)
				require.NoError(t, err)
				m := tokens(r, model, module)
				ops[i] = map[string]bool{}
				r.ok(func(s *autograd.Scope) {
					l := m.loss(s)
					loss[i] = l.Item()
					for _, sv := range autograd.Saved(l) {
						ops[i][sv.Op] = true
					}
					l.Backward(s)
				})
				for _, p := range nn.Params(model) {
					grads[i] = append(grads[i], append([]float32(nil), tensor.Data[float32](p.Grad())...))
				}
				m.close()
				r.close()
			}
			require.Equal(t, loss[0], loss[1])
			require.Equal(t, grads[0], grads[1])
			require.True(t, ops[0]["cross_entropy"] && !ops[0]["linear_cross_entropy"])
			require.True(t, ops[1]["linear_cross_entropy"] && !ops[1]["cross_entropy"])
		})
	}
}
