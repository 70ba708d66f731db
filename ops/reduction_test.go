package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Law N6 for reductions, softmax and losses: what NaN, Inf and zeros give, as torch has it unless the op says otherwise.
// grad 1 comes back for each output.
func TestNaNAndInfInReductions(t *testing.T) {
	row := func(x ...float64) array { return array{[]int{len(x)}, x} }
	none, two := []array{{[]int{0}, nil}}, []array{{[]int{0}, nil}, {[]int{0}, nil}}
	for _, c := range []struct {
		name  string
		call  func(*autograd.Scope, []value) []value
		in    []array
		out   []float64
		grads [][]float64
	}{
		{"sum: Inf - Inf", reduction(ops.Sum, everything), []array{row(inf, -inf, 1)}, []float64{nan}, [][]float64{{1, 1, 1}}},
		{"mean: of nothing", reduction(ops.Mean, everything), none, []float64{nan}, [][]float64{nil}},
		{"var: of nothing", reduction(variance(0), everything), none, []float64{nan}, [][]float64{nil}},
		{"var: of one", reduction(variance(1), everything), []array{row(3)}, []float64{nan}, [][]float64{{nan}}},
		{"var: NaN", reduction(variance(1), everything), []array{row(3, nan)}, []float64{nan}, [][]float64{{nan, nan}}},
		{"std: no variance", reduction(deviation(1), everything), []array{row(3, 3)}, []float64{0}, [][]float64{{0, 0}}},
		{"amax: ties", reduction(ops.AMax, everything), []array{row(1, 4, 4, -inf)}, []float64{4}, [][]float64{{0, 0.5, 0.5, 0}}},
		{"amax: Inf", reduction(ops.AMax, everything), []array{row(1, inf, inf)}, []float64{inf}, [][]float64{{0, 0.5, 0.5}}},
		{"amax: -Inf alone", reduction(ops.AMax, everything), []array{row(-inf, -inf)}, []float64{-inf}, [][]float64{{0.5, 0.5}}},
		{"amax: NaN", reduction(ops.AMax, everything), []array{row(1, nan, inf)}, []float64{nan}, [][]float64{{nan, nan, nan}}},
		{"amin: ties", reduction(ops.AMin, everything), []array{row(1, 4, 1, inf)}, []float64{1}, [][]float64{{0.5, 0, 0.5, 0}}},
		{"amin: NaN", reduction(ops.AMin, along(0)), []array{{[]int{2, 2}, []float64{1, nan, 2, -inf}}},
			[]float64{1, nan}, [][]float64{{1, nan, 0, nan}}},
		{"norm: 0", reduction(norm(2), everything), []array{row(0, 0)}, []float64{0}, [][]float64{{0, 0}}},
		{"norm: of nothing", reduction(norm(2), everything), none, []float64{0}, [][]float64{nil}},
		{"norm: Inf", reduction(norm(2), everything), []array{row(inf, 1)}, []float64{inf}, [][]float64{{nan, 0}}},
		{"norm: NaN", reduction(norm(2), everything), []array{row(nan, 1)}, []float64{nan}, [][]float64{{nan, nan}}},
		{"norm 1", reduction(norm(1), everything), []array{row(-inf, 0, 2)}, []float64{inf}, [][]float64{{-1, 0, 1}}},
		{"norm 1: NaN", reduction(norm(1), everything), []array{row(nan, 2)}, []float64{nan}, [][]float64{{nan, 1}}},
		{"norm inf: ties", reduction(norm(inf), everything), []array{row(-3, 1, 3)}, []float64{3}, [][]float64{{-0.5, 0, 0.5}}},
		{"norm inf: 0", reduction(norm(inf), everything), []array{row(0, 0)}, []float64{0}, [][]float64{{0, 0}}},
		{"norm inf: of nothing", reduction(norm(inf), everything), none, []float64{0}, [][]float64{nil}},
		{"norm inf: NaN", reduction(norm(inf), everything), []array{row(nan, 1)}, []float64{nan}, [][]float64{{nan, nan}}},
		{"logsumexp: of nothing", reduction(ops.LogSumExp, everything), none, []float64{-inf}, [][]float64{nil}},
		{"logsumexp: -Inf", reduction(ops.LogSumExp, everything), []array{row(-inf, 1)}, []float64{1}, [][]float64{{0, 1}}},
		{"logsumexp: -Inf alone", reduction(ops.LogSumExp, everything), []array{row(-inf, -inf)}, []float64{-inf}, [][]float64{{nan, nan}}},
		{"logsumexp: Inf", reduction(ops.LogSumExp, everything), []array{row(inf, 1)}, []float64{inf}, [][]float64{{nan, 0}}},
		{"logsumexp: far from 0", reduction(ops.LogSumExp, everything), []array{row(-1e4, -2e4)}, []float64{-1e4}, [][]float64{{1, 0}}},
		{"cumsum", alongDim(ops.CumSum, 0), []array{row(1, inf, -inf, 2)}, []float64{1, inf, nan, nan}, [][]float64{{4, 3, 2, 1}}},
		{"softmax", alongDim(ops.Softmax, 0), []array{row(1e4, 1e4, -inf)}, []float64{0.5, 0.5, 0}, [][]float64{{0, 0, 0}}},
		{"softmax: -Inf alone", alongDim(ops.Softmax, 1), []array{{[]int{2, 2}, []float64{-inf, -inf, 0, 0}}},
			[]float64{nan, nan, 0.5, 0.5}, [][]float64{{nan, nan, 0, 0}}},
		{"softmax: Inf", alongDim(ops.Softmax, 0), []array{row(inf, 0)}, []float64{nan, nan}, [][]float64{{nan, nan}}},
		{"softmax: NaN", alongDim(ops.Softmax, 0), []array{{[]int{2, 2}, []float64{nan, 0, 0, 0}}},
			[]float64{nan, 0.5, nan, 0.5}, [][]float64{{nan, 0, nan, 0}}},
		{"log_softmax: -Inf", alongDim(ops.LogSoftmax, 0), []array{row(-inf, 5)}, []float64{-inf, 0}, [][]float64{{1, -1}}},
		{"mse_loss: mean of nothing", loss(ops.MSELoss), two, []float64{nan}, [][]float64{nil, nil}},
		{"mse_loss: NaN", loss(ops.MSELoss, ops.ReduceSum), []array{row(nan, 1), row(0, 0)}, []float64{nan}, [][]float64{{nan, 2}, {nan, -2}}},
		{"l1_loss: equal", loss(ops.L1Loss, ops.ReduceNone), []array{row(2, inf, nan), row(2, 0, 0)},
			[]float64{0, inf, nan}, [][]float64{{0, 1, nan}, {0, -1, nan}}},
		{"bce_with_logits: sure", loss(ops.BCEWithLogits, ops.ReduceNone), []array{row(1e4, -1e4, 1e4), row(1, 0, 0)},
			[]float64{0, 0, 1e4}, [][]float64{{0, 0, 1}, {-1e4, 1e4, -1e4}}},
		{"kl_div: 0", loss(ops.KLDiv, ops.ReduceNone), []array{row(-1, -2), row(0, 1)}, []float64{0, 2}, [][]float64{{0, -1}, {0, 3}}},
		{"kl_div: batchmean of nothing", loss(ops.KLDiv, ops.ReduceBatchMean), two, []float64{nan}, [][]float64{nil, nil}},
		{"cross_entropy: the sum of nothing", crossEntropyWith(nil, ops.ReduceSum), []array{{[]int{2, 2}, []float64{1, 2, 3, 4}}, row(ignore, ignore)},
			[]float64{0}, [][]float64{{0, 0, 0, 0}}},
		{"cross_entropy: a weight of 0", crossEntropyWith([]float64{0, 1}), []array{{[]int{2, 2}, []float64{1, 2, 0, 0}}, row(0, 1)},
			[]float64{math.Ln2}, [][]float64{{0, 0, 0.5, -0.5}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, dt := range floatTypes {
				checkSpecial(t, dt, c.call, c.in, c.out, c.grads)
			}
		})
	}
}

// The first NaN wins, otherwise the first of the largest.
func TestArgMaxFindsNaN(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(array{[]int{4, 3}, []float64{
		1, nan, nan,
		-inf, -inf, -inf,
		0, inf, inf,
		2, 1, 2,
	}}, tensor.Float32)
	defer x.Release()
	r.ok(func(s *autograd.Scope) {
		v := s.Input(x).RequireGrad()
		last := ops.ArgMax(s, v, ops.Over(-1))
		require.False(t, last.RequiresGrad())
		require.Equal(t, []float64{1, 0, 1, 0}, read(last.Tensor()).data)
		require.Equal(t, []float64{1, 0, 0, 1}, read(ops.ArgMin(s, v, ops.Over(-1)).Tensor()).data)
		require.Equal(t, []float64{3, 0, 0}, read(ops.ArgMax(s, v, ops.Over(0)).Tensor()).data)
		require.Equal(t, 1.0, ops.ArgMax(s, v).Item())
		require.Equal(t, []int{1, 1}, ops.ArgMax(s, v, ops.Over().Keep()).Shape())
	})
}

// Sum counts what is true, and adds integers that float64 cannot hold.
func TestSumOfIntegers(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	truth, err := tensor.From(r.dev, 0, site, []bool{true, false, true, true, false, true}, 2, 3)
	require.NoError(t, err)
	defer truth.Release()
	odd, err := tensor.From(r.dev, 0, site, []int64{1 << 53, 1, math.MaxInt64, 1}, 2, 2)
	require.NoError(t, err)
	defer odd.Release()
	r.ok(func(s *autograd.Scope) {
		n := ops.Sum(s, s.Input(truth), ops.Over(1))
		require.Equal(t, tensor.Int64, n.DType())
		require.Equal(t, []int64{2, 2}, tensor.Data[int64](n.Tensor()))
		require.Equal(t, []int64{1<<53 + 1, math.MinInt64}, tensor.Data[int64](ops.Sum(s, s.Input(odd), ops.Over(1)).Tensor()))
	})
}

// Law E1.
func TestErrorsInReductions(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	made := map[string]*tensor.Tensor{}
	in := func(s *autograd.Scope, dt tensor.DType, shape ...int) value {
		return s.Input(made[tensor.Of(dt, shape...).String()])
	}
	for _, sp := range []tensor.Spec{
		tensor.Of(tensor.Float32), tensor.Of(tensor.Float32, 2, 3), tensor.Of(tensor.Float32, 2, 0), tensor.Of(tensor.Float32, 3),
		tensor.Of(tensor.Float64, 2, 3), tensor.Of(tensor.Float32, 2, 1), tensor.Of(tensor.Int64, 2), tensor.Of(tensor.Uint8, 2),
		tensor.Of(tensor.Float64, 3), tensor.Of(tensor.Float32, 2),
	} {
		x, err := tensor.Zeros(r.dev, 0, site, sp)
		require.NoError(t, err)
		defer x.Release()
		made[sp.String()] = x
	}
	const f32, f64, i64 = tensor.Float32, tensor.Float64, tensor.Int64
	type S = *autograd.Scope
	for _, c := range []struct {
		text string
		call func(s S)
	}{
		{"sum[uint8[2]]: want a float dtype, int64, int32 or bool, got uint8", func(s S) { ops.Sum(s, in(s, tensor.Uint8, 2)) }},
		{"sum[float32[2 3]]: dim 2 of rank 2: want -2 to 1", func(s S) { ops.Sum(s, in(s, f32, 2, 3), ops.Over(2)) }},
		{"sum[float32[2 3]]: dims [0 -2] of rank 2: dim 0 is named twice", func(s S) { ops.Sum(s, in(s, f32, 2, 3), ops.Over(0, -2)) }},
		{"sum[float32[2 3]]: want one Over, got 2: Over(0, 1) names several dimensions", func(s S) { ops.Sum(s, in(s, f32, 2, 3), ops.Over(0), ops.Over(1)) }},
		{"mean[int64[2]]: want a float dtype, got int64", func(s S) { ops.Mean(s, in(s, i64, 2)) }},
		{"amax[float32[2 0]]: a dimension to reduce has size 0: want an element to choose", func(s S) { ops.AMax(s, in(s, f32, 2, 0), ops.Over(1)) }},
		{"argmin[float32[2 0]]: a dimension to reduce has size 0", func(s S) { ops.ArgMin(s, in(s, f32, 2, 0)) }},
		{"argmax[float32[2 3]]: want one dimension, or all, got [0 1]", func(s S) { ops.ArgMax(s, in(s, f32, 2, 3), ops.Over(0, 1)) }},
		{"argmax[int64[2]]: want a float dtype, got int64", func(s S) { ops.ArgMax(s, in(s, i64, 2)) }},
		{"var[float32[2 3]]: want a correction of 0 or more, got -1", func(s S) { ops.Var(s, in(s, f32, 2, 3), -1) }},
		{"norm[float32[2 3]]: want p of 1, 2 or +Inf, got 3", func(s S) { ops.Norm(s, in(s, f32, 2, 3), 3) }},
		{"norm[float32[2 3]]: want p of 1, 2 or +Inf, got NaN", func(s S) { ops.Norm(s, in(s, f32, 2, 3), nan) }},
		{"softmax[float32[]]: dim 0 of a scalar", func(s S) { ops.Softmax(s, in(s, f32), 0) }},
		{"log_softmax[int64[2]]: want a float dtype, got int64", func(s S) { ops.LogSoftmax(s, in(s, i64, 2), 0) }},
		{"cumsum[float32[2 3]]: dim -3 of rank 2: want -2 to 1", func(s S) { ops.CumSum(s, in(s, f32, 2, 3), -3) }},
		{"mse_loss[float32[2 3] float32[2 1]]: want input and target of equal shapes", func(s S) { ops.MSELoss(s, in(s, f32, 2, 3), in(s, f32, 2, 1)) }},
		{"l1_loss[float32[2 3] float64[2 3]]: want equal dtypes", func(s S) { ops.L1Loss(s, in(s, f32, 2, 3), in(s, f64, 2, 3)) }},
		{"smooth_l1_loss[float32[3] float32[3]]: want beta of 0 or more, got -1", func(s S) { ops.SmoothL1Loss(s, in(s, f32, 3), in(s, f32, 3), -1) }},
		{"bce_with_logits[float32[3] float32[3]]: want reduction mean, sum or none, got batchmean", func(s S) {
			ops.BCEWithLogits(s, in(s, f32, 3), in(s, f32, 3), ops.ReduceBatchMean)
		}},
		{"kl_div[float32[3] float32[3]]: want reduction mean, sum or none, got reduction(9)", func(s S) { ops.KLDiv(s, in(s, f32, 3), in(s, f32, 3), 9) }},
		{"kl_div[float32[] float32[]]: want [N ...] for batchmean, got a scalar", func(s S) { ops.KLDiv(s, in(s, f32), in(s, f32), ops.ReduceBatchMean) }},
		{"mse_loss[float32[3] float32[3]]: want one reduction, got 2", func(s S) { ops.MSELoss(s, in(s, f32, 3), in(s, f32, 3), ops.ReduceSum, ops.ReduceNone) }},
		{"cross_entropy[float32[2 3] int64[2]]: want label smoothing from 0 to 1, got 1.5", func(s S) {
			ops.CrossEntropy(s, in(s, f32, 2, 3), in(s, i64, 2), ops.LabelSmoothing(1.5))
		}},
		{"cross_entropy[float32[2 3] int64[2]]: want reduction mean, sum or none, got batchmean", func(s S) {
			ops.CrossEntropy(s, in(s, f32, 2, 3), in(s, i64, 2), ops.ReduceBatchMean)
		}},
		{"cross_entropy[float32[2 3] int64[2] float32[2]]: want class weights [3], one a class", func(s S) {
			ops.CrossEntropy(s, in(s, f32, 2, 3), in(s, i64, 2), ops.ClassWeights(in(s, f32, 2)))
		}},
		{"cross_entropy[float32[2 3] int64[2] float64[3]]: want equal dtypes", func(s S) {
			ops.CrossEntropy(s, in(s, f32, 2, 3), in(s, i64, 2), ops.ClassWeights(in(s, f64, 3)))
		}},
		{"cross_entropy[float32[2 3] int64[2] float32[3]]: class weights have no gradient: Detach them", func(s S) {
			ops.CrossEntropy(s, in(s, f32, 2, 3), in(s, i64, 2), ops.ClassWeights(in(s, f32, 3).RequireGrad()))
		}},
	} {
		r.fails(c.call, c.text)
	}
}

// A target that is neither a class nor ignored is named, with what would be ignored.
func TestIgnoredTargetInErrors(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	logits := r.tensor(newArray(2, 3), tensor.Float32)
	targets := r.tensor(array{[]int{2}, []float64{7, -100}}, tensor.Int64)
	defer logits.Release()
	defer targets.Release()
	r.fails(func(s *autograd.Scope) { ops.CrossEntropy(s, s.Input(logits), s.Input(targets), ops.IgnoreTarget(7)) },
		"row [1] has target -100: want 0 to 2, one of 3 classes, or 7 to ignore the row")
}
