package ops_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Law N6 for convolution, pools and norms.
func TestImageNaNAndInf(t *testing.T) {
	pool := poolCfg{Kernel: [2]int{1, 2}}
	cases := []struct {
		name  string
		call  func(*autograd.Scope, []value) []value
		in    []array
		out   []float64
		grads [][]float64
	}{
		{"conv2d: 0 Inf", conv2D(convCfg{}), []array{{[]int{1, 1, 1, 3}, []float64{0, 1, 2}}, {[]int{1, 1, 1, 2}, []float64{inf, 1}}},
			[]float64{nan, inf}, [][]float64{{inf, inf, 1}, {1, 3}}},
		{"conv2d: padding is a factor", conv2D(convCfg{Padding: [2]int{0, 1}}), []array{{[]int{1, 1, 1, 1}, []float64{2}}, {[]int{1, 1, 1, 2}, []float64{inf, 1}}},
			[]float64{nan, inf}, [][]float64{{inf}, {2, 2}}},
		{"conv2d: depthwise the same", conv2D(convCfg{Padding: [2]int{0, 1}, Groups: 2}),
			[]array{{[]int{1, 2, 1, 1}, []float64{2, 3}}, {[]int{2, 1, 1, 2}, []float64{inf, 1, 0, nan}}},
			[]float64{nan, inf, nan, nan}, [][]float64{{inf, nan}, {2, 2, 3, 3}}},
		{"max_pool2d: the last NaN, the first of equals", maxPool(pool), []array{{[]int{1, 10}, []float64{nan, 1, 1, nan, nan, nan, 2, 2, -inf, -inf}}},
			[]float64{nan, nan, nan, 2, -inf}, [][]float64{{1, 0, 0, 1, 0, 1, 1, 0, 1, 0}}},
		{"max_pool2d: padding never wins", maxPool(poolCfg{Kernel: [2]int{1, 2}, Padding: [2]int{0, 1}}), []array{{[]int{1, 2}, []float64{-inf, -3}}},
			[]float64{-inf, -3}, [][]float64{{1, 1}}},
		{"avg_pool2d", avgPool(pool), []array{{[]int{1, 6}, []float64{inf, -inf, nan, 1, inf, 2}}}, []float64{nan, nan, inf}, [][]float64{{.5, .5, .5, .5, .5, .5}}},
		{"batch_norm", one(batchNorm), []array{{[]int{2, 2}, []float64{nan, 1, 2, 1}}}, []float64{nan, 0, nan, 0}, [][]float64{{nan, 0, nan, 0}}},
		{"group_norm", groupNorm(1), []array{{[]int{2, 2}, []float64{inf, 1, 2, 2}}}, []float64{nan, nan, 0, 0}, [][]float64{{nan, nan, 0, 0}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, dt := range floatTypes {
				checkSpecial(t, dt, c.call, c.in, c.out, c.grads)
			}
		})
	}
}

// Law E1 for the same.
func TestImageErrors(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	zeros := func(s *autograd.Scope, dt tensor.DType, shape ...int) value {
		x, err := tensor.Zeros(r.dev, 0, site, tensor.Of(dt, shape...))
		require.NoError(t, err)
		s.OnClose(x.Release)
		return s.Input(x)
	}
	in := func(s *autograd.Scope, shape ...int) value { return zeros(s, tensor.Float32, shape...) }
	conv := func(x, w []int, cfg convCfg) func(*autograd.Scope) {
		return func(s *autograd.Scope) { ops.Conv2D(s, in(s, x...), in(s, w...), nil, cfg) }
	}
	image, weight := []int{2, 4, 5, 6}, []int{6, 4, 3, 3}
	maxOf := func(x []int, cfg poolCfg) func(*autograd.Scope) {
		return func(s *autograd.Scope) { ops.MaxPool2D(s, in(s, x...), cfg) }
	}
	for text, f := range map[string]func(s *autograd.Scope){
		"conv2d[float32[4 5 6] float32[6 4 3 3]]: want x [N C H W] and weight [O C/groups KH KW]":    conv(image[1:], weight, convCfg{}),
		"want strides of 1 or more, got [2 0]":                                                       conv(image, weight, convCfg{Stride: [2]int{2, 0}}),
		"want dilations of 1 or more, got [-1 1]":                                                    conv(image, weight, convCfg{Dilation: [2]int{-1, 1}}),
		"want padding of 0 or more, got [0 -1]":                                                      conv(image, weight, convCfg{Padding: [2]int{0, -1}}),
		"want a number of groups that divides the 4 channels of x and the 6 of the result, got 4":    conv(image, weight, convCfg{Groups: 4}),
		"divides the 4 channels of x and the 6 of the result, got -1":                                conv(image, weight, convCfg{Groups: -1}),
		"want weight [6 2 3 3]: the 4 channels of x over 2 groups":                                   conv(image, weight, convCfg{Groups: 2}),
		"want a kernel of at least 1 x 1 that fits into x: it spans 7 x 7, x with its padding 5 x 6": conv(image, weight, convCfg{Dilation: ops.Both(3)}),
		"conv2d[float32[2 4 5 6] float32[6 4 0 3]]: want a kernel of at least 1 x 1":                 conv(image, []int{6, 4, 0, 3}, convCfg{}),
		"want bias [6], one for each channel of the result":                                          func(s *autograd.Scope) { ops.Conv2D(s, in(s, image...), in(s, weight...), in(s, 4), convCfg{}) },
		"conv2d[float32[2 4 5 6] float64[6 4 3 3]]: want equal dtypes": func(s *autograd.Scope) {
			ops.Conv2D(s, in(s, image...), zeros(s, tensor.Float64, weight...), nil, convCfg{})
		},
		"max_pool2d[float32[4 4]]: want a kernel of 1 or more, got [0 0]":                               maxOf([]int{4, 4}, poolCfg{}),
		"want strides of 1 or more, got [1 0]":                                                          maxOf([]int{4, 4}, poolCfg{Kernel: twice, Stride: [2]int{1, 0}}),
		"want padding of 0 to half the kernel [2 2], got [2 0]":                                         maxOf([]int{4, 4}, poolCfg{Kernel: twice, Padding: [2]int{2, 0}}),
		"want a kernel that fits into x: it is 2 x 5, x with its padding 4 x 4":                         maxOf([]int{4, 4}, poolCfg{Kernel: [2]int{2, 5}}),
		"max_pool2d[float32[4]]: want x [... H W] with H and W of 1 or more":                            maxOf([]int{4}, poolCfg{Kernel: twice}),
		"max_pool2d[float32[4 0]]: want x [... H W] with H and W of 1 or more":                          maxOf([]int{4, 0}, poolCfg{Kernel: twice}),
		"want a window of at most 65536 elements, got 66049":                                            maxOf([]int{257, 257}, poolCfg{Kernel: ops.Both(257)}),
		"max_pool2d[int32[4 4]]: want a float dtype, got int32":                                         func(s *autograd.Scope) { ops.MaxPool2D(s, zeros(s, tensor.Int32, 4, 4), poolCfg{Kernel: twice}) },
		"avg_pool2d[float32[4 4]]: want a kernel of 1 or more":                                          func(s *autograd.Scope) { ops.AvgPool2D(s, in(s, 4, 4), poolCfg{}) },
		"adaptive_avg_pool2d[float32[4 4]]: want 1 bin or more, or 0 to keep the size of x, got [1 -1]": func(s *autograd.Scope) { ops.AdaptiveAvgPool2D(s, in(s, 4, 4), [2]int{1, -1}) },
		"adaptive_avg_pool2d[float32[0 4]]: want x [... H W]":                                           func(s *autograd.Scope) { ops.AdaptiveAvgPool2D(s, in(s, 0, 4), [2]int{1, 1}) },
		"batch_norm[float32[4]]: want x [N C ...]":                                                      func(s *autograd.Scope) { ops.BatchNorm(s, in(s, 4), nil, nil, 1) },
		"batch_norm[float32[1 4 1]]: x has one number a channel":                                        func(s *autograd.Scope) { ops.BatchNorm(s, in(s, 1, 4, 1), nil, nil, 1) },
		"batch_norm[float32[2 4]]: want eps of 0 or more, got -1":                                       func(s *autograd.Scope) { ops.BatchNorm(s, in(s, 2, 4), nil, nil, -1) },
		"batch_norm[float32[2 4] float32[4]]: a bias without a weight":                                  func(s *autograd.Scope) { ops.BatchNorm(s, in(s, 2, 4), nil, in(s, 4), 1) },
		"batch_norm[float32[2 4] float32[2]]: want weight [4], one for each channel":                    func(s *autograd.Scope) { ops.BatchNorm(s, in(s, 2, 4), in(s, 2), nil, 1) },
		"batch_norm_eval[float32[2 4] float32[4] float32[3]]: want variance [4]":                        func(s *autograd.Scope) { ops.BatchNormEval(s, in(s, 2, 4), in(s, 4), in(s, 3), nil, nil, 1) },
		"batch_norm_eval[float32[2 4] float32[4] float32[4] float32[4] float32[1]]: want bias [4]":      func(s *autograd.Scope) { ops.BatchNormEval(s, in(s, 2, 4), in(s, 4), in(s, 4), in(s, 4), in(s, 1), 1) },
		"group_norm[float32[2 4]]: want a number of groups that divides the 4 channels, got 3":          func(s *autograd.Scope) { ops.GroupNorm(s, in(s, 2, 4), 3, nil, nil, 1) },
		"group_norm[float32[2 4] float32[4] float32[4 1]]: want bias [4]":                               func(s *autograd.Scope) { ops.GroupNorm(s, in(s, 2, 4), 2, in(s, 4), in(s, 4, 1), 1) },
	} {
		r.fails(f, text)
	}
}

// running is a running mean and variance, starting at 0 and 1 as torch's do.
func (r *rig) running(c int) (mean, variance *tensor.Tensor) {
	mean, variance = r.tensor(newArray(c), tensor.Float64), r.tensor(newArray(c), tensor.Float64)
	require.NoError(r.t, tensor.Fill(variance, 1))
	return mean, variance
}

// The statistics of a batch are those of the formula, constants, and what UpdateRunning makes of them is put back after a
// failed step and untouched by a dry run; a replay updates nothing.
func TestUpdateRunning(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	v := floats(5, 2, 3).values(1)
	x := r.tensor(v, tensor.Float64)
	mean, variance := r.running(2)
	for _, tt := range []*tensor.Tensor{x, mean, variance} {
		defer tt.Release()
	}
	batch := func(s *autograd.Scope, in value) {
		y, stats := ops.BatchNorm(s, in, nil, nil, 1e-5)
		require.False(t, stats.Mean.RequiresGrad())
		require.True(t, y.RequiresGrad())
		require.Equal(t, 15, stats.Count)
		ops.UpdateRunning(s, mean, variance, stats, 0.25)
	}
	step := func(s *autograd.Scope) error {
		batch(s, s.Input(x).RequireGrad())
		batch(s, s.Input(x).RequireGrad()) // a second batch of the same step
		return nil
	}
	both := func() []array { return []array{read(mean), read(variance)} }
	start, live := both(), r.dev.Stats().Live

	plantest.Compare(t, r.sess, step) // two steps
	require.Equal(t, live, r.dev.Stats().Live)
	m, squares, count := setMoments(v, 2, channelOf(v))
	want := []array{newArray(2), newArray(2)}
	for c := range 2 {
		want[1].data[c] = 1
		for range 4 {
			want[0].data[c] = 0.75*want[0].data[c] + 0.25*m[c]
			want[1].data[c] = 0.75*want[1].data[c] + 0.25*squares[c]/(count[c]-1)
		}
	}
	for i, got := range both() {
		require.NoError(t, near(want[i], got, 1e-12, 1e-12))
		require.NotEqual(t, start[i], got)
	}

	was, versions := both(), []uint32{mean.Version(), variance.Version()}
	late := errors.New("late")
	err := r.step(func(s *autograd.Scope) {
		require.NoError(t, step(s))
		panic(&autograd.Error{Op: "test", Err: late})
	})
	require.ErrorIs(t, err, late)
	require.Equal(t, was, both(), "put back")
	require.Greater(t, mean.Version(), versions[0], "what read it meanwhile is refused")
	require.Equal(t, live, r.dev.Stats().Live)

	allocs := r.dev.Stats().Allocs
	r.ok(func(s *autograd.Scope) { require.NoError(t, step(s)) })
	after := both()
	for k := range r.dev.Stats().Allocs - allocs {
		require.NoError(t, tensor.Copy(mean, r.keep(was[0])))
		require.NoError(t, tensor.Copy(variance, r.keep(was[1])))
		r.dev.FailAt(int64(k) + 1)
		var oom *memory.OOMError
		require.ErrorAs(t, r.step(func(s *autograd.Scope) { _ = step(s) }), &oom)
		require.Equal(t, was, both(), "allocation %d", k)
	}
	r.ok(func(s *autograd.Scope) { require.NoError(t, step(s)) })
	require.Equal(t, after, both(), "as if nothing had failed")

	r.ok(func(s *autograd.Scope) {
		in := s.Input(x).RequireGrad()
		s.Replay("again", s.Modes(), func(s *autograd.Scope) { batch(s, in) })
		none := s.Input(r.keep(newArray(0, 2, 3))).RequireGrad()
		_, stats := ops.BatchNorm(s, none, nil, nil, 1e-5)
		require.Zero(t, stats.Count)
		ops.UpdateRunning(s, mean, variance, stats, 0.25)
	})
	require.Equal(t, after, both(), "neither a replay nor an empty batch counts")
}

// keep is a tensor that lives until the test's end, or nearly.
func (r *rig) keep(a array) *tensor.Tensor {
	x := r.tensor(a, tensor.Float64)
	r.sess.OnClose(x.Release)
	return x
}

func TestUpdateRunningErrors(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	mean, variance := r.running(2)
	other := r.tensor(newArray(2), tensor.Float32)
	x := r.tensor(floats(4, 2).values(1), tensor.Float64)
	wide := r.tensor(newArray(2, 2), tensor.Float64)
	for _, tt := range []*tensor.Tensor{mean, variance, other, x, wide} {
		defer tt.Release()
	}
	column, err := wide.Select(1, 0)
	require.NoError(t, err)
	update := func(mean, variance *tensor.Tensor, momentum float64) func(*autograd.Scope) {
		return func(s *autograd.Scope) {
			_, stats := ops.BatchNorm(s, s.Input(x), nil, nil, 1)
			ops.UpdateRunning(s, mean, variance, stats, momentum)
		}
	}
	r.fails(update(mean, variance, 1.5), "batch_norm_running", "want a momentum from 0 to 1, got 1.5")
	r.fails(update(mean, variance, nan), "want a momentum from 0 to 1, got NaN")
	r.fails(update(mean, other, 0.1), "want running mean, running variance and those of the batch [C], all of one dtype")
	r.fails(update(&column, variance, 0.1), "want running statistics without gaps")
}

// What batch norm was given as running variance, and keeps for backward, must not be updated before backward.
func TestUpdateRunningAfterEval(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	mean, variance := r.running(2)
	x := r.tensor(floats(4, 2).values(1), tensor.Float64)
	for _, tt := range []*tensor.Tensor{mean, variance, x} {
		defer tt.Release()
	}
	g := r.keep(newArray(4, 2))
	r.fails(func(s *autograd.Scope) {
		v := s.Input(x).RequireGrad()
		y := ops.BatchNormEval(s, v, s.Input(mean), s.Input(variance), nil, nil, 1e-5)
		_, stats := ops.BatchNorm(s, v, nil, nil, 1e-5)
		ops.UpdateRunning(s, mean, variance, stats, 0.1)
		y.Backward(s, autograd.WithGrad(g))
	}, "modified by an inplace operation")
}
