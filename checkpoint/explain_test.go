package checkpoint_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
)

func TestExplain(t *testing.T) {
	host, err := memory.NewDevice(memory.Config{Name: "host", Reserve: 1 << 20})
	require.NoError(t, err)
	r := newRig(t)
	defer r.close()
	const n = 3
	m, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 7, Context: 8, Dim: 16, Heads: 2, Layers: n, Dropout: 0.1})
	require.NoError(t, err)
	x := r.ids(7, 2, 8)
	defer x.Release()
	const X, kept, dear = 2 * 8 * 16 * 4, (15*2*8*16 + 2*8*6) * 4, (9*2*8*16 + 2*8*2) * 4
	explain := func(chain nn.Chain) (blocks checkpoint.OpReport, e *checkpoint.Explanation) {
		m.Chain = chain
		before, rand := r.dev.Stats().Live, r.sess.Rand()
		e, err := checkpoint.Explain(r.sess, func(s *autograd.Scope) *autograd.Value { return m.Loss(s, s.Input(x), s.Input(x)) })
		require.NoError(t, err)
		require.Equal(t, before, r.dev.Stats().Live)
		require.Equal(t, rand, r.sess.Rand())
		var in checkpoint.Explanation
		for _, o := range e.Ops {
			require.NotContains(t, o.Scope, "recompute")
			if strings.Contains(o.Scope, "blocks.") || o.Op == "checkpoint" {
				in.Ops = append(in.Ops, o)
			}
		}
		return in.Total(), e
	}
	plain, _ := explain(nil)
	require.EqualValues(t, n*(X+kept), plain.Keeps)
	require.Zero(t, plain.Recomputes)
	require.Zero(t, plain.Again)
	require.NotZero(t, plain.Time)

	block, e := explain(checkpoint.Chain(checkpoint.PerBlock))
	require.EqualValues(t, n*X, block.Keeps)
	require.EqualValues(t, n*kept, block.Recomputes)
	// The second run of a block: layer_norm, linear, attention, linear, layer_norm, linear, gelu; dropout is in place.
	require.Equal(t, n*7, block.Again)
	require.Contains(t, e.String(), "scaled_dot_product_attention in loss/gpt/blocks.1/attention/attn")
	require.Contains(t, e.String(), "  total\n")

	deep, _ := explain(checkpoint.Chain(deep))
	require.EqualValues(t, X, deep.Keeps)
	require.Greater(t, deep.Again, block.Again)

	d, _ := explain(checkpoint.Chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearOnly)))
	require.EqualValues(t, n*(X+dear)+n*X, d.Keeps, "and the last linear's output, which is given back when the region ends")
	require.Equal(t, n*3, d.Again, "layer_norm, layer_norm, gelu")

	off, _ := explain(checkpoint.Chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearTo), checkpoint.OffloadTo(&hostSaver{host})))
	require.EqualValues(t, n*X, off.Keeps)
	require.EqualValues(t, n*(dear+X), off.Offloads)
	require.NoError(t, host.Close())

	_, err = checkpoint.Explain(r.sess, func(s *autograd.Scope) *autograd.Value { return s.Input(x) })
	require.ErrorContains(t, err, "does not require grad")
}
