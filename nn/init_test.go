package nn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

func TestInitialValues(t *testing.T) {
	r := newRig(t, 3)
	defer r.close()
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
		lin := r.linear(400, 300, nn.LinearConfig{DType: dt})
		bound := 1 / math.Sqrt(400)
		uniform(t, values(t, lin.Weight.Tensor()), bound, 0.01)
		uniform(t, values(t, lin.Bias.Tensor()), bound, 0.2)
		mean, std := moments(values(t, r.embedding(500, 200, nn.EmbeddingConfig{DType: dt}).Weight.Tensor()))
		require.InDelta(t, 0, mean, 0.02)
		require.InDelta(t, 1, std, 0.01)
		norm := r.norm(3, nn.LayerNormConfig{DType: dt})
		require.Equal(t, []float64{1, 1, 1}, values(t, norm.Weight.Tensor()))
		require.Equal(t, []float64{0, 0, 0}, values(t, norm.Bias.Tensor()))
		for _, p := range []*autograd.Param{lin.Weight, lin.Bias, norm.Weight, norm.Bias} {
			require.Equal(t, dt, p.Spec().DType)
			require.Equal(t, memory.Param, p.Tensor().Buffer().Kind())
		}
	}
}

// uniform asks for the mean, the spread and the extent of U(-bound, bound); tol is relative to the bound.
func uniform(t *testing.T, x []float64, bound, tol float64) {
	t.Helper()
	mean, std := moments(x)
	require.InDelta(t, 0, mean/bound, tol)
	require.InDelta(t, 1/math.Sqrt(3), std/bound, tol)
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	require.LessOrEqual(t, most, float64(math.Nextafter32(float32(bound), 1)))
	require.Greater(t, most, bound*(1-tol))
}

func moments(x []float64) (mean, std float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		std += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, math.Sqrt(std)
}

func TestInitialValuesOfOnesOwn(t *testing.T) {
	r := newRig(t, 3)
	defer r.close()
	lin := r.linear(2, 3, nn.LinearConfig{InitWeight: nn.Constant(2), InitBias: nn.Uniform(5, 5)})
	require.Equal(t, []float64{2, 2, 2, 2, 2, 2}, values(t, lin.Weight.Tensor()))
	require.Equal(t, []float64{5, 5, 5}, values(t, lin.Bias.Tensor()))
	_, std := moments(values(t, r.embedding(300, 100, nn.EmbeddingConfig{InitWeight: nn.Normal(0, 0.02)}).Weight.Tensor()))
	require.InDelta(t, 0.02, std, 0.0005)
}

func TestASeedGivesTheSameBits(t *testing.T) {
	build := func(seed uint64) (*rig, nn.Sequential) {
		r := newRig(t, seed)
		return r, nn.Sequential{r.embedding(7, 5), r.linear(5, 3), r.norm(3), r.linear(3, 2)}
	}
	a, m := build(1)
	b, same := build(1)
	c, other := build(2)
	defer a.close()
	defer b.close()
	defer c.close()
	want := nn.StateDict(m)
	for i, e := range nn.StateDict(same) {
		require.True(t, tensor.Equal(want[i].Tensor, e.Tensor), e.Name)
	}
	for i, e := range nn.StateDict(other) {
		constant := e.Name == "2.weight" || e.Name == "2.bias"
		require.Equal(t, constant, tensor.Equal(want[i].Tensor, e.Tensor), e.Name)
	}
	require.False(t, tensor.Equal(want.Get("1.bias"), want.Get("2.bias")))
}

func TestConstructorsRefuse(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	linear := func(in, out int, cfg ...nn.LinearConfig) error {
		l, err := nn.NewLinear(r.sess, in, out, cfg...)
		require.Nil(t, l)
		return err
	}
	norm := func(n int, cfg ...nn.LayerNormConfig) error {
		l, err := nn.NewLayerNorm(r.sess, n, cfg...)
		require.Nil(t, l)
		return err
	}
	embedding := func(rows, dim int, cfg ...nn.EmbeddingConfig) error {
		l, err := nn.NewEmbedding(r.sess, rows, dim, cfg...)
		require.Nil(t, l)
		return err
	}
	dropout := func(p float64) error { _, err := nn.NewDropout(p); return err }
	noSession := func() error { _, err := nn.NewLinear(nil, 1, 1); return err }
	within := func() (err error) {
		r.ok(func(*autograd.Scope) { err = linear(1, 1) })
		return err
	}
	nan, inf := math.NaN(), math.Inf(1)
	cases := []struct {
		err  error
		want string
	}{
		{linear(0, 3), "nn: NewLinear: in features 0: want 1 or more"},
		{linear(3, -1), "nn: NewLinear: out features -1: want 1 or more"},
		{linear(-2, 0), "nn: NewLinear: in features -2: want 1 or more"},
		{linear(1, 1, nn.LinearConfig{DType: tensor.Uint8}), "nn: NewLinear: dtype uint8: want float32, float64, float16 or bfloat16"},
		{linear(1, 1, nn.LinearConfig{}, nn.LinearConfig{}), "nn: NewLinear: 2 configs: want one at most"},
		{linear(1, 1, nn.LinearConfig{InitBias: nn.Normal(0, -1)}), "nn: NewLinear: autograd: parameter bias: tensor: fill normal float32[1]: want finite mean and std >= 0, got 0 and -1"},
		{linear(1<<40, 1<<40), "nn: NewLinear: autograd: parameter weight: tensor: spec float32[1099511627776 1099511627776]: too many elements"},
		{norm(0), "nn: NewLayerNorm: features 0: want 1 or more"},
		{norm(1, nn.LayerNormConfig{Eps: -1e-5}), "nn: NewLayerNorm: eps -1e-05: want a positive number, or 0 for 1e-05"},
		{norm(1, nn.LayerNormConfig{Eps: nan}), "nn: NewLayerNorm: eps NaN: want a positive number, or 0 for 1e-05"},
		{norm(1, nn.LayerNormConfig{Eps: inf}), "nn: NewLayerNorm: eps +Inf: want a positive number, or 0 for 1e-05"},
		{norm(1, nn.LayerNormConfig{DType: tensor.Int64}), "nn: NewLayerNorm: dtype int64: want float32, float64, float16 or bfloat16"},
		{norm(1, nn.LayerNormConfig{}, nn.LayerNormConfig{}), "nn: NewLayerNorm: 2 configs: want one at most"},
		{embedding(0, 1), "nn: NewEmbedding: rows 0: want 1 or more"},
		{embedding(1, 0), "nn: NewEmbedding: dim 0: want 1 or more"},
		{embedding(1, 1, nn.EmbeddingConfig{DType: tensor.Bool}), "nn: NewEmbedding: dtype bool: want float32, float64, float16 or bfloat16"},
		{dropout(-0.1), "nn: NewDropout: p -0.1: want 0 to 1"},
		{dropout(1.5), "nn: NewDropout: p 1.5: want 0 to 1"},
		{dropout(nan), "nn: NewDropout: p NaN: want 0 to 1"},
		{noSession(), "nn: NewLinear: the session is nil: want one from autograd.New"},
		{within(), "nn: NewLinear: autograd: parameter weight: made within a step or on a closed session: build models before the first Step"},
	}
	for _, c := range cases {
		require.EqualError(t, c.err, c.want)
		require.Zero(t, r.dev.Stats().Live, "after %v", c.err)
	}
	for _, p := range []float64{0, 0.5, 1} {
		require.NoError(t, dropout(p))
	}
}

// Whichever allocation of a model fails, its constructor gives back what it made, and Close the rest.
func TestNoMemoryWhileBuilding(t *testing.T) {
	for k := int64(1); ; k++ {
		r := newRig(t, 1)
		r.dev.FailAt(k)
		before := int64(0)
		err := func() error {
			if _, err := nn.NewEmbedding(r.sess, 5, 4); err != nil {
				return err
			}
			before = r.dev.Stats().Live
			if _, err := nn.NewLinear(r.sess, 4, 3); err != nil {
				return err
			}
			before = r.dev.Stats().Live
			_, err := nn.NewLayerNorm(r.sess, 3)
			return err
		}()
		if err == nil {
			require.EqualValues(t, 6, k)
			r.close()
			return
		}
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
		require.Equal(t, before, r.dev.Stats().Live, "the constructor left something: %v", err)
		r.close()
	}
}
