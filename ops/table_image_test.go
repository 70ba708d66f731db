package ops_test

import (
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

func conv2D(cfg ops.Conv2DConfig) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value {
		in = append(append([]value{}, in...), nil)
		return ops.Conv2D(s, in[0], in[1], in[2], cfg)
	})
}

// refConv2D is the formula, with the padding left out.
func refConv2D(cfg ops.Conv2DConfig) func([]array) []array {
	if cfg.Stride == [2]int{} {
		cfg.Stride = ops.Both(1)
	}
	if cfg.Dilation == [2]int{} {
		cfg.Dilation = ops.Both(1)
	}
	groups := max(1, cfg.Groups)
	return want1(func(in []array) array {
		x, w := in[0], in[1]
		size := func(d int) int {
			return (x.shape[2+d]+2*cfg.Padding[d]-cfg.Dilation[d]*(w.shape[2+d]-1)-1)/cfg.Stride[d] + 1
		}
		return each([]int{x.shape[0], w.shape[0], size(0), size(1)}, func(idx []int) (sum float64) {
			if len(in) > 2 {
				sum = in[2].data[idx[1]]
			}
			for c := range w.shape[1] {
				for i := range w.shape[2] {
					for j := range w.shape[3] {
						ih := idx[2]*cfg.Stride[0] - cfg.Padding[0] + i*cfg.Dilation[0]
						iw := idx[3]*cfg.Stride[1] - cfg.Padding[1] + j*cfg.Dilation[1]
						if ih >= 0 && ih < x.shape[2] && iw >= 0 && iw < x.shape[3] {
							channel := idx[1]/(w.shape[0]/groups)*w.shape[1] + c
							sum += x.at(idx[0], channel, ih, iw) * w.at(idx[1], c, i, j)
						}
					}
				}
			}
			return sum
		})
	})
}

func maxPool(cfg ops.Pool2DConfig) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return ops.MaxPool2D(s, x, cfg) })
}

func avgPool(cfg ops.Pool2DConfig) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return ops.AvgPool2D(s, x, cfg) })
}

func adaptivePool(h, w int) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return ops.AdaptiveAvgPool2D(s, x, [2]int{h, w}) })
}

// refPool folds each window of x [... H W], elements in the padding left out.
func refPool(cfg ops.Pool2DConfig, fold func(window []float64) float64) func([]array) []array {
	if cfg.Stride == [2]int{} {
		cfg.Stride = cfg.Kernel
	}
	return want1(func(in []array) array {
		x := in[0]
		n := len(x.shape)
		shape := append([]int{}, x.shape...)
		for d := range 2 {
			shape[n-2+d] = (x.shape[n-2+d]+2*cfg.Padding[d]-cfg.Kernel[d])/cfg.Stride[d] + 1
		}
		return each(shape, func(idx []int) float64 {
			var window []float64
			i := append([]int{}, idx...)
			for r := range cfg.Kernel[0] {
				for c := range cfg.Kernel[1] {
					i[n-2], i[n-1] = idx[n-2]*cfg.Stride[0]-cfg.Padding[0]+r, idx[n-1]*cfg.Stride[1]-cfg.Padding[1]+c
					if i[n-2] >= 0 && i[n-2] < x.shape[n-2] && i[n-1] >= 0 && i[n-1] < x.shape[n-1] {
						window = append(window, x.at(i...))
					}
				}
			}
			return fold(window)
		})
	})
}

func windowMax(window []float64) float64 {
	m := math.Inf(-1)
	for _, v := range window {
		m = math.Max(m, v)
	}
	return m
}

// windowMean divides by n, whatever lies in the window.
func windowMean(n int) func([]float64) float64 {
	return func(window []float64) (sum float64) {
		for _, v := range window {
			sum += v
		}
		return sum / float64(n)
	}
}

func refAdaptive(h, w int) func([]array) []array {
	return want1(func(in []array) array {
		x := in[0]
		n := len(x.shape)
		shape := append([]int{}, x.shape...)
		shape[n-2], shape[n-1] = h, w
		bin := func(d, o int) (lo, hi int) {
			return o * x.shape[d] / shape[d], ((o+1)*x.shape[d] + shape[d] - 1) / shape[d]
		}
		return each(shape, func(idx []int) (sum float64) {
			r0, r1 := bin(n-2, idx[n-2])
			c0, c1 := bin(n-1, idx[n-1])
			i := append([]int{}, idx...)
			for i[n-2] = r0; i[n-2] < r1; i[n-2]++ {
				for i[n-1] = c0; i[n-1] < c1; i[n-1]++ {
					sum += x.at(i...) / float64((r1-r0)*(c1-c0))
				}
			}
			return sum
		})
	})
}

const normEps = 1e-5

// batchNorm gives y only: the statistics are constants, and the checks would take them for functions of x.
func batchNorm(s *autograd.Scope, in []value) value {
	in = append(append([]value{}, in...), nil, nil)
	y, stats := ops.BatchNorm(s, in[0], in[1], in[2], normEps)
	s.Free(stats.Mean, stats.Variance)
	return y
}

func batchNormEval(s *autograd.Scope, in []value) value {
	in = append(append([]value{}, in...), nil, nil)
	return ops.BatchNormEval(s, in[0], in[1], in[2], in[3], in[4], normEps)
}

func groupNorm(groups int) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value {
		in = append(append([]value{}, in...), nil, nil)
		return ops.GroupNorm(s, in[0], groups, in[1], in[2], normEps)
	})
}

// normalize gives (x - mean) / sqrt(variance + eps) weight + bias, statistics by set.
func normalize(x array, set, channel func(i int) int, mean, variance []float64, affine []array) array {
	y := newArray(x.shape...)
	for i, v := range x.data {
		y.data[i] = (v - mean[set(i)]) / math.Sqrt(variance[set(i)]+normEps)
		if len(affine) > 0 {
			y.data[i] *= affine[0].data[channel(i)]
		}
		if len(affine) > 1 {
			y.data[i] += affine[1].data[channel(i)]
		}
	}
	return y
}

// setMoments are mean and sum of squares of each of n sets, and how many numbers they have.
func setMoments(x array, n int, set func(i int) int) (mean, squares, count []float64) {
	mean, squares, count = make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range x.data {
		count[set(i)]++
	}
	for i, v := range x.data {
		mean[set(i)] += v / count[set(i)]
	}
	for i, v := range x.data {
		squares[set(i)] += (v - mean[set(i)]) * (v - mean[set(i)])
	}
	return mean, squares, count
}

// channelOf gives the channel of element i of x [N C ...].
func channelOf(x array) func(i int) int {
	pixels := len(newArray(x.shape[2:]...).data)
	return func(i int) int { return i / pixels % x.shape[1] }
}

func refBatchNorm(in []array) array {
	x, c := in[0], in[0].shape[1]
	mean, squares, count := setMoments(x, c, channelOf(x))
	for i := range squares {
		squares[i] /= count[i]
	}
	return normalize(x, channelOf(x), channelOf(x), mean, squares, in[1:])
}

func refBatchNormEval(in []array) array {
	x := in[0]
	return normalize(x, channelOf(x), channelOf(x), in[1].data, in[2].data, in[3:])
}

func refGroupNorm(groups int) func([]array) []array {
	return want1(func(in []array) array {
		x := in[0]
		size := len(newArray(x.shape[1:]...).data) / groups
		set := func(i int) int { return i / size }
		mean, squares, count := setMoments(x, x.shape[0]*groups, set)
		for i := range squares {
			squares[i] /= count[i]
		}
		return normalize(x, set, channelOf(x), mean, squares, in[1:])
	})
}

// variances are not negative.
func variances(n int) arg {
	a := arg{shape: []int{n}}
	for i := range n {
		a.set = append(a.set, float64(i%7)/4+0.5)
	}
	return a
}

type (
	convCfg = ops.Conv2DConfig
	poolCfg = ops.Pool2DConfig
)

var (
	twice = ops.Both(2)
	once  = ops.Both(1)
)

// imageRows are convolution, pools, batch norm and group norm.
var imageRows = []row{
	convRow("plain", convCfg{}, floats(2, 3, 5, 4), floats(4, 3, 3, 2), floats(4)).
		with(floats(9, 20, 14, 15), floats(30, 20, 3, 3), floats(30)),
	convRow("no bias", convCfg{Padding: once}, floats(1, 2, 4, 5), floats(3, 2, 3, 3)),
	convRow("strided", convCfg{Stride: twice, Padding: once}, floats(2, 2, 5, 6), floats(3, 2, 3, 3), floats(3)).
		with(floats(2, 40, 31, 30), floats(40, 40, 3, 3), floats(40)),
	convRow("uneven", convCfg{Stride: [2]int{2, 1}, Padding: [2]int{0, 2}, Dilation: [2]int{1, 2}}, floats(1, 2, 6, 4), floats(2, 2, 2, 3), floats(2)),
	convRow("dilated", convCfg{Dilation: twice, Padding: twice}, floats(1, 2, 5, 5), floats(2, 2, 3, 3), floats(2)),
	convRow("grouped", convCfg{Groups: 2}, floats(2, 4, 4, 3), floats(6, 2, 2, 2), floats(6)).
		with(floats(5, 30, 17, 16), floats(40, 15, 2, 2), floats(40)),
	convRow("depthwise", convCfg{Groups: 20, Padding: once}, floats(1, 20, 3, 2), floats(20, 1, 3, 3), floats(20)).
		with(floats(3, 20, 60, 61), floats(20, 1, 3, 3), floats(20)),
	convRow("depthwise, two each", convCfg{Groups: 6, Stride: twice, Padding: [2]int{1, 2}}, floats(2, 6, 3, 4), floats(12, 1, 3, 2), floats(12)).
		with(floats(30, 6, 31, 32), floats(12, 1, 5, 4), floats(12)),
	convRow("one pixel", convCfg{}, floats(2, 3, 2, 3), floats(4, 3, 1, 1), floats(4)).
		with(floats(3, 70, 20, 21), floats(90, 70, 1, 1), floats(90)),
	convRow("patches", convCfg{Stride: ops.Both(3)}, floats(3, 2, 6, 7), floats(4, 2, 3, 3), floats(4)).
		with(floats(15, 3, 32, 32), floats(48, 3, 8, 8), floats(48)),
	convRow("whole image", convCfg{}, floats(3, 2, 4, 3), floats(5, 2, 4, 3), floats(5)).
		with(floats(300, 20, 4, 4), floats(70, 20, 4, 4), floats(70)),
	convRow("one channel", convCfg{Padding: once}, floats(2, 1, 4, 4), floats(3, 1, 3, 3), floats(3)).
		with(floats(60, 1, 28, 28), floats(16, 1, 3, 3), floats(16)), // partial sums for dw
	convRow("no images", convCfg{}, floats(0, 2, 4, 4), floats(3, 2, 3, 3), floats(3)),
	convRow("no channels", convCfg{}, floats(2, 0, 4, 4), floats(3, 0, 3, 3), floats(3)),
	convRow("no result", convCfg{}, floats(2, 2, 4, 4), floats(0, 2, 3, 3), floats(0)),

	{
		name: "max_pool2d", entry: "MaxPool2D", call: maxPool(poolCfg{Kernel: twice}), want: refPool(poolCfg{Kernel: twice}, windowMax),
		in:    []arg{floats(2, 3, 4, 5)},
		large: []arg{floats(8, 20, 31, 30)},
		keeps: "winners", bytes: 6, // 24 outputs
	},
	{
		name: "max_pool2d/overlap", entry: "MaxPool2D",
		call: maxPool(poolCfg{Kernel: ops.Both(3), Stride: twice, Padding: once}),
		want: refPool(poolCfg{Kernel: ops.Both(3), Stride: twice, Padding: once}, windowMax),
		in:   []arg{floats(2, 7, 7)}, large: []arg{floats(200, 30, 29)},
		keeps: "winners", bytes: 2 * 4 * 4 / 2,
	},
	{
		name: "max_pool2d/wide", entry: "MaxPool2D",
		call: maxPool(poolCfg{Kernel: [2]int{2, 9}, Stride: once, Padding: [2]int{1, 4}}),
		want: refPool(poolCfg{Kernel: [2]int{2, 9}, Stride: once, Padding: [2]int{1, 4}}, windowMax),
		in:   []arg{floats(3, 10)}, keeps: "winners", bytes: 4 * 10,
	},
	{
		name: "max_pool2d/no planes", entry: "MaxPool2D", call: maxPool(poolCfg{Kernel: twice}), want: refPool(poolCfg{Kernel: twice}, windowMax),
		in: []arg{floats(0, 3, 4, 5)}, keeps: "winners", bytes: 0,
	},

	{
		name: "avg_pool2d", entry: "AvgPool2D", call: avgPool(poolCfg{Kernel: [2]int{2, 3}}), want: refPool(poolCfg{Kernel: [2]int{2, 3}}, windowMean(6)),
		in: []arg{floats(2, 3, 5, 6)}, large: []arg{floats(8, 20, 31, 30)},
	},
	{
		name: "avg_pool2d/overlap", entry: "AvgPool2D",
		call: avgPool(poolCfg{Kernel: ops.Both(3), Stride: twice, Padding: once}),
		want: refPool(poolCfg{Kernel: ops.Both(3), Stride: twice, Padding: once}, windowMean(9)),
		in:   []arg{floats(5, 7)}, large: []arg{floats(100, 30, 29)},
	},
	{
		name: "avg_pool2d/no planes", entry: "AvgPool2D", call: avgPool(poolCfg{Kernel: twice}), want: refPool(poolCfg{Kernel: twice}, windowMean(4)),
		in: []arg{floats(3, 0, 4, 5)},
	},

	{
		name: "adaptive_avg_pool2d", entry: "AdaptiveAvgPool2D", call: adaptivePool(1, 1), want: refAdaptive(1, 1),
		in: []arg{floats(2, 3, 4, 5)}, large: []arg{floats(8, 20, 31, 30)},
	},
	{
		name: "adaptive_avg_pool2d/bins", entry: "AdaptiveAvgPool2D", call: adaptivePool(3, 4), want: refAdaptive(3, 4),
		in: []arg{floats(2, 5, 7)}, large: []arg{floats(200, 14, 13)},
	},
	{
		name: "adaptive_avg_pool2d/more bins than rows", entry: "AdaptiveAvgPool2D", call: adaptivePool(5, 2), want: refAdaptive(5, 2),
		in: []arg{floats(3, 3)},
	},
	{
		name: "adaptive_avg_pool2d/kept", entry: "AdaptiveAvgPool2D", call: adaptivePool(0, 2), want: refAdaptive(3, 2),
		in: []arg{floats(2, 3, 5)},
	},

	{
		name: "batch_norm", entry: "BatchNorm", call: one(batchNorm), want: want1(refBatchNorm),
		in:    []arg{floats(3, 2, 2, 3), floats(2), floats(2)},
		large: []arg{floats(20, 12, 15, 17), floats(12), floats(12)},
		keeps: "x, weight, mean and rstd", bytes: 3*2*2*3*4 + 2*4 + 2*2*4,
	},
	{
		name: "batch_norm/rows", entry: "BatchNorm", call: one(batchNorm), want: want1(refBatchNorm),
		in:    []arg{floats(5, 3), floats(3), floats(3)},
		large: []arg{floats(300, 270), floats(270), floats(270)},
		keeps: "x, weight, mean and rstd", bytes: 5*3*4 + 3*4 + 3*2*4,
	},
	{
		name: "batch_norm/no bias", entry: "BatchNorm", call: one(batchNorm), want: want1(refBatchNorm),
		in:    []arg{floats(1, 2, 5), floats(2)},
		large: []arg{floats(9000, 1, 7), floats(1)}, // partial sums
		keeps: "x, weight, mean and rstd", bytes: 10*4 + 2*4 + 2*2*4,
	},
	{
		name: "batch_norm/plain", entry: "BatchNorm, weight nil", call: one(batchNorm), want: want1(refBatchNorm),
		in:    []arg{floats(2, 3, 2)},
		large: []arg{floats(70, 6, 100)},
		keeps: "x, mean and rstd", bytes: 12*4 + 3*2*4,
	},
	{
		name: "batch_norm/no images", entry: "BatchNorm", call: one(batchNorm), want: want1(refBatchNorm),
		in:    []arg{floats(0, 2, 3), floats(2), floats(2)},
		keeps: "x, weight, mean and rstd", bytes: 2*4 + 2*2*4,
	},
	{
		name: "batch_norm/no channels", entry: "BatchNorm", call: one(batchNorm), want: want1(refBatchNorm),
		in:    []arg{floats(2, 0, 3), floats(0), floats(0)},
		keeps: "x, weight, mean and rstd", bytes: 0,
	},

	{
		name: "batch_norm_eval", entry: "BatchNormEval", call: one(batchNormEval), want: want1(refBatchNormEval),
		in:    []arg{floats(3, 2, 2, 3), floats(2), variances(2), floats(2), floats(2)},
		large: []arg{floats(20, 12, 15, 17), floats(12), variances(12), floats(12), floats(12)},
		keeps: "x, mean, variance, weight", bytes: 36*4 + 3*2*4,
	},
	{
		name: "batch_norm_eval/rows", entry: "BatchNormEval", call: one(batchNormEval), want: want1(refBatchNormEval),
		in:    []arg{floats(4, 3), floats(3), variances(3), floats(3), floats(3)},
		large: []arg{floats(300, 270), floats(270), variances(270), floats(270), floats(270)},
		keeps: "x, mean, variance, weight", bytes: 12*4 + 3*3*4,
	},
	{
		name: "batch_norm_eval/plain", entry: "BatchNormEval, weight nil", call: one(batchNormEval), want: want1(refBatchNormEval),
		in:    []arg{floats(1, 2, 4), floats(2), variances(2)},
		large: []arg{floats(30, 5, 400), floats(5), variances(5)},
		keeps: "x, mean, variance", bytes: 8*4 + 2*2*4,
	},
	{
		name: "batch_norm_eval/no bias", entry: "BatchNormEval", call: one(batchNormEval), want: want1(refBatchNormEval),
		in:    []arg{floats(0, 2), floats(2), variances(2), floats(2)},
		keeps: "x, mean, variance, weight", bytes: 3 * 2 * 4,
	},

	{
		name: "group_norm", entry: "GroupNorm", call: groupNorm(2), want: refGroupNorm(2),
		in:    []arg{floats(2, 4, 3, 2), floats(4), floats(4)},
		large: []arg{floats(9, 12, 20, 21), floats(12), floats(12)},
		keeps: "x, weight, mean and rstd", bytes: 48*4 + 4*4 + 2*2*2*4,
	},
	{
		name: "group_norm/rows", entry: "GroupNorm", call: groupNorm(2), want: refGroupNorm(2),
		in:    []arg{floats(3, 6), floats(6), floats(6)},
		large: []arg{floats(200, 300), floats(300), floats(300)},
		keeps: "x, weight, mean and rstd", bytes: 18*4 + 6*4 + 3*2*2*4,
	},
	{
		name: "group_norm/no bias", entry: "GroupNorm", call: groupNorm(3), want: refGroupNorm(3),
		in:    []arg{floats(2, 3, 4), floats(3)},
		keeps: "x, weight, mean and rstd", bytes: 24*4 + 3*4 + 2*3*2*4,
	},
	{
		name: "group_norm/plain", entry: "GroupNorm, weight nil", call: groupNorm(1), want: refGroupNorm(1),
		in:    []arg{floats(2, 3, 2)},
		large: []arg{floats(10, 8, 300)},
		keeps: "x, mean and rstd", bytes: 12*4 + 2*2*4,
	},
	{
		name: "group_norm/no images", entry: "GroupNorm", call: groupNorm(2), want: refGroupNorm(2),
		in:    []arg{floats(0, 2, 3), floats(2), floats(2)},
		keeps: "x, weight, mean and rstd", bytes: 2 * 4,
	},
}

// convRow is a row of Conv2D, which keeps x and weight.
func convRow(name string, cfg ops.Conv2DConfig, in ...arg) row {
	r := row{name: "conv2d/" + name, entry: "Conv2D", call: conv2D(cfg), want: refConv2D(cfg), in: in, keeps: "x, weight"}
	for _, a := range in[:2] {
		r.bytes += tensor.Of(tensor.Float32, a.shape...).Bytes()
	}
	return r
}

func (r row) with(large ...arg) row {
	r.large = large
	return r
}
