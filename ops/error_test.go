package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Law E1: what is wrong is reported by the call that got it, with what was wanted. Live bytes are then what they were.
func TestErrors(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	made := map[string]*tensor.Tensor{}
	defer func() {
		for _, x := range made {
			x.Release()
		}
	}()
	in := func(s *autograd.Scope, dt tensor.DType, shape ...int) value {
		key := tensor.Of(dt, shape...).String()
		if made[key] == nil {
			x, err := tensor.Zeros(r.dev, 0, site, tensor.Of(dt, shape...))
			require.NoError(t, err)
			made[key] = x
		}
		return s.Input(made[key])
	}
	const f32, f64, f16, i64, i32, u8 = tensor.Float32, tensor.Float64, tensor.Float16, tensor.Int64, tensor.Int32, tensor.Uint8
	type S = *autograd.Scope
	cases := []struct {
		text string
		call func(s S)
	}{
		{"linear[float32[2 3] float32[4 5]]: want x [... K] and weight [N K]", func(s S) { ops.Linear(s, in(s, f32, 2, 3), in(s, f32, 4, 5), nil) }},
		{"linear[float32[] float32[4 5]]: want x [... K]", func(s S) { ops.Linear(s, in(s, f32), in(s, f32, 4, 5), nil) }},
		{"linear[float32[5] float32[4 5] float32[5]]: want bias [4]", func(s S) { ops.Linear(s, in(s, f32, 5), in(s, f32, 4, 5), in(s, f32, 5)) }},
		{"linear[float32[5] float32[4 5] float32[4 1]]: want bias [4]", func(s S) { ops.Linear(s, in(s, f32, 5), in(s, f32, 4, 5), in(s, f32, 4, 1)) }},
		{"linear[float32[5] float64[4 5]]: want equal dtypes", func(s S) { ops.Linear(s, in(s, f32, 5), in(s, f64, 4, 5), nil) }},
		{"linear[int32[5] int32[4 5]]: want a float dtype, got int32", func(s S) { ops.Linear(s, in(s, i32, 5), in(s, i32, 4, 5), nil) }},
		{"linear[float16[5] float32[4 5]]: want equal dtypes; convert with Cast, or work under autocast", func(s S) { ops.Linear(s, in(s, f16, 5), in(s, f32, 4, 5), nil) }},
		{"linear[float32[5]]: input 1 is nil", func(s S) { ops.Linear(s, in(s, f32, 5), nil, nil) }},

		{"matmul[float32[2 3] float32[2 3]]: want [... M K] and [... K N]", func(s S) { ops.MatMul(s, in(s, f32, 2, 3), in(s, f32, 2, 3)) }},
		{"matmul[float32[] float32[3]]: want [... M K]", func(s S) { ops.MatMul(s, in(s, f32), in(s, f32, 3)) }},
		{"matmul[float32[2 3 4] float32[3 4 5]]: the batch dimensions do not fit", func(s S) { ops.MatMul(s, in(s, f32, 2, 3, 4), in(s, f32, 3, 4, 5)) }},
		{"matmul[int64[3] int64[3]]: want a float dtype, got int64", func(s S) { ops.MatMul(s, in(s, i64, 3), in(s, i64, 3)) }},

		{"add[float32[2 3] float32[2]]: tensor: broadcast [2 3] with [2]", func(s S) { ops.Add(s, in(s, f32, 2, 3), in(s, f32, 2)) }},
		{"add[float32[2] float64[2]]: want equal dtypes", func(s S) { ops.Add(s, in(s, f32, 2), in(s, f64, 2)) }},
		{"want at most 16 dimensions, got 17", func(s S) { ops.Add(s, in(s, f32, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2), in(s, f32, 2)) }},
		{"add[uint8[2] uint8[2]]: want a float dtype, int64 or int32, got uint8", func(s S) { ops.Add(s, in(s, u8, 2), in(s, u8, 2)) }},
		{"add_[float32[2] float32[2]]: a leaf that requires grad", func(s S) { ops.AddInPlace(s, in(s, f32, 2).RequireGrad(), in(s, f32, 2)) }},
		{"add_[float32[2] float32[3 2]]: output with shape [2] doesn't match the broadcast shape [3 2]", func(s S) { ops.AddInPlace(s, in(s, f32, 2), in(s, f32, 3, 2)) }},

		{"relu[int64[2]]: want a float dtype, got int64", func(s S) { ops.ReLU(s, in(s, i64, 2)) }},
		{"gelu[int64[2]]: want a float dtype, got int64", func(s S) { ops.GELU(s, in(s, i64, 2)) }},
		{"gelu_tanh[int64[2]]: want a float dtype, got int64", func(s S) { ops.GELUTanh(s, in(s, i64, 2)) }},

		{"layer_norm[float32[2 3]]: want to normalize over 1 to 2 dimensions of x, got 0", func(s S) { ops.LayerNorm(s, in(s, f32, 2, 3), 0, nil, nil, 1) }},
		{"layer_norm[float32[2 3]]: want to normalize over 1 to 2 dimensions of x, got 3", func(s S) { ops.LayerNorm(s, in(s, f32, 2, 3), 3, nil, nil, 1) }},
		{"layer_norm[float32[]]: want to normalize over 1 to 0 dimensions of x, got 1", func(s S) { ops.LayerNorm(s, in(s, f32), 1, nil, nil, 1) }},
		{"layer_norm[float32[2 3]]: want eps of 0 or more, got -1", func(s S) { ops.LayerNorm(s, in(s, f32, 2, 3), 1, nil, nil, -1) }},
		{"layer_norm[float32[2 3]]: want eps of 0 or more, got NaN", func(s S) { ops.LayerNorm(s, in(s, f32, 2, 3), 1, nil, nil, nan) }},
		{"layer_norm[float32[2 3] float32[3]]: a bias without a weight", func(s S) { ops.LayerNorm(s, in(s, f32, 2, 3), 1, nil, in(s, f32, 3), 1) }},
		{"layer_norm[float32[2 3] float32[2]]: want weight of shape [3]", func(s S) { ops.LayerNorm(s, in(s, f32, 2, 3), 1, in(s, f32, 2), nil, 1) }},
		{"layer_norm[float32[2 3] float32[3] float32[2]]: want bias of shape [3]", func(s S) { ops.LayerNorm(s, in(s, f32, 2, 3), 1, in(s, f32, 3), in(s, f32, 2), 1) }},
		{"layer_norm[float32[2 3] float64[3]]: want equal dtypes", func(s S) { ops.LayerNorm(s, in(s, f32, 2, 3), 1, in(s, f64, 3), nil, 1) }},

		{"cross_entropy[float32[2 3] int64[3]]: want logits [... C] and targets [...]", func(s S) { ops.CrossEntropy(s, in(s, f32, 2, 3), in(s, i64, 3)) }},
		{"cross_entropy[float32[] int64[]]: want logits [... C]", func(s S) { ops.CrossEntropy(s, in(s, f32), in(s, i64)) }},
		{"cross_entropy[float32[2 3] float32[2]]: want int64 or int32 targets, got float32", func(s S) { ops.CrossEntropy(s, in(s, f32, 2, 3), in(s, f32, 2)) }},
		{"cross_entropy[int64[2 3] int64[2]]: want a float dtype, got int64", func(s S) { ops.CrossEntropy(s, in(s, i64, 2, 3), in(s, i64, 2)) }},

		{"dropout[float32[2]]: want a probability from 0 to 1, got -0.1", func(s S) { ops.Dropout(s, in(s, f32, 2), -0.1) }},
		{"dropout[float32[2]]: want a probability from 0 to 1, got 1.5", func(s S) { ops.Dropout(s.Eval(), in(s, f32, 2), 1.5) }},
		{"dropout[float32[2]]: want a probability from 0 to 1, got NaN", func(s S) { ops.Dropout(s, in(s, f32, 2), nan) }},
		{"dropout[int32[2]]: want a float dtype, got int32", func(s S) { ops.Dropout(s, in(s, i32, 2), 0.5) }},

		{"embedding[float32[2 3] float32[2]]: want int64 or int32 indices, got float32", func(s S) { ops.Embedding(s, in(s, f32, 2, 3), in(s, f32, 2)) }},
		{"embedding[float32[2] int64[2]]: want weight [N C]", func(s S) { ops.Embedding(s, in(s, f32, 2), in(s, i64, 2)) }},
		{"embedding[uint8[2 3] int64[2]]: want a float dtype, got uint8", func(s S) { ops.Embedding(s, in(s, u8, 2, 3), in(s, i64, 2)) }},
		{"embedding[float32[0 3] int64[2]]: index [0] is 0: the weight has no rows", func(s S) { ops.Embedding(s, in(s, f32, 0, 3), in(s, i64, 2)) }},

		{"slice[float32[2 3]]: dim 2 of rank 2: want -2 to 1", func(s S) { ops.Slice(s, in(s, f32, 2, 3), 2, 0, 1) }},
		{"slice[float32[2 3]]: dim -3 of rank 2: want -2 to 1", func(s S) { ops.Slice(s, in(s, f32, 2, 3), -3, 0, 1) }},
		{"slice[float32[]]: dim 0 of a scalar", func(s S) { ops.Slice(s, in(s, f32), 0, 0, 1) }},
		{"slice[float32[2 3]]: [1:4] of dim -1, of size 3: want 0 <= lo <= hi <= 3", func(s S) { ops.Slice(s, in(s, f32, 2, 3), -1, 1, 4) }},
		{"slice[float32[2 3]]: [2:1] of dim 1", func(s S) { ops.Slice(s, in(s, f32, 2, 3), 1, 2, 1) }},
		{"slice[float32[2 3]]: [-1:1] of dim 1", func(s S) { ops.Slice(s, in(s, f32, 2, 3), 1, -1, 1) }},
		{"split[float32[2 3]]: 2 parts of dim 1, of size 3: want a number of parts that divides the size", func(s S) { ops.Split(s, in(s, f32, 2, 3), 1, 2) }},
		{"split[float32[2 3]]: 0 parts of dim 1", func(s S) { ops.Split(s, in(s, f32, 2, 3), 1, 0) }},
		{"split[float32[2 3]]: parts [1 1] of dim 1, of size 3: want sizes of 0 or more that add up to it", func(s S) { ops.SplitSizes(s, in(s, f32, 2, 3), 1, 1, 1) }},
		{"split[float32[2 3]]: parts [4 -1] of dim 1", func(s S) { ops.SplitSizes(s, in(s, f32, 2, 3), 1, 4, -1) }},
		{"split[float32[2 3]]: parts [] of dim 1", func(s S) { ops.SplitSizes(s, in(s, f32, 2, 3), 1) }},
	}
	r.ok(func(s *autograd.Scope) { // make the inputs
		for _, c := range cases {
			func() { defer func() { _ = recover() }(); c.call(s) }()
		}
	})
	for _, c := range cases {
		r.fails(c.call, c.text)
	}
}

// What only the data can tell.
func TestIndicesOutOfRange(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	table := r.tensor(newArray(7, 3), tensor.Float32)
	logits := r.tensor(newArray(2, 2, 5), tensor.Float32)
	defer table.Release()
	defer logits.Release()
	for _, dt := range []tensor.DType{tensor.Int64, tensor.Int32} {
		for _, c := range []struct {
			bad         float64
			index, loss string
		}{
			{7, "index [1 0] is 7: want 0 to 6", "row [1 0] has target 7: want 0 to 4, one of 5 classes, or -100 to ignore the row"},
			{-1, "index [1 0] is -1", "row [1 0] has target -1"},
			{1 << 30, "index [1 0] is 1073741824", "row [1 0] has target 1073741824"},
		} {
			x := r.tensor(array{[]int{2, 2}, []float64{4, 0, c.bad, c.bad}}, dt)
			r.fails(func(s *autograd.Scope) { ops.Embedding(s.Named("gpt"), s.Input(table), s.Input(x)) }, "gpt: embedding[float32[7 3]", c.index)
			r.fails(func(s *autograd.Scope) { ops.CrossEntropy(s, s.Input(logits).RequireGrad(), s.Input(x)) }, "cross_entropy[", c.loss)
			x.Release()
		}
	}
}
