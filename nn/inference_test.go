package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// most is the most bytes of results at once, scratch of kernels apart, in a forward pass of m on x; a dry run says the same.
func (r *rig) most(m nn.Module, x *tensor.Tensor, modes func(*autograd.Scope) *autograd.Scope) (most int64) {
	r.t.Helper()
	plan := plantest.Compare(r.t, r.sess, func(s *autograd.Scope) error { m.Forward(modes(s), s.Input(x)); return nil })
	live := map[uint64]int64{}
	var sum int64
	for _, e := range plan.Steps[1].Events {
		switch {
		case e.Act == memory.Alloc && e.Kind == memory.Temporary:
			live[e.ID] = e.Bytes
			most = max(most, sum+e.Bytes)
			sum += e.Bytes
		case e.Act == memory.Free:
			sum -= live[e.ID]
			delete(live, e.ID)
		}
	}
	return most
}

func noGrad(s *autograd.Scope) *autograd.Scope { return s.NoGrad() }

// Without gradients what lies between a linear layer and its activation, or between the projections of a gated one, is never
// made: of a block of width C and hidden width H = 4C, results of 6C a token are alive and not 9C; of a gated one of hidden
// width H, C + 2H besides the residual stream and not C + 3H.
func TestBlocksWithoutGradients(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	const tokens, dim, hidden = 24, 16, 64
	block, err := nn.NewBlock(r.sess, dim, 2, nn.BlockConfig{Dropout: 0.1})
	require.NoError(t, err)
	plain, err := nn.NewBlock(r.sess, dim, 2, nn.BlockConfig{})
	require.NoError(t, err)
	llama, err := nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: 3, Dim: dim, Heads: 2, Layers: 1, Hidden: hidden})
	require.NoError(t, err)
	x := r.uniform(tensor.Float32, 2, tokens/2, dim)
	defer x.Release()

	const row = 4 * tokens
	eval := func(s *autograd.Scope) *autograd.Scope { return s.NoGrad().Eval() }
	require.EqualValues(t, 6*dim*row, r.most(plain, x, noGrad))
	require.EqualValues(t, 6*dim*row, r.most(block, x, eval))
	require.EqualValues(t, 6*dim*row, r.most(block, x, noGrad)) // dropout between product and sum
	require.EqualValues(t, (2*dim+2*hidden)*row, r.most(llama.Layers[0], x, noGrad))
	mlp := nn.Sequential{r.linear(dim, hidden), nn.ReLU{}, r.linear(hidden, hidden), nn.GELU{}, r.linear(hidden, 4)}
	require.EqualValues(t, 2*hidden*row, r.most(mlp, x, noGrad))
}

// A Linear at the end, one behind which no activation stands, and an activation behind something else are what they were.
func TestFusedPairsOfASequential(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	x := r.uniform(tensor.Float32, 5, 8)
	defer x.Release()
	a, b := r.linear(8, 8), r.linear(8, 8)
	for _, c := range []struct {
		net  nn.Sequential
		want []string // ops and their scopes
	}{
		{nn.Sequential{a, nn.ReLU{InPlace: true}, b, nn.GELU{Tanh: true}}, []string{"linear_activation 0", "linear_activation 2"}},
		{nn.Sequential{a, b, nn.GELU{}, nn.ReLU{}}, []string{"linear 0", "linear_activation 1", "relu 3"}},
		{nn.Sequential{nn.Sequential{a}, nn.ReLU{}, b}, []string{"linear 0/0", "relu 1", "linear 2"}},
		{nn.Sequential{a, nil}, nil},
	} {
		var got []string
		old := r.dev.SetTrace(func(e memory.Event) {
			if e.Act == memory.Alloc && e.Kind == memory.Temporary {
				got = append(got, e.Site.Op+" "+e.Site.Scope)
			}
		})
		var y [2][]float64
		err := r.step(func(s *autograd.Scope) {
			y[0] = values(t, c.net.Forward(s.NoGrad(), s.Input(x)).Tensor())
			r.dev.SetTrace(old)
			y[1] = values(t, c.net.Forward(s, s.Input(x)).Tensor())
		})
		r.dev.SetTrace(old)
		if c.want == nil {
			require.ErrorContains(t, err, "module 1 of 2 is nil")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, y[1], y[0])
		require.Equal(t, c.want, got[:len(c.want)])
	}
}
