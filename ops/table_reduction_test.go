package ops_test

import (
	"math"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// over is a way to name dimensions, for op and reference.
type over struct {
	dims []int // not negative, in order; nil: all
	keep bool
	as   []int // as the call names them; nil: dims
}

var everything = over{}

func along(dims ...int) over { return over{dims: dims} }

func (o over) option() []ops.Dims {
	if o.dims == nil && !o.keep {
		return nil
	}
	names := o.as
	if names == nil {
		names = o.dims
	}
	d := ops.Over(names...)
	if o.keep {
		d = d.Keep()
	}
	return []ops.Dims{d}
}

// reduction makes the call of a reduction.
func reduction(f func(s *autograd.Scope, x value, over ...ops.Dims) value, o over) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return f(s, x, o.option()...) })
}

// refReduce applies f to the elements that are taken together, in row-major order.
func refReduce(o over, f func(x []float64) float64) func([]array) []array {
	return want1(func(in []array) array {
		x := in[0]
		var size, shape []int
		for d, n := range x.shape {
			gone := o.dims == nil || slices.Contains(o.dims, d)
			if gone {
				size = append(size, 1)
			} else {
				size = append(size, n)
			}
			if !gone || o.keep {
				shape = append(shape, size[d])
			}
		}
		places := numbers(size)
		groups := make([][]float64, len(places.data))
		for i, v := range x.data {
			g := int(places.at(x.index(i)...))
			groups[g] = append(groups[g], v)
		}
		y := newArray(shape...)
		for i, g := range groups {
			y.data[i] = f(g)
		}
		return y
	})
}

func sumOf(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

func meanOf(x []float64) float64 { return sumOf(x) / float64(len(x)) }
func maxOf(x []float64) float64  { return slices.Max(x) }
func minOf(x []float64) float64  { return slices.Min(x) }

func argMaxOf(x []float64) float64 { return float64(slices.Index(x, slices.Max(x))) }
func argMinOf(x []float64) float64 { return float64(slices.Index(x, slices.Min(x))) }

func varOf(correction int) func([]float64) float64 {
	return func(x []float64) (sum float64) {
		m := meanOf(x)
		for _, v := range x {
			sum += (v - m) * (v - m)
		}
		return sum / float64(len(x)-correction)
	}
}

func stdOf(correction int) func([]float64) float64 {
	return func(x []float64) float64 { return math.Sqrt(varOf(correction)(x)) }
}

func normOf(p float64) func([]float64) float64 {
	return func(x []float64) (sum float64) {
		for _, v := range x {
			if math.IsInf(p, 1) {
				sum = math.Max(sum, math.Abs(v))
			} else {
				sum += math.Pow(math.Abs(v), p)
			}
		}
		if math.IsInf(p, 1) {
			return sum
		}
		return math.Pow(sum, 1/p)
	}
}

func logSumExpOf(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += math.Exp(v)
	}
	return math.Log(sum)
}

func variance(correction int) func(*autograd.Scope, value, ...ops.Dims) value {
	return func(s *autograd.Scope, x value, over ...ops.Dims) value { return ops.Var(s, x, correction, over...) }
}

func deviation(correction int) func(*autograd.Scope, value, ...ops.Dims) value {
	return func(s *autograd.Scope, x value, over ...ops.Dims) value { return ops.Std(s, x, correction, over...) }
}

func norm(p float64) func(*autograd.Scope, value, ...ops.Dims) value {
	return func(s *autograd.Scope, x value, over ...ops.Dims) value { return ops.Norm(s, x, p, over...) }
}

// alongDim makes the call of an op along one dimension.
func alongDim(f func(s *autograd.Scope, x value, dim int) value, dim int) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return f(s, x, dim) })
}

// refLines applies f to each line along dim, in place.
func refLines(dim int, f func(x []float64)) func([]array) []array {
	return want1(func(in []array) array {
		y := newArray(in[0].shape...)
		n, inner := y.shape[dim], 1
		for _, d := range y.shape[dim+1:] {
			inner *= d
		}
		for i := range y.data {
			if i/inner%n > 0 {
				continue
			}
			var line []float64
			for r := range n {
				line = append(line, in[0].data[i+r*inner])
			}
			f(line)
			for r, v := range line {
				y.data[i+r*inner] = v
			}
		}
		return y
	})
}

func cumSumOf(x []float64) {
	for i := range x[1:] {
		x[i+1] += x[i]
	}
}

func softmaxOf(x []float64) {
	l := logSumExpOf(x)
	for i, v := range x {
		x[i] = math.Exp(v - l)
	}
}

func logSoftmaxOf(x []float64) {
	l := logSumExpOf(x)
	for i, v := range x {
		x[i] = v - l
	}
}

type lossFunc = func(s *autograd.Scope, x, target value, reduction ...ops.Reduction) value

func loss(f lossFunc, r ...ops.Reduction) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value { return f(s, in[0], in[1], r...) })
}

func smoothL1(beta float64) lossFunc {
	return func(s *autograd.Scope, x, target value, r ...ops.Reduction) value {
		return ops.SmoothL1Loss(s, x, target, beta, r...)
	}
}

// refLoss is the loss of each element, or what r makes of them.
func refLoss(f func(x, t float64) float64, r ops.Reduction) func([]array) []array {
	return want1(func(in []array) array {
		y := newArray(in[0].shape...)
		for i, v := range in[0].data {
			y.data[i] = f(v, in[1].data[i])
		}
		return reduceLosses(y, r)
	})
}

func reduceLosses(y array, r ops.Reduction) array {
	switch r {
	case ops.ReduceNone:
		return y
	case ops.ReduceSum:
		return array{nil, []float64{sumOf(y.data)}}
	case ops.ReduceBatchMean:
		return array{nil, []float64{sumOf(y.data) / float64(y.shape[0])}}
	}
	return array{nil, []float64{meanOf(y.data)}}
}

func squaredOf(x, t float64) float64  { return (x - t) * (x - t) }
func absoluteOf(x, t float64) float64 { return math.Abs(x - t) }
func logisticOf(x, t float64) float64 {
	p := 1 / (1 + math.Exp(-x))
	return -t*math.Log(p) - (1-t)*math.Log(1-p)
}
func divergenceOf(x, t float64) float64 { return t * (math.Log(t) - x) }

func smoothOf(beta float64) func(x, t float64) float64 {
	return func(x, t float64) float64 {
		if d := math.Abs(x - t); d >= beta {
			return d - beta/2
		}
		return (x - t) * (x - t) / 2 / beta
	}
}

// shares are random numbers from 0.1 to 1.
func shares(shape ...int) arg {
	a := floats(shape...)
	for _, v := range a.values(17).data {
		a.set = append(a.set, float64(float32(0.1+0.9*math.Abs(math.Sin(v)))))
	}
	return a
}

// crossEntropyWith makes the call with options; weights are the class weights, or nil.
func crossEntropyWith(weights []float64, opts ...ops.CrossEntropyOption) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value {
		if weights == nil {
			return ops.CrossEntropy(s, in[0], in[1], opts...)
		}
		w := constant(s, in[0].DType(), weights)
		defer s.Free(w)
		return ops.CrossEntropy(s, in[0], in[1], append([]ops.CrossEntropyOption{ops.ClassWeights(w)}, opts...)...)
	})
}

// classWeight makes the value of class weights inside a call.
func constant(s *autograd.Scope, dt tensor.DType, data []float64) value {
	t, err := tensor.From(s.Device(), memory.Input, site, data, len(data))
	if err == nil {
		defer t.Release()
		t, err = t.To(dt, memory.Input, site)
	}
	if err != nil {
		panic(&autograd.Error{Op: "class weights", Err: err})
	}
	defer t.Release()
	return s.Input(t)
}

// refCrossEntropyWith is the cross-entropy with the mixture of target and all classes.
func refCrossEntropyWith(weights []float64, skip int, smoothing float64, r ops.Reduction) func([]array) []array {
	return want1(func(in []array) array {
		x, losses := in[0], newArray(in[1].shape...)
		c, total := x.shape[len(x.shape)-1], 0.0
		weight := func(k int) float64 {
			if weights == nil {
				return 1
			}
			return weights[k]
		}
		for i, target := range in[1].data {
			if int(target) == skip {
				continue
			}
			row := slices.Clone(x.data[i*c:][:c])
			logSoftmaxOf(row)
			total += weight(int(target))
			losses.data[i] = -(1 - smoothing) * weight(int(target)) * row[int(target)]
			for k, v := range row {
				losses.data[i] -= smoothing / float64(c) * weight(k) * v
			}
		}
		if r == ops.ReduceMean {
			return array{nil, []float64{sumOf(losses.data) / total}}
		}
		return reduceLosses(losses, r)
	})
}

var (
	negative = over{dims: []int{0, 2}, as: []int{-1, 0}}
	kept     = over{dims: []int{1}, keep: true, as: []int{-2}}
)

// reductionRows are the reductions over dimensions, cumsum, softmax and the losses.
var reductionRows = slices.Concat(
	floatReductions("sum", "Sum", ops.Sum, sumOf, "", nil),
	floatReductions("mean", "Mean", ops.Mean, meanOf, "", nil),
	floatReductions("amax", "AMax", ops.AMax, maxOf, "mask, ties", choiceBytes),
	floatReductions("amin", "AMin", ops.AMin, minOf, "mask, ties", choiceBytes),
	floatReductions("var", "Var", variance(1), varOf(1), "x, mean", withX(1)),
	floatReductions("std", "Std", deviation(0), stdOf(0), "x, y, mean", withX(2)),
	floatReductions("norm", "Norm", norm(2), normOf(2), "x, y", withX(1)),
	floatReductions("norm 1", "Norm, p = 1", norm(1), normOf(1), "x", withX(0)),
	floatReductions("norm inf", "Norm, p = Inf", norm(inf), normOf(inf), "x, y, ties", withX(2)),
	floatReductions("logsumexp", "LogSumExp", ops.LogSumExp, logSumExpOf, "x, y", withX(1)),
	otherReductions, lineRows, lossRows, crossEntropyRows,
)

// choiceBytes is a mask of n bits and a number for each of m results.
func choiceBytes(n, m int) int64 { return int64(n+7)/8 + 4*int64(m) }

// withX is x of n elements and k numbers for each of m results.
func withX(k int) func(n, m int) int64 {
	return func(n, m int) int64 { return 4 * int64(n+k*m) }
}

// floatReductions are the rows that every reduction has; bytes gives what is kept of n elements with m results.
func floatReductions(
	name, entry string, f func(*autograd.Scope, value, ...ops.Dims) value, of func([]float64) float64, keeps string, bytes func(n, m int) int64,
) (rows []row) {
	for _, k := range []struct {
		name    string
		over    over
		in      []int
		results int
		large   []int
	}{
		{"", everything, []int{3, 7}, 1, []int{300, 201}},
		{"/last", over{dims: []int{1}, as: []int{-1}}, []int{4, 5}, 4, []int{300, 201}},
		{"/first", along(0), []int{5, 4}, 4, []int{300, 201}},
		{"/middle kept", kept, []int{2, 5, 3}, 6, []int{20, 50, 60}},
		{"/outer and inner", negative, []int{3, 2, 4}, 2, []int{30, 20, 70}},
		{"/inner, of many", along(2, 3), []int{2, 3, 2, 2}, 6, []int{60, 40, 5, 4}},
		{"/none left", along(1), []int{0, 3}, 0, nil},
	} {
		r := row{
			name: name + k.name, entry: entry, call: reduction(f, k.over), want: refReduce(k.over, of),
			in: []arg{floats(k.in...)}, keeps: keeps,
		}
		if bytes != nil {
			r.bytes = bytes(len(newArray(k.in...).data), k.results)
		}
		if k.large != nil {
			r.large = []arg{floats(k.large...)}
		}
		rows = append(rows, r)
	}
	return rows
}

var otherReductions = []row{
	{name: "sum/number", entry: "Sum", call: reduction(ops.Sum, everything), want: refReduce(everything, sumOf), in: []arg{floats()}},
	{
		name: "sum/all kept", entry: "Sum", call: reduction(ops.Sum, over{keep: true}), want: refReduce(over{keep: true}, sumOf),
		in: []arg{floats(2, 3)},
	},
	{name: "sum/of nothing", entry: "Sum", call: reduction(ops.Sum, along(1)), want: refReduce(along(1), sumOf), in: []arg{floats(3, 0)}},
	{
		name: "sum/int64", entry: "Sum", call: reduction(ops.Sum, along(0)), want: refReduce(along(0), sumOf),
		in: []arg{idx(9, 4, 3)}, large: []arg{idx(1000, 300, 201)},
	},
	{
		name: "sum/int32", entry: "Sum", call: reduction(ops.Sum, everything), want: refReduce(everything, sumOf),
		in: []arg{idx32(9, 4, 3)}, large: []arg{idx32(1<<30, 300, 201)},
	},
	{
		name: "amax/number", entry: "AMax", call: reduction(ops.AMax, everything), want: refReduce(everything, maxOf), in: []arg{floats()},
		keeps: "mask, ties", bytes: 1 + 4,
	},
	{
		name: "std/correction 1", entry: "Std", call: reduction(deviation(1), along(0)), want: refReduce(along(0), stdOf(1)),
		in: []arg{floats(4, 3)}, keeps: "x, y, mean", bytes: 4 * (12 + 3 + 3),
	},
	{
		name: "argmax", entry: "ArgMax", call: reduction(ops.ArgMax, everything), want: refReduce(everything, argMaxOf),
		in: []arg{floats(3, 4)}, large: []arg{floats(300, 201)},
	},
	{
		name: "argmax/last", entry: "ArgMax", call: reduction(ops.ArgMax, over{dims: []int{1}, as: []int{-1}}), want: refReduce(along(1), argMaxOf),
		in: []arg{floats(3, 4)}, large: []arg{floats(300, 201)},
	},
	{
		name: "argmax/equals", entry: "ArgMax", call: reduction(ops.ArgMax, kept), want: refReduce(kept, argMaxOf),
		in: []arg{{shape: []int{1, 4, 2}, set: []float64{1, 2, 3, 0, 3, 2, 2, 2}}}, large: []arg{floats(20, 50, 60)},
	},
	{
		name: "argmin", entry: "ArgMin", call: reduction(ops.ArgMin, along(0)), want: refReduce(along(0), argMinOf),
		in: []arg{floats(3, 4)}, large: []arg{floats(300, 201)},
	},
	{name: "argmin/number", entry: "ArgMin", call: reduction(ops.ArgMin, everything), want: refReduce(everything, argMinOf), in: []arg{floats()}},
}

var lineRows = []row{
	{
		name: "cumsum", entry: "CumSum", call: alongDim(ops.CumSum, 1), want: refLines(1, cumSumOf),
		in: []arg{floats(2, 5, 3)}, large: []arg{floats(30, 41, 70)},
	},
	{
		name: "cumsum/last", entry: "CumSum", call: alongDim(ops.CumSum, -1), want: refLines(1, cumSumOf),
		in: []arg{floats(3, 5)}, large: []arg{floats(300, 201)},
	},
	{name: "cumsum/no elements", entry: "CumSum", call: alongDim(ops.CumSum, 0), want: refLines(0, cumSumOf), in: []arg{floats(0, 3)}},
	{
		name: "softmax", entry: "Softmax", call: alongDim(ops.Softmax, -1), want: refLines(2, softmaxOf),
		in: []arg{floats(2, 3, 5)}, large: []arg{floats(20, 15, 201)}, keeps: "y", bytes: 30 * 4,
	},
	{
		name: "softmax/first", entry: "Softmax", call: alongDim(ops.Softmax, 0), want: refLines(0, softmaxOf),
		in: []arg{floats(5, 3)}, large: []arg{floats(50, 700)}, keeps: "y", bytes: 15 * 4,
	},
	{name: "softmax/no elements", entry: "Softmax", call: alongDim(ops.Softmax, 0), want: refLines(0, softmaxOf), in: []arg{floats(2, 0)}, keeps: "y"},
	{
		name: "log_softmax", entry: "LogSoftmax", call: alongDim(ops.LogSoftmax, 1), want: refLines(1, logSoftmaxOf),
		in: []arg{floats(3, 5)}, large: []arg{floats(300, 201)}, keeps: "y", bytes: 15 * 4,
	},
	{
		name: "log_softmax/middle", entry: "LogSoftmax", call: alongDim(ops.LogSoftmax, -2), want: refLines(1, logSoftmaxOf),
		in: []arg{floats(2, 4, 3)}, large: []arg{floats(20, 30, 90)}, keeps: "y", bytes: 24 * 4,
	},
	{name: "log_softmax/no elements", entry: "LogSoftmax", call: alongDim(ops.LogSoftmax, 1), want: refLines(1, logSoftmaxOf), in: []arg{floats(2, 0)}, keeps: "y"},
}

var lossRows = []row{
	{
		name: "mse_loss", entry: "MSELoss", call: loss(ops.MSELoss), want: refLoss(squaredOf, ops.ReduceMean),
		in: []arg{floats(3, 4), floats(3, 4)}, large: []arg{floats(300, 201), floats(300, 201)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
	{
		name: "mse_loss/sum", entry: "MSELoss", call: loss(ops.MSELoss, ops.ReduceSum), want: refLoss(squaredOf, ops.ReduceSum),
		in: []arg{floats(3, 4), floats(3, 4)}, large: []arg{floats(300, 201), floats(300, 201)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
	{
		name: "mse_loss/none", entry: "MSELoss", call: loss(ops.MSELoss, ops.ReduceNone), want: refLoss(squaredOf, ops.ReduceNone),
		in: []arg{floats(3, 4), floats(3, 4)}, large: []arg{floats(300, 201), floats(300, 201)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
	{
		name: "mse_loss/numbers", entry: "MSELoss", call: loss(ops.MSELoss), want: refLoss(squaredOf, ops.ReduceMean),
		in: []arg{floats(), floats()}, keeps: "x, target", bytes: 2 * 4,
	},
	{
		name: "mse_loss/sum of nothing", entry: "MSELoss", call: loss(ops.MSELoss, ops.ReduceSum), want: refLoss(squaredOf, ops.ReduceSum),
		in: []arg{floats(0, 4), floats(0, 4)}, keeps: "x, target",
	},
	{
		name: "l1_loss", entry: "L1Loss", call: loss(ops.L1Loss), want: refLoss(absoluteOf, ops.ReduceMean),
		in: []arg{floats(3, 4), floats(3, 4)}, large: []arg{floats(300, 201), floats(300, 201)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
	{
		name: "smooth_l1_loss", entry: "SmoothL1Loss", call: loss(smoothL1(0.7)), want: refLoss(smoothOf(0.7), ops.ReduceMean),
		in: []arg{floats(3, 4), floats(3, 4)}, large: []arg{floats(300, 201), floats(300, 201)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
	{
		name: "smooth_l1_loss/beta 0", entry: "SmoothL1Loss", call: loss(smoothL1(0), ops.ReduceNone), want: refLoss(absoluteOf, ops.ReduceNone),
		in: []arg{floats(3, 4), floats(3, 4)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
	{
		name: "bce_with_logits", entry: "BCEWithLogits", call: loss(ops.BCEWithLogits), want: refLoss(logisticOf, ops.ReduceMean),
		in: []arg{floats(3, 4), shares(3, 4)}, large: []arg{floats(300, 201), shares(300, 201)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
	{
		name: "bce_with_logits/none", entry: "BCEWithLogits", call: loss(ops.BCEWithLogits, ops.ReduceNone), want: refLoss(logisticOf, ops.ReduceNone),
		in: []arg{floats(3, 4), shares(3, 4)}, large: []arg{floats(300, 201), shares(300, 201)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
	{
		name: "kl_div", entry: "KLDiv", call: loss(ops.KLDiv), want: refLoss(divergenceOf, ops.ReduceMean),
		in: []arg{floats(3, 4), shares(3, 4)}, large: []arg{floats(300, 201), shares(300, 201)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
	{
		name: "kl_div/batchmean", entry: "KLDiv", call: loss(ops.KLDiv, ops.ReduceBatchMean), want: refLoss(divergenceOf, ops.ReduceBatchMean),
		in: []arg{floats(3, 4), shares(3, 4)}, large: []arg{floats(300, 201), shares(300, 201)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
	{
		name: "kl_div/none", entry: "KLDiv", call: loss(ops.KLDiv, ops.ReduceNone), want: refLoss(divergenceOf, ops.ReduceNone),
		in: []arg{floats(3, 4), shares(3, 4)}, keeps: "x, target", bytes: 2 * 12 * 4,
	},
}

var (
	someTargets = arg{shape: []int{2, 3}, dt: tensor.Int64, set: []float64{4, 0, ignore, 2, 2, 1}}
	fiveWeights = []float64{0.5, 2, 1.25, 0.75, 3}
)

const ceKeeps, ceBytes = "logits, targets, log-sum-exp", 2*3*5*4 + 2*3*8 + 2*3*4

var crossEntropyRows = []row{
	{
		name: "cross_entropy/sum", entry: "CrossEntropy", call: crossEntropyWith(nil, ops.ReduceSum),
		want: refCrossEntropyWith(nil, ignore, 0, ops.ReduceSum),
		in:   []arg{floats(2, 3, 5), someTargets}, large: []arg{floats(300, 211), idx(211, 300)}, keeps: ceKeeps, bytes: ceBytes,
	},
	{
		name: "cross_entropy/none", entry: "CrossEntropy", call: crossEntropyWith(nil, ops.ReduceNone),
		want: refCrossEntropyWith(nil, ignore, 0, ops.ReduceNone),
		in:   []arg{floats(2, 3, 5), someTargets}, large: []arg{floats(300, 211), idx(211, 300)}, keeps: ceKeeps, bytes: ceBytes,
	},
	{
		name: "cross_entropy/smoothing", entry: "CrossEntropy", call: crossEntropyWith(nil, ops.LabelSmoothing(0.1)),
		want: refCrossEntropyWith(nil, ignore, 0.1, ops.ReduceMean),
		in:   []arg{floats(2, 3, 5), someTargets}, large: []arg{floats(300, 211), idx(211, 300)}, keeps: ceKeeps, bytes: ceBytes,
	},
	{
		name: "cross_entropy/a class is ignored", entry: "CrossEntropy", call: crossEntropyWith(nil, ops.IgnoreTarget(2)),
		want: refCrossEntropyWith(nil, 2, 0, ops.ReduceMean),
		in:   []arg{floats(6, 5), idx(5, 6)}, large: []arg{floats(300, 211), idx(211, 300)}, keeps: ceKeeps, bytes: ceBytes,
	},
	{
		name: "cross_entropy/no rows", entry: "CrossEntropy", call: crossEntropyWith(nil, ops.ReduceSum),
		want: refCrossEntropyWith(nil, ignore, 0, ops.ReduceSum), in: []arg{floats(0, 5), idx(5, 0)}, keeps: ceKeeps,
	},
	{
		name: "cross_entropy/weights", entry: "CrossEntropy, with weights", call: crossEntropyWith(fiveWeights),
		want: refCrossEntropyWith(fiveWeights, ignore, 0, ops.ReduceMean),
		in:   []arg{floats(2, 3, 5), someTargets}, keeps: ceKeeps + ", class weights", bytes: ceBytes + 5*4,
	},
	{
		name: "cross_entropy/all options", entry: "CrossEntropy, with weights",
		call: crossEntropyWith(fiveWeights, ops.LabelSmoothing(0.3), ops.ReduceNone, ops.IgnoreTarget(1)),
		want: refCrossEntropyWith(fiveWeights, 1, 0.3, ops.ReduceNone),
		in:   []arg{floats(7, 5), idx(5, 7)}, large: []arg{floats(9000, 5), idx(5, 9000)},
		keeps: ceKeeps + ", class weights", bytes: 7*5*4 + 7*8 + 7*4 + 5*4,
	},
	{
		name: "cross_entropy/weights and smoothing", entry: "CrossEntropy, with weights",
		call: crossEntropyWith(fiveWeights, ops.LabelSmoothing(0.3)),
		want: refCrossEntropyWith(fiveWeights, ignore, 0.3, ops.ReduceMean),
		in:   []arg{floats(7, 5), idx32(5, 7)}, large: []arg{floats(9000, 5), idx32(5, 9000)},
		keeps: ceKeeps + ", class weights", bytes: 7*5*4 + 7*4 + 7*4 + 5*4,
	},
}
