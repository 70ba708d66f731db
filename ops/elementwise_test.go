package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/autograd/gradcheck"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

func vector(v ...float64) array { return array{[]int{len(v)}, v} }

// Law N6 for element-wise ops, and the points where a derivative jumps. grad 1 comes back for each output.
func TestElementwiseSpecials(t *testing.T) {
	minus := math.Copysign(0, -1)
	cases := []struct {
		name  string
		call  func(*autograd.Scope, []value) []value
		in    []array
		out   []float64
		grads [][]float64
	}{
		{"mul: 0 Inf", binary(ops.Mul), []array{vector(0, nan, 2), vector(inf, 0, -inf)},
			[]float64{nan, nan, -inf}, [][]float64{{inf, 0, -inf}, {0, nan, 2}}},
		{"div: by 0", binary(ops.Div), []array{vector(1, 0, -1), vector(0, 0, inf)},
			[]float64{inf, nan, 0}, [][]float64{{inf, inf, 0}, {-inf, nan, 0}}},
		{"sub: Inf - Inf", binary(ops.Sub), []array{vector(inf, nan), vector(inf, 1)},
			[]float64{nan, nan}, [][]float64{{1, 1}, {-1, -1}}},
		{"maximum: ties and NaN", binary(ops.Maximum), []array{vector(1, 2, nan, 3, -inf), vector(1, 3, 1, nan, inf)},
			[]float64{1, 3, nan, nan, inf}, [][]float64{{0.5, 0, 1, 1, 0}, {0.5, 1, 1, 1, 1}}},
		{"minimum: ties and NaN", binary(ops.Minimum), []array{vector(1, 2, nan, 3, -inf), vector(1, 3, 1, nan, inf)},
			[]float64{1, 2, nan, nan, -inf}, [][]float64{{0.5, 1, 1, 1, 1}, {0.5, 0, 1, 1, 0}}},
		{"exp", unary(ops.Exp), []array{vector(nan, inf, -inf, 1000)},
			[]float64{nan, inf, 0, inf}, [][]float64{{nan, inf, 0, inf}}},
		{"log", unary(ops.Log), []array{vector(nan, inf, -1, 0, minus)},
			[]float64{nan, inf, nan, -inf, -inf}, [][]float64{{nan, 0, -1, inf, -inf}}},
		{"sqrt", unary(ops.Sqrt), []array{vector(nan, inf, -1, 0)},
			[]float64{nan, inf, nan, 0}, [][]float64{{nan, 0, nan, inf}}},
		{"rsqrt", unary(ops.Rsqrt), []array{vector(nan, inf, -1, 0)},
			[]float64{nan, 0, nan, inf}, [][]float64{{nan, 0, nan, -inf}}},
		{"reciprocal", unary(ops.Reciprocal), []array{vector(nan, inf, 0, minus)},
			[]float64{nan, 0, inf, -inf}, [][]float64{{nan, 0, -inf, -inf}}},
		{"square", unary(ops.Square), []array{vector(nan, -inf)}, []float64{nan, inf}, [][]float64{{nan, -inf}}},
		{"pow 0", withScalar(ops.PowScalar, 0), []array{vector(nan, inf, 0)}, []float64{1, 1, 1}, [][]float64{{0, 0, 0}}},
		{"pow 1", withScalar(ops.PowScalar, 1), []array{vector(nan, inf, 0, -2)}, []float64{nan, inf, 0, -2}, [][]float64{{1, 1, 1, 1}}},
		{"pow 0.5", withScalar(ops.PowScalar, 0.5), []array{vector(nan, inf, 0, -2)}, []float64{nan, inf, 0, nan}, [][]float64{{nan, 0, inf, nan}}},
		{"pow -1", withScalar(ops.PowScalar, -1), []array{vector(nan, -inf, 0, -2)}, []float64{nan, 0, inf, -0.5}, [][]float64{{nan, 0, -inf, -0.25}}},
		{"abs", unary(ops.Abs), []array{vector(nan, -inf, 0, minus)}, []float64{nan, inf, 0, 0}, [][]float64{{nan, -1, 0, 0}}},
		{"neg", unary(ops.Neg), []array{vector(nan, -inf, 0)}, []float64{nan, inf, 0}, [][]float64{{-1, -1, -1}}},
		{"sin", unary(ops.Sin), []array{vector(nan, inf, 0)}, []float64{nan, nan, 0}, [][]float64{{nan, nan, 1}}},
		{"cos", unary(ops.Cos), []array{vector(nan, inf, 0)}, []float64{nan, nan, 1}, [][]float64{{nan, nan, 0}}},
		{"erf", unary(ops.Erf), []array{vector(nan, inf, -inf)}, []float64{nan, 1, -1}, [][]float64{{nan, 0, 0}}},
		{"tanh", unary(ops.Tanh), []array{vector(nan, inf, -inf, 1000)}, []float64{nan, 1, -1, 1}, [][]float64{{nan, 0, 0, 0}}},
		{"sigmoid", unary(ops.Sigmoid), []array{vector(nan, inf, -inf, -1000)}, []float64{nan, 1, 0, 0}, [][]float64{{nan, 0, 0, 0}}},
		{"silu", unary(ops.SiLU), []array{vector(nan, inf, -inf)}, []float64{nan, inf, nan}, [][]float64{{nan, nan, nan}}},
		{"softplus", unary(ops.Softplus), []array{vector(nan, inf, -inf, 20, 21)},
			[]float64{nan, inf, 0, 20 + 2e-9, 21}, [][]float64{{nan, 1, 0, 1 - 2e-9, 1}}},
		{"elu", withScalar(ops.ELU, 2), []array{vector(nan, inf, -inf, 0)}, []float64{nan, inf, -2, 0}, [][]float64{{nan, 1, 0, 2}}},
		{"leaky_relu", withScalar(ops.LeakyReLU, 0.25), []array{vector(nan, inf, -inf, 0)}, []float64{nan, inf, -inf, 0}, [][]float64{{0.25, 1, 0.25, 0.25}}},
		{"clamp: bounds pass", clamp(-1, 1), []array{vector(nan, inf, -inf, 1, -1, 0)}, []float64{nan, 1, -1, 1, -1, 0}, [][]float64{{0, 0, 0, 1, 1, 1}}},
		{"add_scalar", withScalar(ops.AddScalar, 1), []array{vector(nan, inf)}, []float64{nan, inf}, [][]float64{{1, 1}}},
		{"mul_scalar: 0 Inf", withScalar(ops.MulScalar, 0), []array{vector(nan, inf, 1)}, []float64{nan, nan, 0}, [][]float64{{0, 0, 0}}},
		{"swiglu", binary(ops.SwiGLU), []array{vector(nan, 0, -inf), vector(1, inf, 0)},
			[]float64{nan, nan, nan}, [][]float64{{nan, inf, nan}, {nan, 0, nan}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, dt := range floatTypes {
				checkSpecial(t, dt, c.call, c.in, c.out, c.grads)
			}
		})
	}
}

// What a choice leaves out does not count, neither forward nor backward, and neither does the gradient there.
func TestChoicesIgnoreWhatTheyLeaveOut(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	cond := r.tensor(vector(1, 0, 1, 0), tensor.Bool)
	a := r.tensor(vector(1, nan, inf, 4), tensor.Float32)
	b := r.tensor(vector(nan, 20, 30, inf), tensor.Float32)
	g := r.tensor(vector(nan, 5, 7, inf), tensor.Float32)
	for _, x := range []*tensor.Tensor{cond, a, b, g} {
		defer x.Release()
	}
	r.ok(func(s *autograd.Scope) {
		c, x, y := s.Input(cond), s.Input(a).RequireGrad(), s.Input(b).RequireGrad()
		z := ops.Where(s, c, x, y)
		require.NoError(t, near(vector(1, 20, inf, inf), read(z.Tensor()), 0, 0))
		z.Backward(s, autograd.WithGrad(g))
		require.NoError(t, near(vector(nan, 0, 7, 0), read(x.Grad()), 0, 0))
		require.NoError(t, near(vector(0, 5, 0, inf), read(y.Grad()), 0, 0))
		f := ops.MaskedFill(s, y, c, math.Inf(-1))
		require.NoError(t, near(vector(-inf, 20, -inf, inf), read(f.Tensor()), 0, 0))
		f.Backward(s, autograd.WithGrad(g))
		require.NoError(t, near(vector(0, 10, 0, inf), read(y.Grad()), 0, 0))
	})
}

// Comparisons of what requires gradients are plain truth values: nothing is recorded, and Where goes on from there.
func TestComparisonsHaveNoGradient(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	a := r.tensor(vector(1, nan, 3), tensor.Float32)
	b := r.tensor(vector(1, nan, 2), tensor.Float32)
	defer a.Release()
	defer b.Release()
	r.ok(func(s *autograd.Scope) {
		x, y := s.Input(a).RequireGrad(), s.Input(b).RequireGrad()
		for _, c := range []struct {
			f    func(*autograd.Scope, value, value) value
			want []float64
		}{
			{ops.Eq, []float64{1, 0, 0}}, {ops.Ne, []float64{0, 1, 1}}, {ops.Lt, []float64{0, 0, 0}},
			{ops.Le, []float64{1, 0, 0}}, {ops.Gt, []float64{0, 0, 1}}, {ops.Ge, []float64{1, 0, 1}},
		} {
			v := c.f(s, x, y)
			require.Equal(t, tensor.Bool, v.DType())
			require.False(t, v.RequiresGrad())
			require.Empty(t, autograd.Saved(v))
			require.Equal(t, c.want, read(v.Tensor()).data)
			require.False(t, ops.Cast(s, v, tensor.Float32).RequiresGrad())
		}
		require.True(t, ops.Where(s, ops.Gt(s, x, y), x, y).RequiresGrad())
	})
	r.fails(func(s *autograd.Scope) {
		x := s.Input(a).RequireGrad()
		ops.Eq(s, x, x).Backward(s)
	}, "require")
}

// Whole numbers in arithmetic, choices and casts, which have no gradients.
func TestElementwiseIntegers(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	mask := r.tensor(vector(1, 0), tensor.Bool)
	defer mask.Release()
	for _, dt := range []tensor.DType{tensor.Int64, tensor.Int32} {
		x := r.tensor(array{[]int{2, 2}, []float64{1, -2, 3, 1 << 20}}, dt)
		y := r.tensor(vector(10, -1), dt)
		r.ok(func(s *autograd.Scope) {
			x, y, m := s.Input(x), s.Input(y), s.Input(mask)
			for _, c := range []struct {
				got  value
				want []float64
			}{
				{ops.Sub(s, x, y), []float64{-9, -1, -7, 1<<20 + 1}},
				{ops.Mul(s, x, y), []float64{10, 2, 30, -1 << 20}},
				{ops.Where(s, m, x, y), []float64{1, -1, 3, -1}},
				{ops.MaskedFill(s, x, m, -3), []float64{-3, -2, -3, 1 << 20}},
			} {
				require.Equal(t, dt, c.got.DType())
				require.False(t, c.got.RequiresGrad())
				require.Equal(t, c.want, read(c.got.Tensor()).data)
			}
		})
		x.Release()
		y.Release()
	}
}

func TestCast(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(array{[]int{2, 2}, []float64{1.0 / 3, nan, 1e300, -2}}, tensor.Float64)
	g := r.tensor(array{[]int{2, 2}, []float64{0.1, 2, nan, 4}}, tensor.Float32)
	defer x.Release()
	defer g.Release()
	r.ok(func(s *autograd.Scope) {
		v := s.Input(x).RequireGrad()
		require.Same(t, v, ops.Cast(s, v, tensor.Float64))
		y := ops.Cast(s, v, tensor.Float32)
		require.Equal(t, []float32{float32(1.0 / 3)}, tensor.Data[float32](y.Tensor())[:1])
		require.NoError(t, near(array{[]int{2, 2}, []float64{float64(float32(1.0 / 3)), nan, inf, -2}}, read(y.Tensor()), 0, 0))
		require.Empty(t, autograd.Saved(y))
		y.Backward(s, autograd.WithGrad(g))
		want := array{[]int{2, 2}, []float64{float64(float32(0.1)), 2, nan, 4}}
		require.NoError(t, near(want, read(v.Grad()), 0, 0))
		for i := range want.data {
			want.data[i] *= 2
		}
		y.Backward(s, autograd.WithGrad(g))
		require.NoError(t, near(want, read(v.Grad()), 0, 0))
	})
	for _, dt := range []tensor.DType{tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool} {
		k := r.tensor(array{[]int{3, 2}, []float64{0, 1, 1, 0, 1, 1}}, dt)
		r.ok(func(s *autograd.Scope) {
			y := ops.Cast(s, transposed.view(s, s.Input(k)), tensor.Float32)
			require.Equal(t, []float32{0, 1, 1, 1, 0, 1}, tensor.Data[float32](y.Tensor()), dt)
		})
		k.Release()
	}
}

// Halves of one product go through SwiGLU and back without copies: nothing but the output is allocated forward, nothing
// but the product's gradient backward.
func TestSwiGLUOfHalves(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(floats(3, 4, 16).values(1), tensor.Float32)
	g := r.tensor(floats(3, 4, 8).values(2), tensor.Float32)
	defer x.Release()
	defer g.Release()
	r.ok(func(s *autograd.Scope) {
		h := ops.MulScalar(s, s.Input(x).RequireGrad(), 1)
		halves := ops.Split(s, h, -1, 2)
		live := r.dev.Stats().Live
		var allocated []int64
		old := r.dev.SetTrace(func(e memory.Event) {
			if e.Act == memory.Alloc {
				allocated = append(allocated, e.Bytes)
			}
		})
		defer func() { r.dev.SetTrace(old) }()
		y := ops.SwiGLU(s, halves[0], halves[1])
		require.Equal(t, []int64{y.Spec().Bytes()}, allocated)
		require.Equal(t, live+y.Spec().Bytes(), r.dev.Stats().Live)
		allocated = nil
		y.Backward(s, autograd.WithGrad(g))
		require.Equal(t, []int64{g.Bytes(), h.Spec().Bytes()}, allocated, "the gradients of y and of the product, which x's is written over")
	})
}

// What ops keep: outputs may be kept and inputs overwritten, and a factor is kept only for the other one's gradient.
func TestElementwiseInPlace(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(positive(3, 4).values(1), tensor.Float32)
	defer x.Release()
	for _, f := range []func(*autograd.Scope, value) value{ops.Exp, ops.Sqrt, ops.Rsqrt, ops.Reciprocal, ops.Tanh, ops.Sigmoid, ops.Neg} {
		grad := func(overwrite bool) (g array) {
			r.ok(func(s *autograd.Scope) {
				v := s.Input(x).RequireGrad()
				h := ops.MulScalar(s, v, 2)
				y := f(s, h)
				if overwrite {
					ops.AddInPlace(s.NoGrad(), h, y)
				}
				y.Backward(s, autograd.WithGrad(x))
				g = read(v.Grad())
			})
			return g
		}
		require.Equal(t, grad(false), grad(true))
	}
	r.ok(func(s *autograd.Scope) {
		v, c := s.Input(x).RequireGrad(), s.Input(x)
		saved := autograd.Saved(ops.Mul(s, ops.MulScalar(s, v, 2), c))
		require.Len(t, saved, 1)
		require.Equal(t, "input 1, for the gradient of input 0", saved[0].Why)
		saved = autograd.Saved(ops.Div(s, v, c))
		require.Len(t, saved, 1)
		saved = autograd.Saved(ops.Div(s, c, v))
		require.Len(t, saved, 2)
	})
}

// One value as both operands, and as gate and up.
func TestElementwiseOfItself(t *testing.T) {
	for name, f := range map[string]func(s *autograd.Scope, x value) value{
		"sub":    func(s *autograd.Scope, x value) value { return ops.Sub(s, x, x) },
		"mul":    func(s *autograd.Scope, x value) value { return ops.Mul(s, x, x) },
		"div":    func(s *autograd.Scope, x value) value { return ops.Div(s, x, x) },
		"swiglu": func(s *autograd.Scope, x value) value { return ops.SwiGLU(s, x, x) },
		"where":  func(s *autograd.Scope, x value) value { return ops.Where(s, ops.Gt(s, x, ops.Square(s, x)), x, x) },
		"mul by a row of itself": func(s *autograd.Scope, x value) value {
			return ops.Mul(s, x, ops.Slice(s, x, 0, 1, 2))
		},
		"swiglu of a turned one": func(s *autograd.Scope, x value) value {
			return ops.SwiGLU(s, x, transposed.view(s, x))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, autograd.Config{})
			defer r.close()
			x := r.tensor(away(3, 3).values(1), tensor.Float64)
			defer x.Release()
			f := func(s *autograd.Scope, in []value) []value { return []value{f(s, in[0])} }
			require.NoError(t, gradcheck.Check(r.sess, f, []*tensor.Tensor{x}, gradcheck.Config{}))
		})
	}
}

// Several chunks of the gate's gradient are filled before the other's, whose elements lie elsewhere, are added.
func TestSwiGLUOfTurnedAcrossChunks(t *testing.T) {
	r := newRig(t, autograd.Config{Workers: 2})
	defer r.close()
	w := r.param("w", away(200, 200).values(1), tensor.Float64)
	defer w.Release()
	grad := func(f func(s *autograd.Scope, gate, up value) value) (g []float64) {
		r.ok(func(s *autograd.Scope) {
			w.ZeroGrad()
			x := ops.Tanh(s, w.Value())
			ops.Sum(s, f(s, x, transposed.view(s, x))).Backward(s)
			g = read(w.Grad()).data
		})
		w.ZeroGrad()
		return g
	}
	fused := grad(func(s *autograd.Scope, gate, up value) value { return ops.SwiGLU(s, gate, up) })
	chain := grad(func(s *autograd.Scope, gate, up value) value { return ops.Mul(s, ops.SiLU(s, gate), up) })
	require.InDeltaSlice(t, chain, fused, 1e-12)
}

// Law E1: what is wrong is reported by the call that got it, with what was wanted.
func TestElementwiseErrors(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	made := map[string]*tensor.Tensor{}
	for _, dt := range tensor.DTypes() {
		for _, shape := range [][]int{{2}, {3}, {2, 3}} {
			x, err := tensor.New(r.dev, memory.Input, site, tensor.Of(dt, shape...))
			require.NoError(t, err)
			defer x.Release()
			made[x.Spec().String()] = x
		}
	}
	for _, c := range []struct {
		text string
		call func(s *autograd.Scope, in func(string) value)
	}{
		{"sub[float32[2 3] float32[2]]: tensor: broadcast [2 3] with [2]", func(s *autograd.Scope, in func(string) value) { ops.Sub(s, in("float32[2 3]"), in("float32[2]")) }},
		{"mul[float32[2] float64[2]]: want equal dtypes", func(s *autograd.Scope, in func(string) value) { ops.Mul(s, in("float32[2]"), in("float64[2]")) }},
		{"mul[bool[2] bool[2]]: want a float dtype, int64 or int32, got bool", func(s *autograd.Scope, in func(string) value) { ops.Mul(s, in("bool[2]"), in("bool[2]")) }},
		{"div[int64[2] int64[2]]: want a float dtype, got int64", func(s *autograd.Scope, in func(string) value) { ops.Div(s, in("int64[2]"), in("int64[2]")) }},
		{"maximum[int32[2] int32[2]]: want a float dtype, got int32", func(s *autograd.Scope, in func(string) value) { ops.Maximum(s, in("int32[2]"), in("int32[2]")) }},
		{"exp[int64[2]]: want a float dtype, got int64", func(s *autograd.Scope, in func(string) value) { ops.Exp(s, in("int64[2]")) }},
		{"tanh[bool[2]]: want a float dtype, got bool", func(s *autograd.Scope, in func(string) value) { ops.Tanh(s, in("bool[2]")) }},
		{"mul_scalar[int64[2]]: want a float dtype, got int64", func(s *autograd.Scope, in func(string) value) { ops.MulScalar(s, in("int64[2]"), 2) }},
		{"leaky_relu[uint8[2]]: want a float dtype, got uint8", func(s *autograd.Scope, in func(string) value) { ops.LeakyReLU(s, in("uint8[2]"), 1) }},
		{"leaky_relu[float32[2]]: want a number for a slope, got NaN", func(s *autograd.Scope, in func(string) value) { ops.LeakyReLU(s, in("float32[2]"), nan) }},
		{"clamp[float32[2]]: from 1 to -1: want a lower bound", func(s *autograd.Scope, in func(string) value) { ops.Clamp(s, in("float32[2]"), 1, -1) }},
		{"clamp[float32[2]]: from NaN to 1: want a lower bound", func(s *autograd.Scope, in func(string) value) { ops.Clamp(s, in("float32[2]"), nan, 1) }},
		{"clamp[int64[2]]: want a float dtype, got int64", func(s *autograd.Scope, in func(string) value) { ops.Clamp(s, in("int64[2]"), 0, 1) }},
		{"swiglu[float32[2 3] float32[3]]: want equal shapes", func(s *autograd.Scope, in func(string) value) { ops.SwiGLU(s, in("float32[2 3]"), in("float32[3]")) }},
		{"swiglu[float32[2] float64[2]]: want equal dtypes", func(s *autograd.Scope, in func(string) value) { ops.SwiGLU(s, in("float32[2]"), in("float64[2]")) }},
		{"eq[uint8[2] uint8[2]]: want a float dtype, int64 or int32, got uint8", func(s *autograd.Scope, in func(string) value) { ops.Eq(s, in("uint8[2]"), in("uint8[2]")) }},
		{"lt[int64[2] float32[2]]: want equal dtypes", func(s *autograd.Scope, in func(string) value) { ops.Lt(s, in("int64[2]"), in("float32[2]")) }},
		{"logical_and[bool[2] uint8[2]]: want bool, got uint8", func(s *autograd.Scope, in func(string) value) { ops.And(s, in("bool[2]"), in("uint8[2]")) }},
		{"logical_not[float32[2]]: want bool, got float32", func(s *autograd.Scope, in func(string) value) { ops.Not(s, in("float32[2]")) }},
		{"where[uint8[2] float32[2] float32[2]]: want a bool condition, got uint8", func(s *autograd.Scope, in func(string) value) {
			ops.Where(s, in("uint8[2]"), in("float32[2]"), in("float32[2]"))
		}},
		{"where[bool[3] float32[2] float32[2]]: tensor: broadcast [3] with [2]", func(s *autograd.Scope, in func(string) value) {
			ops.Where(s, in("bool[3]"), in("float32[2]"), in("float32[2]"))
		}},
		{"masked_fill[float32[2] float32[2]]: want a bool mask, got float32", func(s *autograd.Scope, in func(string) value) {
			ops.MaskedFill(s, in("float32[2]"), in("float32[2]"), 0)
		}},
		{"masked_fill[int32[2] bool[2]]: want a value that int32 holds, got 2.147483648e+09", func(s *autograd.Scope, in func(string) value) {
			ops.MaskedFill(s, in("int32[2]"), in("bool[2]"), 1<<31)
		}},
		{"masked_fill[int64[2] bool[2]]: want a value that int64 holds, got 0.5", func(s *autograd.Scope, in func(string) value) {
			ops.MaskedFill(s, in("int64[2]"), in("bool[2]"), 0.5)
		}},
		{"cast[float32[2]]: want to cast to float32, float64, float16 or bfloat16, got int64", func(s *autograd.Scope, in func(string) value) { ops.Cast(s, in("float32[2]"), tensor.Int64) }},
		{"cast: input 0 is nil", func(s *autograd.Scope, _ func(string) value) { ops.Cast(s, nil, tensor.Float32) }},
	} {
		r.fails(func(s *autograd.Scope) { c.call(s, func(spec string) value { return s.Input(made[spec]) }) }, c.text)
	}
}

// SwiGLU of a large value and a view of it: both gradients go into one buffer, whose chunks lie across each other.
func TestSwiGLUOfItselfInChunks(t *testing.T) {
	const n = 200
	r := newRig(t, autograd.Config{Workers: 2})
	defer r.close()
	x := r.tensor(floats(n, n).values(1), tensor.Float64)
	defer x.Release()
	grad := func(apart bool) (g array) {
		r.ok(func(s *autograd.Scope) {
			a, b := s.Input(x).RequireGrad(), s.Input(x).RequireGrad()
			if !apart {
				b = a
			}
			ops.Sum(s, ops.SwiGLU(s, a, transposed.view(s, b))).Backward(s)
			g = read(a.Grad())
			if apart {
				for i, v := range read(b.Grad()).data {
					g.data[i] += v
				}
			}
		})
		return g
	}
	require.NoError(t, near(grad(true), grad(false), 1e-12, 1e-12))
}
