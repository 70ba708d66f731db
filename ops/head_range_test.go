package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// A head that is large enough to be cut both ways: at the bound of rangeBytes into 512 and 488 rows by 896 and 404 classes
// where forward and backward are apart. Neither rest is cut into blocks of a sum as all of it is.
const (
	rangeTokens, rangeDim, rangeWords = 1000, 24, 1300

	rangeBytes = ops.LogitsBytes(512 * 896)
)

// rangeHead is a head of those sizes in dtypes of choice.
type rangeHead struct {
	*rig
	x, w, b, weights, targets *tensor.Tensor
}

func newRangeHead(t *testing.T, cfg autograd.Config, dt, index tensor.DType) *rangeHead {
	h := &rangeHead{rig: newRig(t, cfg)}
	h.x = h.tensor(floats(rangeTokens, rangeDim).values(1), dt)
	h.w = h.tensor(floats(rangeWords, rangeDim).values(2), dt)
	h.b = h.tensor(floats(rangeWords).values(3), dt)
	weights := floats(rangeWords).values(4)
	for i, v := range weights.data {
		weights.data[i] = math.Abs(v)
	}
	h.weights = h.tensor(weights, dt)
	targets := idx(rangeWords, rangeTokens).values(5)
	for i := 3; i < rangeTokens; i += 7 {
		targets.data[i] = ignore
	}
	h.targets = h.tensor(targets, index)
	return h
}

func (h *rangeHead) close() {
	for _, t := range []*tensor.Tensor{h.x, h.w, h.b, h.weights, h.targets} {
		t.Release()
	}
	h.rig.close()
}

// rangeCase is the options of one call.
type rangeCase struct {
	name           string
	bias, weighted bool
	opts           []ops.CrossEntropyOption
}

var rangeCases = []rangeCase{
	{name: "mean"},
	{name: "bias", bias: true},
	{name: "sum", opts: []ops.CrossEntropyOption{ops.ReduceSum}},
	{name: "smoothing", bias: true, opts: []ops.CrossEntropyOption{ops.LabelSmoothing(0.1)}},
	{name: "weights", weighted: true},
	{name: "weights, smoothing", bias: true, weighted: true, opts: []ops.CrossEntropyOption{ops.LabelSmoothing(0.3)}},
	{name: "none", bias: true, opts: []ops.CrossEntropyOption{ops.ReduceNone}},
}

// gradients gives the loss and the gradients of x, w and the bias, of the plain head if fused is nil.
func (h *rangeHead) gradients(c rangeCase, fused []ops.LinearCrossEntropyOption) (res [4]array) {
	h.t.Helper()
	h.ok(func(s *autograd.Scope) {
		in := []value{s.Input(h.x).RequireGrad(), s.Input(h.w).RequireGrad()}
		var b value
		if c.bias {
			b = s.Input(h.b).RequireGrad()
			in = append(in, b)
		}
		y := h.loss(s, c, in[0], in[1], b, fused)
		res[0] = read(y.Tensor())
		if len(y.Shape()) > 0 { // losses that are not reduced get different factors
			y = ops.Sum(s, ops.Mul(s, y, y))
		}
		y.Backward(s, autograd.WithScale(0.5))
		for i, v := range in {
			res[1+i] = read(v.Grad())
		}
	})
	return res
}

func (h *rangeHead) loss(s *autograd.Scope, c rangeCase, x, w, b value, fused []ops.LinearCrossEntropyOption) value {
	opts := c.opts
	if c.weighted {
		opts = append([]ops.CrossEntropyOption{ops.ClassWeights(s.Input(h.weights))}, opts...)
	}
	if fused == nil {
		return s.Do("", func(s *autograd.Scope) value {
			return ops.CrossEntropy(s, ops.Linear(s, x, w, b), s.Input(h.targets), opts...)
		})
	}
	for _, o := range opts {
		fused = append(fused, o)
	}
	return ops.LinearCrossEntropy(s, x, w, b, s.Input(h.targets), fused...)
}

// Pieces of some classes have the plain head's bits: its gradients of x and w, and its losses where they are not reduced.
// Sums of losses and of gradients of the bias agree to rounding.
func TestHeadOverClassesHasThePlainBits(t *testing.T) {
	for _, dt := range [][2]tensor.DType{{tensor.Float32, tensor.Int64}, {tensor.Float64, tensor.Int32}} {
		size := rangeBytes * ops.LogitsBytes(dt[0].Size())
		h := newRangeHead(t, autograd.Config{Workers: 2}, dt[0], dt[1])
		for _, c := range rangeCases {
			t.Run(fmt.Sprint(dt[0], ", ", c.name), func(t *testing.T) {
				want := h.gradients(c, nil)
				for _, bytes := range []ops.LogitsBytes{size, ops.DefaultLogitsBytes} {
					got := h.gradients(c, []ops.LinearCrossEntropyOption{ops.OneSweep(false), bytes})
					requireSameArrays(t, want[1], got[1], "gradient of x")
					requireSameArrays(t, want[2], got[2], "gradient of the weight")
					if c.name == "none" {
						requireSameArrays(t, want[0], got[0], "losses")
					}
					require.NoError(t, near(want[0], got[0], 1e-6, 0))
					require.NoError(t, near(want[3], got[3], 1e-5, 1e-7))
				}
			})
		}
		h.close()
	}
}

// Both forms give the same loss, bit for bit, and the same gradients.
func TestFormsOfTheHeadAgree(t *testing.T) {
	h := newRangeHead(t, autograd.Config{Workers: 2}, tensor.Float32, tensor.Int32)
	defer h.close()
	for _, c := range rangeCases[:6] {
		bytes := rangeBytes * 4 * rangeWords / 896 // as many rows
		apart := h.gradients(c, []ops.LinearCrossEntropyOption{ops.OneSweep(false), rangeBytes * 4})
		sweep := h.gradients(c, []ops.LinearCrossEntropyOption{ops.OneSweep(true), bytes})
		for i, what := range []string{"loss", "gradient of x", "gradient of the weight"} {
			requireSameArrays(t, apart[i], sweep[i], c.name, what)
		}
		require.NoError(t, near(apart[3], sweep[3], 1e-6, 1e-9))
	}
}

// Values do not depend on who computes.
func TestHeadOverClassesOnAnyWorkers(t *testing.T) {
	var want [4]array
	for i, workers := range []int{1, 2, 4} {
		h := newRangeHead(t, autograd.Config{Workers: workers, Lanes: 4}, tensor.Float32, tensor.Int64)
		got := h.gradients(rangeCases[5], []ops.LinearCrossEntropyOption{ops.OneSweep(false), rangeBytes * 4})
		if i == 0 {
			want = got
		}
		for k := range got {
			requireSameArrays(t, want[k], got[k], workers)
		}
		h.close()
	}
}

// A table that is both embedding and head has one gradient, whoever comes first, and a second pass adds to it.
func TestTiedHeadOverClasses(t *testing.T) {
	r := newHeadRig(t, rangeTokens, rangeDim, rangeWords)
	defer r.close()
	words := r.tensor(idx(rangeWords, rangeTokens).values(6), tensor.Int64)
	defer words.Release()
	var want array
	for i, f := range headForms {
		for range 2 {
			r.ok(func(s *autograd.Scope) {
				s.Do("", func(s *autograd.Scope) value {
					return f.call(s, ops.Embedding(s, r.w.Value(), s.Input(words)), r.w.Value(), s.Input(r.targets))
				}).Backward(s)
			})
		}
		if i == 0 {
			want = read(r.w.Grad())
		}
		require.NoError(t, near(want, read(r.w.Grad()), 1e-5, 1e-8), f.name)
		r.w.ZeroGrad()
	}
}

// A NaN or an infinity spoils what the plain head's spoils, in whatever piece it is.
func TestHeadOverClassesOfNothingFinite(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		for _, at := range []int{5, rangeWords - 1} { // a class of the first piece, and of the last
			h := newRangeHead(t, autograd.Config{}, tensor.Float32, tensor.Int64)
			tensor.Data[float32](h.x)[600*rangeDim] = float32(v)
			tensor.Data[float32](h.w)[at*rangeDim+3] = float32(math.Inf(-1))
			want := h.gradients(rangeCases[6], nil)
			got := h.gradients(rangeCases[6], []ops.LinearCrossEntropyOption{ops.OneSweep(false), rangeBytes * 4})
			for i := range 3 {
				requireSameArrays(t, want[i], got[i])
			}
			require.NoError(t, near(want[3], got[3], 1e-5, 1e-7))
			require.True(t, math.IsNaN(got[0].data[600]))
			require.False(t, math.IsNaN(got[0].data[601]) && math.IsNaN(got[0].data[602]) && math.IsNaN(got[0].data[604]))
			h.close()
		}
	}
}

// requireSameArrays is require.Equal for arrays that are too large to print, with NaN equal to NaN.
func requireSameArrays(t *testing.T, want, got array, about ...any) {
	t.Helper()
	require.NoError(t, near(want, got, 0, 0), about...)
}
