package nn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

var (
	double     = nn.LinearConfig{DType: tensor.Float64}
	doubleNorm = nn.LayerNormConfig{DType: tensor.Float64}
)

func TestLinear(t *testing.T) {
	r := newRig(t, 5)
	defer r.close()
	x := r.uniform(tensor.Float64, 2, 3, 4)
	defer x.Release()
	for _, noBias := range []bool{false, true} {
		l := r.linear(4, 5, nn.LinearConfig{DType: tensor.Float64, NoBias: noBias})
		require.Equal(t, noBias, l.Bias == nil)
		shape, y := r.forward(l, x)
		require.Equal(t, []int{2, 3, 5}, shape)
		for i := range 6 {
			for j := range 5 {
				want := 0.0
				if !noBias {
					want = l.Bias.Tensor().At(j)
				}
				for k := range 4 {
					want += x.At(i/3, i%3, k) * l.Weight.Tensor().At(j, k)
				}
				require.InDelta(t, want, y[5*i+j], 1e-14)
			}
		}
	}
}

func TestLayerNorm(t *testing.T) {
	r := newRig(t, 5)
	defer r.close()
	x := r.uniform(tensor.Float64, 6, 4)
	defer x.Release()
	plain, weighted := doubleNorm, doubleNorm
	plain.NoAffine, weighted.NoBias = true, true
	eps := nn.LayerNormConfig{DType: tensor.Float64, Eps: 0.5}
	for _, c := range []nn.LayerNormConfig{doubleNorm, plain, weighted, eps} {
		l := r.norm(4, c)
		require.Equal(t, c.NoAffine, l.Weight == nil)
		require.Equal(t, c.NoAffine || c.NoBias, l.Bias == nil)
		for i, p := range nn.AllParams(l) {
			require.NoError(t, tensor.FillRange(p.Tensor(), 0.5+float64(i), 1))
		}
		_, y := r.forward(l, x)
		for i := range 6 {
			row := values(t, x)[4*i : 4*i+4]
			mean, std := moments(row)
			for j, v := range row {
				want := (v - mean) / math.Sqrt(std*std+max(c.Eps, nn.DefaultLayerNormEps))
				if l.Weight != nil {
					want *= l.Weight.Tensor().At(j)
				}
				if l.Bias != nil {
					want += l.Bias.Tensor().At(j)
				}
				require.InDelta(t, want, y[4*i+j], 1e-12)
			}
		}
	}
	// as many dimensions as the weight has
	l := &nn.LayerNorm{Weight: r.param(6, 4)}
	_, y := r.forward(l, x)
	for i, w := range values(t, l.Weight.Tensor()) {
		y[i] /= w
	}
	mean, std := moments(y)
	require.InDelta(t, 0, mean, 1e-12)
	require.InDelta(t, 1, std, 1e-4)
}

func TestEmbedding(t *testing.T) {
	r := newRig(t, 5)
	defer r.close()
	index := floats(r, []int64{3, 0, 3, 6}, 2, 2)
	defer index.Release()
	l := r.embedding(7, 3)
	shape, y := r.forward(l, index)
	require.Equal(t, []int{2, 2, 3}, shape)
	for i, k := range []int{3, 0, 3, 6} {
		for j := range 3 {
			require.Equal(t, l.Weight.Tensor().At(k, j), y[3*i+j])
		}
	}
}

func TestActivations(t *testing.T) {
	r := newRig(t, 5)
	defer r.close()
	data := []float64{-3, -1, -0.25, 0, 0.5, 2}
	x := floats(r, data, 6)
	defer x.Release()
	erf := func(v float64) float64 { return 0.5 * v * (1 + math.Erf(v/math.Sqrt2)) }
	tanh := func(v float64) float64 { return 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))) }
	for _, c := range []struct {
		m    nn.Module
		want func(float64) float64
	}{
		{nn.ReLU{}, func(v float64) float64 { return max(v, 0) }},
		{&nn.ReLU{}, func(v float64) float64 { return max(v, 0) }},
		{nn.GELU{}, erf},
		{nn.GELU{Tanh: true}, tanh},
	} {
		_, y := r.forward(c.m, x)
		for i, v := range data {
			require.InDelta(t, c.want(v), y[i], 1e-12, "%T of %v", c.m, v)
		}
	}
}

func TestDropout(t *testing.T) {
	r := newRig(t, 5)
	defer r.close()
	x := r.uniform(tensor.Float64, 1000)
	defer x.Release()
	_, y := r.forward(nn.Dropout{P: 0.25}, x)
	zeros := 0
	for i, v := range values(t, x) {
		if y[i] == 0 {
			zeros++
		} else {
			require.InDelta(t, v/0.75, y[i], 1e-12)
		}
	}
	require.InDelta(t, 250, zeros, 60)
	r.ok(func(s *autograd.Scope) {
		v := s.Input(x)
		require.Same(t, v, nn.Dropout{P: 0.25}.Forward(s.Eval(), v))
		require.Same(t, v, nn.Dropout{}.Forward(s, v))
	})
	_, y = r.forward(nn.Dropout{P: 1}, x)
	require.Equal(t, make([]float64, 1000), y)
}

func TestErrorsNameScopeAndShapes(t *testing.T) {
	r := newRig(t, 5)
	defer r.close()
	x := r.uniform(tensor.Float32, 4, 3)
	defer x.Release()
	type mlp struct{ Net nn.Sequential }
	good := r.linear(3, 5)
	forward := func(m mlp) module {
		return func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			return s.Do("mlp", func(s *autograd.Scope) *autograd.Value { return m.Net.Forward(s.Named("net"), x) })
		}
	}
	var null *autograd.Param
	cases := []struct {
		net  nn.Sequential
		want string
	}{
		{nn.Sequential{good, nn.ReLU{}, r.linear(4, 2)}, "autograd: mlp/net/2: linear[float32[4 5] weight:float32[2 4] bias:float32[2]]: want "},
		{nn.Sequential{good, nn.Sequential{nn.ReLU{}, r.linear(4, 2)}}, "autograd: mlp/net/1/1: linear[float32[4 5] weight:float32[2 4] bias:float32[2]]: want "},
		{nn.Sequential{r.linear(3, 5, double)}, "autograd: mlp/net/0: linear[float32[4 3] weight:float64[5 3] bias:float64[5]]: want "},
		{nn.Sequential{good, r.norm(4)}, "autograd: mlp/net/1: layer_norm[float32[4 5] weight:float32[4] bias:float32[4]]: want "},
		{nn.Sequential{r.embedding(3, 2)}, "autograd: mlp/net/0: embedding[weight:float32[3 2] float32[4 3]]: want "},
		{nn.Sequential{nn.Dropout{P: 1.5}}, "autograd: mlp/net/0: dropout[float32[4 3]]: want "},
		{nn.Sequential{&nn.Linear{Weight: null}}, "autograd: mlp/net/0: linear[float32[4 3]]: input 1 is nil"},
		{nn.Sequential{good, nil}, "autograd: mlp/net/1: sequential: module 1 of 2 is nil"},
		{nn.Sequential{module(func(*autograd.Scope, *autograd.Value) *autograd.Value { return nil })},
			"autograd: mlp/net/0: sequential: module 0 of 1, nn_test.module, returned nil: want a value"},
	}
	for _, c := range cases {
		live := r.dev.Stats().Live
		err := r.step(func(s *autograd.Scope) { forward(mlp{c.net}).Forward(s, s.Input(x)) })
		require.ErrorContains(t, err, c.want)
		var e *autograd.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, live, r.dev.Stats().Live)
	}
}

// In place and not, layers give the same.
func TestLayersInPlace(t *testing.T) {
	r := newRig(t, 3)
	defer r.close()
	x := r.uniform(tensor.Float32, 5, 8)
	defer x.Release()
	norm := r.norm(8) // and not a linear layer, which a ReLU becomes part of under NoGrad
	var want []float32
	var bytes [2]int64
	for i, in := range []bool{false, true} {
		net := nn.Sequential{norm, nn.ReLU{InPlace: in}, nn.Dropout{P: 0.5, InPlace: in}}
		r.sess.SetRand(tensor.Stream{Seed: 1})
		before := r.dev.Stats().AllocBytes
		var got []float32
		r.ok(func(s *autograd.Scope) {
			got = append(got, tensor.Data[float32](net.Forward(s.NoGrad(), s.Input(x)).Tensor())...)
		})
		if bytes[i] = r.dev.Stats().AllocBytes - before; i == 0 {
			want = got
		}
		require.Equal(t, want, got)
	}
	require.Equal(t, 2*x.Bytes(), bytes[0]-bytes[1], "the results of two layers")
}
