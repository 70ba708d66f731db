//go:build !race

// Under the race detector the arena is on Go's heap.

package nn_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
)

// A step of training takes little of Go's heap, and nothing whose size follows from the data: about 4 objects and 450 bytes
// for each op of a layer and its backward, whatever the layer's width.
func TestStepsTakeLittleOfGoHeap(t *testing.T) {
	cfg := nn.GPTConfig{Vocab: 11, Context: 6, Dim: 8, Heads: 2, Layers: 4, Dropout: 0.1}
	objects, bytes := heapOfSteps(t, cfg)
	require.Less(t, objects, 300.0*float64(cfg.Layers))
	require.Less(t, bytes, 32e3*float64(cfg.Layers))
	cfg.Dim = 128 // parameters of 200 KiB a layer, and activations of 100
	_, wide := heapOfSteps(t, cfg)
	require.Less(t, wide-bytes, 3e3*float64(cfg.Layers)) // more chunks are handed out
}

// heapOfSteps trains a GPT and is what a step takes of Go's heap once it has run a few times.
func heapOfSteps(t *testing.T, cfg nn.GPTConfig) (objects, bytes float64) {
	const steps = 10
	r := newRig(t, 1)
	defer r.close()
	model, err := nn.NewGPT(r.sess, cfg)
	require.NoError(t, err)
	m := tokens(r, model, model)
	defer m.close()
	opt, err := optim.NewAdamW(nn.AllParams(model), optim.AdamWConfig{LR: 1e-3})
	require.NoError(t, err)
	run := func() {
		for range steps {
			require.NoError(t, r.sess.Step(context.Background(), func(s *autograd.Scope) error {
				m.loss(s).Backward(s)
				if err := opt.Step(s); err != nil {
					return err
				}
				opt.ZeroGrad(s)
				return nil
			}))
		}
	}
	run()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / steps, float64(after.TotalAlloc-before.TotalAlloc) / steps
}
