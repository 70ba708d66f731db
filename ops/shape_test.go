package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// allocs runs a step and gives what it allocated but for scratch, as op and bytes.
func (r *rig) allocs(f func(s *autograd.Scope)) (list []made) {
	r.t.Helper()
	old := r.dev.SetTrace(func(e memory.Event) {
		if e.Act == memory.Alloc && e.Kind != memory.Scratch {
			list = append(list, made{e.Site.Op, e.Bytes})
		}
	})
	r.ok(f)
	r.dev.SetTrace(old)
	return list
}

type made struct {
	op    string
	bytes int64
}

// A transposed operand is read where it lies, and its gradient written there.
func TestMatMulOfTransposedViewsCopiesNothing(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	a, b := r.param("a", floats(5, 3).values(1), tensor.Float32), r.param("b", floats(4, 5).values(2), tensor.Float32)
	g := r.tensor(floats(3, 4).values(3), tensor.Float32)
	defer g.Release()
	require.Equal(t, []made{
		{"matmul", 3 * 4 * 4},                          // y
		{"backward", 3 * 4 * 4},                        // its gradient
		{"matmul'", 5 * 3 * 4}, {"matmul'", 4 * 5 * 4}, // the parameters' gradients
	}, r.allocs(func(s *autograd.Scope) {
		y := ops.MatMul(s, ops.Transpose(s, a.Value(), 0, 1), ops.Transpose(s, b.Value(), 0, 1))
		y.Backward(s, autograd.WithGrad(g))
	}))
	turn := func(x *tensor.Tensor) array { return refPermute(1, 0)([]array{read(x)})[0] }
	require.NoError(t, near(refMatMul([]array{turn(b.Tensor()), turn(g)}), read(a.Grad()), 1e-5, 1e-6))
	require.NoError(t, near(refMatMul([]array{turn(g), turn(a.Tensor())}), read(b.Grad()), 1e-5, 1e-6))
}

// attend is attention without a softmax over one buffer with queries, keys and values, [B T 3C].
func attend(s *autograd.Scope, qkv value, heads int) value {
	b, t, c := qkv.Dim(0), qkv.Dim(1), qkv.Dim(2)/3
	parts := ops.Reshape(s, qkv, b, t, 3, heads, c/heads)
	parts = ops.Permute(s, parts, 2, 0, 3, 1, 4) // [3 B H T D]
	h := ops.Unbind(s, parts, 0)
	scores := ops.Tril(s, ops.MatMul(s, h[0], ops.Transpose(s, h[1], -2, -1)), 0) // [B H T T]
	y := ops.MatMul(s, scores, h[2])                                              // [B H T D]
	return ops.Reshape(s, ops.Permute(s, y, 0, 2, 1, 3), b, t, c)
}

// One buffer of queries, keys and values feeds products through views of it, forward and backward, without a copy.
func TestOneBufferOfQueriesKeysAndValues(t *testing.T) {
	const B, T, H, D = 2, 5, 3, 4
	const C = H * D
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(floats(B, T, C).values(1), tensor.Float32)
	defer x.Release()
	w := r.param("w", floats(3*C, C).values(2), tensor.Float32)
	g := r.tensor(floats(B, T, C).values(3), tensor.Float32)
	defer g.Release()
	step := func(s *autograd.Scope) {
		attend(s, ops.Linear(s, s.Input(x), w.Value(), nil), H).Backward(s, autograd.WithGrad(g))
	}
	const whole, scores = B * T * C * 4, B * H * T * T * 4
	require.Equal(t, []made{
		{"linear", 3 * whole}, {"matmul", scores}, {"tril", scores}, {"matmul", whole},
		{"reshape", whole},     // [B T H D] must lie together for whatever comes next
		{"backward", whole},    // its gradient
		{"reshape'", whole},    // that of y, of another order
		{"matmul'", scores},    // of tril's result
		{"matmul'", 3 * whole}, // of queries, keys and values, in one buffer
		{"tril'", scores},
		{"linear'", 3 * C * C * 4},
	}, r.allocs(step))
	once := read(w.Grad())
	w.ZeroGrad()

	// The same over copies.
	r.ok(func(s *autograd.Scope) {
		qkv := ops.Linear(s, s.Input(x), w.Value(), nil)
		var h [3]value
		for i, part := range ops.Split(s, qkv, -1, 3) {
			h[i] = ops.Add(s, ops.Permute(s, ops.Reshape(s, part, B, T, H, D), 0, 2, 1, 3), zero(s, r))
		}
		key := ops.Add(s, ops.Transpose(s, h[1], -2, -1), zero(s, r))
		y := ops.MatMul(s, ops.Tril(s, ops.MatMul(s, h[0], key), 0), h[2])
		ops.Reshape(s, ops.Permute(s, y, 0, 2, 1, 3), B, T, C).Backward(s, autograd.WithGrad(g))
	})
	require.Equal(t, once, read(w.Grad()))
	w.ZeroGrad()
	plantest.Compare(t, r.sess, func(s *autograd.Scope) error { step(s); return nil })
}

// zero is the number 0.
func zero(s *autograd.Scope, r *rig) value {
	z := r.tensor(newArray(), tensor.Float32)
	s.OnClose(z.Release)
	return s.Input(z)
}

// What Reshape had to copy belongs to its result: Free gives it back.
func TestReshapeOwnsItsCopy(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(floats(3, 4).values(1), tensor.Float32)
	defer x.Release()
	r.ok(func(s *autograd.Scope) {
		live := r.dev.Stats().Live
		turned := ops.Transpose(s, s.Input(x), 0, 1)
		for _, f := range []func(*autograd.Scope, value) value{
			ops.Contiguous,
			func(s *autograd.Scope, x value) value { return ops.Reshape(s, x, 2, 6) },
			func(s *autograd.Scope, x value) value { return ops.Flatten(s, x, 0, -1) },
		} {
			v := f(s, turned)
			require.True(t, v.Tensor().IsContiguous())
			require.NotSame(t, x.Buffer(), v.Tensor().Buffer())
			require.Equal(t, live+v.Spec().Bytes(), r.dev.Stats().Live)
			s.Free(v)
			require.Equal(t, live, r.dev.Stats().Live)
		}
		require.Same(t, x.Buffer(), ops.Squeeze(s, ops.Unsqueeze(s, turned, 1), 1).Tensor().Buffer(), "views of any strides")
		require.Equal(t, live, r.dev.Stats().Live)
	})
}

// An operation in place on a reshaped value takes the buffer over and keeps the history right.
func TestInPlaceOnAReshapedValue(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	w := r.param("w", array{[]int{2, 2}, []float64{1, 2, 3, 4}}, tensor.Float64)
	g := r.tensor(array{[]int{4}, []float64{1, 10, 100, 1000}}, tensor.Float64)
	defer g.Release()
	r.ok(func(s *autograd.Scope) {
		h := ops.Add(s, w.Value(), w.Value())
		v := ops.Reshape(s, h, -1)
		y := ops.AddInPlace(s, v, ops.Flatten(s, w.Value(), 0, 1))
		require.Equal(t, []float64{3, 6, 9, 12}, read(y.Tensor()).data)
		y.Backward(s, autograd.WithGrad(g))
	})
	require.Equal(t, []float64{3, 30, 300, 3000}, read(w.Grad()).data)
	r.fails(func(s *autograd.Scope) {
		v := ops.Transpose(s, ops.Reshape(s, w.Value(), 4, 1), 0, 1)
		ops.AddInPlace(s, v, v)
	}, "a view of a leaf that requires grad")
	r.fails(func(s *autograd.Scope) {
		v := ops.Unbind(s, ops.Add(s, w.Value(), w.Value()), 0)
		ops.AddInPlace(s, v[0], v[1])
	}, "output 0 of unbind", "multiple views")
}

// An expanded value takes no bytes; only its gradient does.
func TestExpandTakesNoBytes(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	w := r.param("w", floats(1, 3).values(1), tensor.Float32)
	g := r.tensor(floats(4, 3).values(2), tensor.Float32)
	defer g.Release()
	require.Equal(t, []made{{"backward", 4 * 3 * 4}, {"expand'", 3 * 4}}, r.allocs(func(s *autograd.Scope) {
		v := ops.Expand(s, w.Value(), 4, 3)
		require.Same(t, w.Tensor().Buffer(), v.Tensor().Buffer())
		v.Backward(s, autograd.WithGrad(g))
	}))
}

// Gradients of what was joined along the first dimension share one buffer; others get copies.
func TestCatAndStackShareGradients(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(floats(2, 3).values(1), tensor.Float32)
	defer x.Release()
	for _, dim := range []int{0, 1} {
		for name, join := range map[string]func(s *autograd.Scope, xs ...value) value{
			"cat":   func(s *autograd.Scope, xs ...value) value { return ops.Cat(s, dim, xs...) },
			"stack": func(s *autograd.Scope, xs ...value) value { return ops.Stack(s, dim, xs...) },
		} {
			list := r.allocs(func(s *autograd.Scope) {
				a, b := s.Input(x).RequireGrad(), s.Input(x).RequireGrad()
				y := join(s, a, b)
				g, err := tensor.New(r.dev, memory.Input, site, y.Spec())
				require.NoError(t, err)
				s.OnClose(g.Release)
				require.NoError(t, tensor.FillRange(g, 0, 1))
				y.Backward(s, autograd.WithGrad(g))
				require.Equal(t, dim == 0, a.Grad().Buffer() == b.Grad().Buffer())
			})
			want := []made{{name, 48}, {"test", 48}, {"backward", 48}}
			if dim == 1 {
				want = append(want, made{name + "'", 24}, made{name + "'", 24})
			}
			require.Equal(t, want, list)
		}
	}
}

// Elements are moved by their size: any dtype will do.
func TestMovesAnyDType(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	a := array{[]int{2, 3}, []float64{0, 1, 1, 1, 0, 1}}
	j := r.tensor(array{[]int{2, 2}, []float64{2, 0, 1, 1}}, tensor.Int64)
	k := r.tensor(array{[]int{2}, []float64{1, 1}}, tensor.Int32)
	defer j.Release()
	defer k.Release()
	in := []array{a, a}
	ja, ka := read(j), read(k)
	for _, dt := range []tensor.DType{
		tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool,
	} {
		full := r.tensor(a, tensor.Float64)
		x, err := full.To(dt, memory.Input, site)
		full.Release()
		require.NoError(t, err)
		r.ok(func(s *autograd.Scope) {
			v := s.Input(x)
			turned := ops.Transpose(s, ops.Contiguous(s, ops.Transpose(s, v, 0, 1)), 0, 1) // the same, other strides
			for _, v := range []value{v, turned} {
				for _, c := range []struct {
					want []array
					got  value
				}{
					{refReshape(6)(in), ops.Reshape(s, v, 6)},
					{refCat(1)(in), ops.Cat(s, 1, v, v)},
					{refStack(1)(in), ops.Stack(s, 1, v, v)},
					{refPad(0, 1, -1)(in), ops.Pad(s, v, 0, 1, -1)},
					{refRepeat(2, 2)(in), ops.Repeat(s, v, 2, 2)},
					{refTriangle(func(k int) bool { return k <= 0 })(in), ops.Tril(s, v, 0)},
					{refGather(1)([]array{a, ja}), ops.Gather(s, v, 1, s.Input(j))},
					{refIndexSelect(0)([]array{a, ka}), ops.IndexSelect(s, v, 0, s.Input(k))},
				} {
					require.Equal(t, dt, c.got.DType())
					require.Equal(t, c.want[0], read(c.got.Tensor()), "%v", dt)
				}
			}
		})
		x.Release()
	}
}

// Law N6 for what moves elements: nothing is multiplied, so what is outside does not show.
func TestMovesOfNaNAndInf(t *testing.T) {
	matrix := array{[]int{2, 2}, []float64{nan, inf, -inf, 1}}
	for name, c := range map[string]struct {
		call  func(*autograd.Scope, []value) []value
		in    []array
		out   []float64
		grads [][]float64
	}{
		"tril":         {unary(func(s S, x value) value { return ops.Tril(s, x, 0) }), []array{matrix}, []float64{nan, 0, -inf, 1}, [][]float64{{1, 0, 1, 1}}},
		"pad":          {pad(inf, -1, 1), []array{matrix}, []float64{inf, inf, 1, inf}, [][]float64{{0, 1, 0, 1}}},
		"cat":          {cat(0), []array{matrix, matrix}, []float64{nan, inf, -inf, 1, nan, inf, -inf, 1}, [][]float64{{1, 1, 1, 1}, {1, 1, 1, 1}}},
		"gather":       {gather(1), []array{matrix, {[]int{2, 1}, []float64{1, 0}}}, []float64{inf, -inf}, [][]float64{{0, 1, 1, 0}}},
		"index_select": {indexSelect(0), []array{matrix, {[]int{2}, []float64{0, 0}}}, []float64{nan, inf, nan, inf}, [][]float64{{2, 2, 0, 0}}},
		"repeat":       {unary(func(s S, x value) value { return ops.Repeat(s, x, 2, 1) }), []array{matrix}, []float64{nan, inf, -inf, 1, nan, inf, -inf, 1}, [][]float64{{2, 2, 2, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dt := range floatTypes {
				checkSpecial(t, dt, c.call, c.in, c.out, c.grads)
			}
		})
	}
}

// The gradient of what tril leaves out is zero whatever arrives, also where it is added.
func TestTriangleKeepsNaNOut(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(array{[]int{2, 2}, []float64{1, 2, 3, 4}}, tensor.Float32)
	g := r.tensor(array{[]int{2, 2}, []float64{1, nan, 3, nan}}, tensor.Float32)
	defer x.Release()
	defer g.Release()
	r.ok(func(s *autograd.Scope) {
		v := s.Input(x).RequireGrad()
		for range 2 {
			ops.Tril(s, v, 0).Backward(s, autograd.WithGrad(g))
		}
		require.Equal(t, []float64{2, 0, 6}, read(v.Grad()).data[:3])
		require.True(t, math.IsNaN(v.Grad().At(1, 1)))
	})
}

func TestEmbeddingPadding(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	w := r.param("w", floats(3, 2).values(1), tensor.Float32)
	index := r.tensor(array{[]int{4}, []float64{1, 0, 1, 2}}, tensor.Int64)
	ones := r.tensor(array{[]int{4, 2}, []float64{1, 1, 1, 1, 1, 1, 1, 1}}, tensor.Float32)
	defer index.Release()
	defer ones.Release()
	for _, pad := range []int{1, -2} {
		r.ok(func(s *autograd.Scope) {
			y := ops.Embedding(s, w.Value(), s.Input(index), ops.PaddingIndex(pad))
			require.Equal(t, read(w.Tensor()).data[2:4], read(y.Tensor()).data[:2], "looked up like the others")
			y.Backward(s, autograd.WithGrad(ones))
		})
		require.Equal(t, []float64{1, 1, 0, 0, 1, 1}, read(w.Grad()).data)
		w.ZeroGrad()
	}
}

func TestShapeErrors(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	filled := func(s *autograd.Scope, dt tensor.DType, v float64, shape ...int) value {
		x, err := tensor.New(r.dev, 0, site, tensor.Of(dt, shape...))
		require.NoError(t, err)
		s.OnClose(x.Release)
		require.NoError(t, tensor.Fill(x, v))
		return s.Input(x)
	}
	f32 := func(s S, shape ...int) value { return filled(s, tensor.Float32, 0, shape...) }
	i64 := func(s S, v float64, shape ...int) value { return filled(s, tensor.Int64, v, shape...) }
	for _, c := range []struct {
		text string
		call func(s S)
	}{
		{"slice[float32[3]]: step 0: want 1 or more", func(s S) { ops.SliceStep(s, f32(s, 3), 0, 0, 2, 0) }},
		{"slice[float32[3]]: [1:4] of dim 0, of size 3", func(s S) { ops.Narrow(s, f32(s, 3), 0, 1, 3) }},
		{"select[float32[3]]: tensor: select float32[3]: [3] of dim 0, of size 3: want 0 to 2", func(s S) { ops.Select(s, f32(s, 3), 0, 3) }},
		{"unbind[float32[]]: dim 0 of a scalar", func(s S) { ops.Unbind(s, f32(s), 0) }},
		{"want 6 elements, got 4", func(s S) { ops.Reshape(s, f32(s, 2, 3), 4) }},
		{"no size for -1 gives 6 elements", func(s S) { ops.Reshape(s, f32(s, 2, 3), -1, 4) }},
		{"reshape: input 0 is nil", func(s S) { ops.Reshape(s, nil, 4) }},
		{"flatten[float32[2 3]]: dims 1 to 0: want the first before the last", func(s S) { ops.Flatten(s, f32(s, 2, 3), 1, 0) }},
		{"flatten[float32[2 3]]: dim 2 of rank 2: want -2 to 1", func(s S) { ops.Flatten(s, f32(s, 2, 3), 0, 2) }},
		{"dim 0 is of size 2, want 1", func(s S) { ops.Squeeze(s, f32(s, 2, 3), 0) }},
		{"dim 4 of rank 3: want -3 to 2", func(s S) { ops.Unsqueeze(s, f32(s, 2, 3), 4) }},
		{"dim 1 twice", func(s S) { ops.Permute(s, f32(s, 2, 3), 1, -1) }},
		{"dim 2 of rank 2: want -2 to 1", func(s S) { ops.Transpose(s, f32(s, 2, 3), 0, 2) }},
		{"sizes must be equal or 1", func(s S) { ops.Expand(s, f32(s, 2, 3), 4, 3) }},

		{"cat: want at least one tensor", func(s S) { ops.Cat(s, 0) }},
		{"cat[float32[2] int64[2]]: want equal dtypes", func(s S) { ops.Cat(s, 0, f32(s, 2), i64(s, 0, 2)) }},
		{"tensor 1 has another shape than tensor 0: want equal sizes but for dim 0", func(s S) { ops.Cat(s, 0, f32(s, 2, 3), f32(s, 2, 4)) }},
		{"tensor 1 has another shape", func(s S) { ops.Cat(s, 0, f32(s, 2, 3), f32(s, 0)) }},
		{"cat[float32[]]: dim 0 of a scalar", func(s S) { ops.Cat(s, 0, f32(s)) }},
		{"stack: want at least one tensor", func(s S) { ops.Stack(s, 0) }},
		{"want equal shapes", func(s S) { ops.Stack(s, 0, f32(s, 2), f32(s, 3)) }},
		{"dim 2 of rank 2: want -2 to 1", func(s S) { ops.Stack(s, 2, f32(s, 2), f32(s, 2)) }},
		{"stack[float32[2] float64[2]]: want equal dtypes", func(s S) { ops.Stack(s, 0, f32(s, 2), filled(s, tensor.Float64, 0, 2)) }},

		{"pad[float32[3]]: 1 pads: want pairs", func(s S) { ops.Pad(s, f32(s, 3), 0, 1) }},
		{"4 pads: want pairs, at most one for each of 1 dimensions", func(s S) { ops.Pad(s, f32(s, 3), 0, 1, 1, 1, 1) }},
		{"pads (-2, -2) of dim 0, of size 3: want a size of 0 or more", func(s S) { ops.Pad(s, f32(s, 3), 0, -2, -2) }},
		{"repeat [2]: want a number of times for each of 2 dimensions", func(s S) { ops.Repeat(s, f32(s, 2, 3), 2) }},
		{"repeat [-1]: want 0 or more", func(s S) { ops.Repeat(s, f32(s, 2), -1) }},
		{"want at most 8 dimensions, got 9", func(s S) { ops.Repeat(s, f32(s), 1, 1, 1, 1, 1, 1, 1, 1, 1) }},
		{"tril[float32[3]]: want x [... M N]", func(s S) { ops.Tril(s, f32(s, 3), 0) }},

		{"gather[float32[3] float32[3]]: want int64 or int32 indices, got float32", func(s S) { ops.Gather(s, f32(s, 3), 0, f32(s, 3)) }},
		{"want an index of 2 dimensions, as many as x has", func(s S) { ops.Gather(s, f32(s, 2, 3), 0, i64(s, 0, 3)) }},
		{"dim 1 of the index is 4: want at most 3, as x has", func(s S) { ops.Gather(s, f32(s, 2, 3), 0, i64(s, 0, 5, 4)) }},
		{"gather[float32[2 3] int64[1 3]]: index [0 0] is 2: want 0 to 1, a position of dim 0", func(s S) { ops.Gather(s, f32(s, 2, 3), 0, i64(s, 2, 1, 3)) }},
		{"index [0 0] is -1: want 0 to 1", func(s S) { ops.Gather(s, f32(s, 2, 3), -2, i64(s, -1, 300, 3)) }},
		{"index [0 0] is 0: dim 0 of x has no positions", func(s S) { ops.Gather(s, f32(s, 0, 3), 0, i64(s, 0, 1, 3)) }},
		{"index_select[float32[2 3] int64[1 3]]: want an index of one dimension", func(s S) { ops.IndexSelect(s, f32(s, 2, 3), 0, i64(s, 0, 1, 3)) }},
		{"index_select[float32[2 300] int64[100]]: index [0] is 2: want 0 to 1, a position of dim 0", func(s S) { ops.IndexSelect(s, f32(s, 2, 300), 0, i64(s, 2, 100)) }},
		{"embedding[float32[2 3] int64[1]]: padding index 2: want -2 to 1, a row of the weight", func(s S) {
			ops.Embedding(s, f32(s, 2, 3), i64(s, 0, 1), ops.PaddingIndex(2))
		}},
	} {
		r.fails(c.call, c.text)
	}
}
