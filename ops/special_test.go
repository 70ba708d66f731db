package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// Law N6: NaN and Inf go through as IEEE 754 and torch have it. grad 1 comes back for each output.
func TestNaNAndInf(t *testing.T) {
	cases := []struct {
		name  string
		call  func(*autograd.Scope, []value) []value
		in    []array
		out   []float64
		grads [][]float64
	}{
		{"linear: 0 Inf", one(linear), []array{{[]int{1, 2}, []float64{0, 1}}, {[]int{2, 2}, []float64{inf, 2, 3, -inf}}},
			[]float64{nan, -inf}, [][]float64{{inf, -inf}, {0, 1, 0, 1}}},
		{"linear: 0 NaN", one(linear), []array{{[]int{1, 2}, []float64{nan, 1}}, {[]int{1, 2}, []float64{0, 2}}},
			[]float64{nan}, [][]float64{{0, 2}, {nan, 1}}},
		{"linear: rows stay apart", one(linear), []array{{[]int{2, 1}, []float64{nan, 1}}, {[]int{1, 1}, []float64{2}}, {[]int{1}, []float64{1}}},
			[]float64{nan, 3}, [][]float64{{2, 2}, {nan}, {2}}},
		{"matmul: 0 Inf", one(matMul), []array{{[]int{2, 1, 2}, []float64{0, 1, 1, 1}}, {[]int{2, 2, 1}, []float64{inf, 2, 3, -inf}}},
			[]float64{nan, -inf}, [][]float64{{inf, 2, 3, -inf}, {0, 1, 1, 1}}},
		{"matmul: repeated", one(matMul), []array{{[]int{1, 1}, []float64{0}}, {[]int{2, 1, 1}, []float64{inf, 1}}},
			[]float64{nan, 0}, [][]float64{{inf}, {0, 0}}},
		{"add", one(add), []array{{[]int{3}, []float64{nan, inf, inf}}, {[]int{1}, []float64{-inf}}},
			[]float64{nan, nan, nan}, [][]float64{{1, 1, 1}, {3}}},
		{"relu", unary(ops.ReLU), []array{{[]int{5}, []float64{nan, inf, -inf, 0, math.Copysign(0, -1)}}},
			[]float64{nan, inf, 0, 0, 0}, [][]float64{{1, 1, 0, 0, 0}}},
		{"gelu", unary(ops.GELU), []array{{[]int{3}, []float64{nan, inf, -inf}}},
			[]float64{nan, inf, nan}, [][]float64{{nan, nan, nan}}},
		{"gelu_tanh", unary(ops.GELUTanh), []array{{[]int{3}, []float64{nan, inf, -inf}}},
			[]float64{nan, inf, nan}, [][]float64{{nan, nan, nan}}},
		{"layer_norm", layerNorm(1, 1e-5), []array{{[]int{3, 2}, []float64{nan, 1, 2, 2, inf, 0}}, {[]int{2}, []float64{1, 1}}, {[]int{2}, []float64{0, 5}}},
			[]float64{nan, nan, 0, 5, nan, nan}, [][]float64{{nan, nan, 0, 0, nan, nan}, {nan, nan}, {3, 3}}},
		{"layer_norm: no variance, no eps", layerNorm(1, 0), []array{{[]int{2}, []float64{3, 3}}},
			[]float64{nan, nan}, [][]float64{{nan, nan}}},
		{"embedding", one(embedding), []array{{[]int{2, 2}, []float64{nan, inf, 1, 2}}, {[]int{2}, []float64{0, 0}}},
			[]float64{nan, inf, nan, inf}, [][]float64{{2, 2, 0, 0}}},
		{"cross_entropy: -Inf elsewhere", one(crossEntropy), []array{{[]int{1, 2}, []float64{-inf, 0}}, {[]int{1}, []float64{1}}},
			[]float64{0}, [][]float64{{0, 0}}},
		{"cross_entropy: -Inf at the target", one(crossEntropy), []array{{[]int{1, 2}, []float64{-inf, 0}}, {[]int{1}, []float64{0}}},
			[]float64{inf}, [][]float64{{-1, 1}}},
		{"cross_entropy: NaN", one(crossEntropy), []array{{[]int{2, 2}, []float64{nan, 0, 0, 0}}, {[]int{2}, []float64{0, 0}}},
			[]float64{nan}, [][]float64{{nan, nan, -0.25, 0.25}}},
		{"cross_entropy: an ignored NaN", one(crossEntropy), []array{{[]int{2, 2}, []float64{nan, 0, 0, 0}}, {[]int{2}, []float64{ignore, 0}}},
			[]float64{math.Ln2}, [][]float64{{0, 0, -0.5, 0.5}}},
		{"cross_entropy: nothing counts", one(crossEntropy), []array{{[]int{2, 2}, []float64{1, 2, 3, 4}}, {[]int{2}, []float64{ignore, ignore}}},
			[]float64{nan}, [][]float64{{0, 0, 0, 0}}},
		{"cross_entropy: no rows", one(crossEntropy), []array{{[]int{0, 2}, nil}, {[]int{0}, nil}},
			[]float64{nan}, [][]float64{nil}},
		{"cross_entropy: no classes", one(crossEntropy), []array{{[]int{1, 0}, nil}, {[]int{1}, []float64{ignore}}},
			[]float64{nan}, [][]float64{nil}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, dt := range floatTypes {
				checkSpecial(t, dt, c.call, c.in, c.out, c.grads)
			}
		})
	}
}

func checkSpecial(t *testing.T, dt tensor.DType, call func(*autograd.Scope, []value) []value, in []array, out []float64, grads [][]float64) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	r.ok(func(s *autograd.Scope) {
		leaves := make([]value, len(in))
		for i, a := range in {
			to := dt
			if i >= len(grads) {
				to = tensor.Int64
			}
			x := r.tensor(a, to)
			s.OnClose(x.Release)
			if leaves[i] = s.Input(x); i < len(grads) {
				leaves[i].RequireGrad()
			}
		}
		y := call(s, leaves)[0]
		require.NoError(t, near(array{y.Shape(), out}, read(y.Tensor()), 1e-6, 0))
		g, err := tensor.New(r.dev, 0, site, y.Spec())
		require.NoError(t, err)
		s.OnClose(g.Release)
		require.NoError(t, tensor.Fill(g, 1))
		y.Backward(s, autograd.WithGrad(g))
		for i, want := range grads {
			require.NoError(t, near(array{in[i].shape, want}, read(leaves[i].Grad()), 1e-6, 0), "gradient %d", i)
		}
	})
}

// Dropout multiplies by 0, so that what is NaN or Inf shows even where it is dropped; p = 1 drops everything.
func TestDropoutAtItsEnds(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(array{[]int{5}, []float64{nan, inf, 2, -3, 0}}, tensor.Float32)
	defer x.Release()
	r.ok(func(s *autograd.Scope) {
		v := s.Input(x).RequireGrad()
		require.Same(t, v, ops.Dropout(s, v, 0))
		require.Same(t, v, ops.Dropout(s.Eval(), v, 0.5))
		require.Zero(t, r.sess.Rand().Offset, "nothing was drawn")
		y := ops.Dropout(s, v, 1)
		require.NoError(t, near(array{[]int{5}, []float64{nan, nan, 0, 0, 0}}, read(y.Tensor()), 0, 0))
		require.EqualValues(t, 8, r.sess.Rand().Offset, "5 words, up to the next block of 4")
	})
}

// A scaled backward scales the gradient of the loss, which has one element, and the logits' gradient with it.
func TestCrossEntropyUnderWithScale(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(floats(3, 4).values(1), tensor.Float32)
	target := r.tensor(array{[]int{3}, []float64{0, 3, 1}}, tensor.Int64)
	defer x.Release()
	defer target.Release()
	grad := func(scale float64) (g array) {
		r.ok(func(s *autograd.Scope) {
			v := s.Input(x).RequireGrad()
			ops.CrossEntropy(s, v, s.Input(target)).Backward(s, autograd.WithScale(scale))
			g = read(v.Grad())
		})
		return g
	}
	g := grad(1)
	for i := range g.data {
		g.data[i] *= 1024
	}
	require.Equal(t, g, grad(1024), "a power of two: exact")
}
