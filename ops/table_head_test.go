package ops_test

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

type headOption = ops.LinearCrossEntropyOption

// headWith is LinearCrossEntropy of x, w, targets and, if there is one, a bias.
func headWith(weights []float64, opts ...headOption) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value {
		var b value
		if len(in) > 3 {
			b = in[3]
		}
		if weights == nil {
			return ops.LinearCrossEntropy(s, in[0], in[1], b, in[2], opts...)
		}
		w := constant(s, in[0].DType(), weights)
		defer s.Free(w)
		return ops.LinearCrossEntropy(s, in[0], in[1], b, in[2], append([]headOption{ops.ClassWeights(w)}, opts...)...)
	})
}

// refHead is the composition.
func refHead(weights []float64, skip int, smoothing float64, r ops.Reduction) func([]array) []array {
	return func(in []array) []array {
		logits := refLinear(append([]array{in[0], in[1]}, in[3:]...))
		return refCrossEntropyWith(weights, skip, smoothing, r)([]array{logits, in[2]})
	}
}

// headRows are the forms of the fused head. Pieces of large are cut by the bound.
var headRows = []row{
	{
		name: "linear_cross_entropy", entry: "LinearCrossEntropy", call: headWith(nil, ops.OneSweep(false)), want: refHead(nil, ignore, 0, ops.ReduceMean),
		in:    []arg{floats(2, 3, 5), floats(7, 5), {shape: []int{2, 3}, dt: tensor.Int64, set: []float64{4, 0, ignore, 2, 6, 1}}},
		large: []arg{floats(700, 33), floats(501, 33), idx(501, 700)},
		keeps: "x, weight, targets, log-sum-exp", bytes: 2*3*5*4 + 7*5*4 + 2*3*8 + 2*3*4,
	},
	{
		name: "linear_cross_entropy/pieces of one row", entry: "LinearCrossEntropy", call: headWith(nil, ops.OneSweep(false), ops.LogitsBytes(1), ops.ReduceSum),
		want:  refHead(nil, ignore, 0, ops.ReduceSum),
		in:    []arg{floats(4, 5), floats(7, 5), idx32(7, 4)},
		keeps: "x, weight, targets, log-sum-exp", bytes: 4*5*4 + 7*5*4 + 4*4 + 4*4,
	},
	{
		name: "linear_cross_entropy/none", entry: "LinearCrossEntropy", call: headWith(nil, ops.LogitsBytes(2*7*8), ops.ReduceNone),
		want:  refHead(nil, ignore, 0, ops.ReduceNone),
		in:    []arg{floats(5, 3), floats(7, 3), {shape: []int{5}, dt: tensor.Int64, set: []float64{4, 0, ignore, 2, 6}}},
		large: []arg{floats(3, 100, 9), floats(211, 9), idx(211, 3, 100)},
		keeps: "x, weight, targets, log-sum-exp", bytes: 5*3*4 + 7*3*4 + 5*8 + 5*4,
	},
	{
		name: "linear_cross_entropy/bias", entry: "LinearCrossEntropy, with bias", call: headWith(nil, ops.OneSweep(false), ops.LogitsBytes(1<<18), ops.LabelSmoothing(0.1)),
		want:  refHead(nil, ignore, 0.1, ops.ReduceMean),
		in:    []arg{floats(4, 5), floats(6, 5), idx(6, 4), floats(6)},
		large: []arg{floats(700, 33), floats(301, 33), idx(301, 700), floats(301)},
		keeps: "x, weight, targets, bias, log-sum-exp", bytes: 4*5*4 + 6*5*4 + 4*8 + 6*4 + 4*4,
	},
	{
		name: "linear_cross_entropy/some classes", entry: "LinearCrossEntropy, with bias",
		call: headWith(nil, ops.OneSweep(false), ops.LogitsBytes(176*896*4), ops.LabelSmoothing(0.1), ops.IgnoreTarget(3)),
		want: refHead(nil, 3, 0.1, ops.ReduceMean),
		in:   []arg{floats(4, 5), floats(6, 5), {shape: []int{4}, dt: tensor.Int32, set: []float64{4, 3, 0, 5}}, floats(6)},
		// pieces of 896 and 404 classes: the sum over those is not cut into blocks as the sum over all is
		large: []arg{floats(530, 33), floats(1300, 33), idx32(1300, 530), floats(1300)},
		keeps: "x, weight, targets, bias, log-sum-exp", bytes: 4*5*4 + 6*5*4 + 4*4 + 6*4 + 4*4,
	},
	{
		name: "linear_cross_entropy/weights", entry: "LinearCrossEntropy, with weights",
		call: headWith([]float64{0.5, 2, 1}, ops.OneSweep(false), ops.IgnoreTarget(1)), want: refHead([]float64{0.5, 2, 1}, 1, 0, ops.ReduceMean),
		in:    []arg{floats(4, 5), floats(3, 5), idx(3, 4)},
		keeps: "x, weight, targets, class weights, log-sum-exp", bytes: 4*5*4 + 3*5*4 + 4*8 + 3*4 + 4*4,
	},
	{
		name: "linear_cross_entropy/bias and weights", entry: "LinearCrossEntropy, with bias and weights",
		call: headWith([]float64{0.5, 2, 1}, ops.OneSweep(false), ops.LabelSmoothing(0.3)), want: refHead([]float64{0.5, 2, 1}, ignore, 0.3, ops.ReduceMean),
		in:    []arg{floats(4, 5), floats(3, 5), idx(3, 4), floats(3)},
		keeps: "x, weight, targets, bias, class weights, log-sum-exp", bytes: 4*5*4 + 3*5*4 + 4*8 + 3*4 + 3*4 + 4*4,
	},
	{
		name: "linear_cross_entropy/no rows", entry: "LinearCrossEntropy", call: headWith(nil, ops.OneSweep(false), ops.ReduceSum), want: refHead(nil, ignore, 0, ops.ReduceSum),
		in:    []arg{floats(0, 5), floats(7, 5), idx(7, 0)},
		keeps: "x, weight, targets, log-sum-exp", bytes: 7 * 5 * 4,
	},
	{
		name: "linear_cross_entropy/sweep", entry: "LinearCrossEntropy, in one sweep", call: headWith(nil), want: refHead(nil, ignore, 0, ops.ReduceMean),
		in:    []arg{floats(2, 3, 5), floats(7, 5), {shape: []int{2, 3}, dt: tensor.Int64, set: []float64{4, 0, ignore, 2, 6, 1}}},
		large: []arg{floats(700, 33), floats(501, 33), idx(501, 700)},
		keeps: "gradient of x, gradient of weight", bytes: 2*3*5*4 + 7*5*4,
	},
	{
		name: "linear_cross_entropy/sweep, bias", entry: "LinearCrossEntropy, in one sweep", call: headWith(nil, ops.LogitsBytes(1<<18), ops.LabelSmoothing(0.1)),
		want:  refHead(nil, ignore, 0.1, ops.ReduceMean),
		in:    []arg{floats(4, 5), floats(6, 5), idx32(6, 4), floats(6)},
		large: []arg{floats(700, 33), floats(301, 33), idx32(301, 700), floats(301)},
		keeps: "gradient of x, gradient of weight, gradient of bias", bytes: 4*5*4 + 6*5*4 + 6*4,
	},
	{
		name: "linear_cross_entropy/sweep, weights", entry: "LinearCrossEntropy, in one sweep",
		call: headWith([]float64{0.5, 2, 1}, ops.LogitsBytes(1), ops.LabelSmoothing(0.3), ops.ReduceSum), want: refHead([]float64{0.5, 2, 1}, ignore, 0.3, ops.ReduceSum),
		in:    []arg{floats(4, 5), floats(3, 5), idx(3, 4), floats(3)},
		keeps: "gradient of x, gradient of weight, gradient of bias", bytes: 4*5*4 + 3*5*4 + 3*4,
	},
	{
		name: "linear_cross_entropy/sweep, no rows", entry: "LinearCrossEntropy, in one sweep", call: headWith(nil, ops.ReduceSum), want: refHead(nil, ignore, 0, ops.ReduceSum),
		in:    []arg{floats(0, 5), floats(7, 5), idx(7, 0)},
		keeps: "gradient of x, gradient of weight", bytes: 7 * 5 * 4,
	},
}
