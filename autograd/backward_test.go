package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/autograd/gradcheck"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func TestBackwardAccumulates(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{2, 3}, 2)
	x := r.tensor([]float64{5, 7}, 2)
	defer x.Release()
	for i := range 3 {
		r.ok(func(s *autograd.Scope) {
			loss := sum(s, mul(s, mul(s, w.Value(), w.Value()), s.Input(x)))
			require.Equal(t, 4.0*5+9*7, loss.Item())
			loss.Backward(s)
		})
		k := float64(i + 1)
		require.Equal(t, []float64{k * 2 * 2 * 5, k * 2 * 3 * 7}, grad(w))
		require.EqualValues(t, 16*2+16, r.dev.Stats().Live)
	}
	w.ZeroGrad()
	require.Nil(t, w.Grad())
}

func TestBroadcastIsReducedByTheEngine(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	a := r.tensor([]float64{1, 2, 3, 4, 5, 6}, 2, 3)
	b := r.tensor([]float64{7, 8, 9}, 3)
	c := r.tensor([]float64{10, 11}, 2, 1)
	d := r.tensor([]float64{12})
	for _, x := range []*tensor.Tensor{a, b, c, d} {
		defer x.Release()
	}
	f := func(s *autograd.Scope, in []*autograd.Value) []*autograd.Value {
		y := mul(s, add(s, in[0], in[1]), mul(s, in[2], in[3]))
		return []*autograd.Value{add(s, y, mul(s, in[1], in[1]))}
	}
	require.NoError(t, gradcheck.Check(r.sess, f, []*tensor.Tensor{a, b, c, d}, gradcheck.Config{}))
}

func TestViewsShareOneGradientBuffer(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	x := r.tensor([]float64{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4)
	defer x.Release()
	f := func(s *autograd.Scope, in []*autograd.Value) []*autograd.Value {
		a, b := halves(s, in[0])
		c, _ := halves(s, b)
		y := add(s, mul(s, a, b), mul(s, c, c))
		return []*autograd.Value{y, mul(s, in[0], in[0])}
	}
	require.NoError(t, gradcheck.Check(r.sess, f, []*tensor.Tensor{x}, gradcheck.Config{}))

	w := r.param("w", []float64{1, 2, 3, 4}, 4)
	r.ok(func(s *autograd.Scope) {
		_, b := halves(s, w.Value())
		sum(s, mul(s, b, b)).Backward(s)
	})
	require.Equal(t, []float64{0, 0, 6, 8}, grad(w))
	require.EqualValues(t, 32, r.dev.Stats().LiveByKind[memory.Grad])
}

func TestOnGradOfAViewSeesItsOwnGradientOnly(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	x := r.tensor([]float64{1, 2}, 2)
	defer x.Release()
	r.ok(func(s *autograd.Scope) {
		v := s.Input(x).RequireGrad()
		a, b := halves(s, v)
		calls := 0
		a.OnGrad(func(s *autograd.Scope, g *autograd.Value) *autograd.Value {
			calls++
			require.Equal(t, 1, g.Tensor().Elems())
			require.Equal(t, 3.0, g.Item())
			return mul(s, g, g)
		})
		k := s.Input(r.scratch(s, 3))
		loss := add(s, sum(s, mul(s, a, k)), add(s, sum(s, b), sum(s, mul(s, v, v))))
		loss.Backward(s)
		require.Equal(t, 1, calls)
		require.Equal(t, []float64{9 + 2*1, 1 + 2*2}, tensor.Data[float64](v.Grad()))
	})
}

// scratch is a one-element tensor that the scope's end releases.
func (r *rig) scratch(s *autograd.Scope, v float64) *tensor.Tensor {
	t := r.tensor([]float64{v}, 1)
	s.OnClose(t.Release)
	return t
}

func TestGradDoesNotTouchParameters(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{2, 3}, 2)
	x := r.tensor([]float64{5, 7}, 2)
	defer x.Release()
	r.ok(func(s *autograd.Scope) {
		v := s.Input(x).RequireGrad()
		u := s.Input(x).RequireGrad()
		h := mul(s, w.Value(), v)
		loss := sum(s, mul(s, h, h))
		g := autograd.Grad(s, loss, []*autograd.Value{w.Value(), v, h, u}, autograd.RetainGraph())
		require.Equal(t, []float64{2 * 10 * 5, 2 * 21 * 7}, tensor.Data[float64](g[0].Tensor()))
		require.Equal(t, []float64{2 * 10 * 2, 2 * 21 * 3}, tensor.Data[float64](g[1].Tensor()))
		require.Equal(t, []float64{20, 42}, tensor.Data[float64](g[2].Tensor()))
		require.Nil(t, g[3])
		require.Nil(t, w.Grad())
		loss.Backward(s, autograd.WithScale(0.5))
		require.Equal(t, []float64{10 * 5, 21 * 7}, grad(w))
	})
}

func TestOnGradReadyComesOnceAfterTheLastUse(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{2, 3}, 2)
	var seen [][]float64
	w.OnGradReady(func(s *autograd.Scope, p *autograd.Param) error {
		seen = append(seen, append([]float64(nil), grad(p)...))
		p.ZeroGrad()
		return nil
	})
	r.ok(func(s *autograd.Scope) {
		a := mul(s, w.Value(), w.Value())
		sum(s, mul(s, a, w.Value())).Backward(s)
	})
	require.Equal(t, [][]float64{{12, 27}}, seen)
	require.Nil(t, w.Grad())
	require.EqualValues(t, 16, r.dev.Stats().Live)
}

func TestBackwardTwice(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{2, 3}, 2)
	r.fails(func(s *autograd.Scope) {
		loss := sum(s, mul(s, w.Value(), w.Value()))
		loss.Backward(s)
		loss.Backward(s)
	}, "testmul", "backward through the graph a second time", "RetainGraph")
	require.Nil(t, w.Grad(), "made in the failed step")
	r.ok(func(s *autograd.Scope) { // nothing saved: allowed
		loss := sum(s, w.Value())
		loss.Backward(s)
		loss.Backward(s)
	})
	require.Equal(t, []float64{2, 2}, grad(w))
	r.ok(func(s *autograd.Scope) {
		w.ZeroGrad()
		loss := sum(s, mul(s, w.Value(), w.Value()))
		loss.Backward(s, autograd.RetainGraph())
		loss.Backward(s)
	})
	require.Equal(t, []float64{8, 12}, grad(w))
}

func TestBackwardRoots(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{2, 3}, 2)
	x := r.tensor([]float64{5, 7}, 2)
	defer x.Release()
	r.fails(func(s *autograd.Scope) { mul(s, w.Value(), w.Value()).Backward(s) }, "float64[2]", "only for scalar")
	r.fails(func(s *autograd.Scope) { sum(s, s.Input(x)).Backward(s) }, "does not require grad")
	r.fails(func(s *autograd.Scope) { sum(s.NoGrad(), w.Value()).Backward(s) }, "does not require grad", "NoGrad")
	r.fails(func(s *autograd.Scope) {
		sum(s, w.Value()).Backward(s, autograd.WithGrad(x))
	}, "WithGrad has float64[2]")
	r.ok(func(s *autograd.Scope) {
		mul(s, w.Value(), s.Input(x)).Backward(s, autograd.WithGrad(x))
	})
	require.Equal(t, []float64{25, 49}, grad(w))
}
