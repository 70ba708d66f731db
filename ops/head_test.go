package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// headRig is a head of words rows on fixed data.
type headRig struct {
	*rig
	w          *autograd.Param
	x, targets *tensor.Tensor
}

func newHeadRig(t *testing.T, tokens, dim, words int) *headRig {
	r := &headRig{rig: newRig(t, autograd.Config{Workers: 2})}
	r.w = r.param("w", floats(words, dim).values(1), tensor.Float32)
	r.x = r.tensor(floats(tokens, dim).values(2), tensor.Float32)
	r.targets = r.tensor(idx(words, tokens).values(3), tensor.Int64)
	return r
}

func (r *headRig) close() {
	r.x.Release()
	r.targets.Release()
	r.rig.close()
}

// gradients runs a step and gives loss, gradient of x and gradient of w, which it clears.
func (r *headRig) gradients(backward autograd.BackwardOption, loss func(s *autograd.Scope, x, w, targets value) value) (res [3]array) {
	r.t.Helper()
	r.ok(func(s *autograd.Scope) {
		x := s.Input(r.x).RequireGrad()
		y := loss(s, x, r.w.Value(), s.Input(r.targets))
		y.Backward(s, backward)
		res[0], res[1] = read(y.Tensor()), read(x.Grad())
	})
	if g := r.w.Grad(); g != nil {
		res[2] = read(g)
		r.w.ZeroGrad()
	}
	return res
}

// Fused and plain head have the same bits where pieces are multiples of the blocks of a product, and an upstream factor
// that is a power of two changes none.
func TestFusedHeadHasThePlainBits(t *testing.T) {
	r := newHeadRig(t, 1024, 40, 300)
	defer r.close()
	for _, scale := range []float64{1, 1.0 / 4} {
		opt := autograd.WithScale(scale)
		plain := r.gradients(opt, headForms[0].call)
		for _, bytes := range []ops.LogitsBytes{512 * 300 * 4, 256 * 300 * 4, ops.DefaultLogitsBytes} {
			for _, sweep := range []ops.OneSweep{false, true} {
				got := r.gradients(opt, func(s *autograd.Scope, x, w, targets value) value {
					return ops.LinearCrossEntropy(s, x, w, nil, targets, sweep, bytes)
				})
				require.NoError(t, near(plain[0], got[0], 1e-6, 0))
				require.Equal(t, plain[1:], got[1:], "%d bytes, one sweep %v, scale %v", bytes, sweep, scale)
			}
		}
	}
	// elsewhere they agree to rounding
	plain := r.gradients(autograd.WithScale(1.0/3), headForms[0].call)
	for _, sweep := range []ops.OneSweep{false, true} {
		got := r.gradients(autograd.WithScale(1.0/3), func(s *autograd.Scope, x, w, targets value) value {
			return ops.LinearCrossEntropy(s, x, w, nil, targets, sweep, ops.LogitsBytes(77*300*4))
		})
		for i := range plain {
			require.NoError(t, near(plain[i], got[i], 1e-5, 1e-8))
		}
	}
}

// So they have where classes are so many that the pieces share packed rows.
func TestFusedHeadOfManyWordsHasThePlainBits(t *testing.T) {
	r := newHeadRig(t, 1300, 40, 5003)
	defer r.close()
	plain := r.gradients(autograd.WithScale(1), headForms[0].call)
	for _, bytes := range []ops.LogitsBytes{256 * 1100 * 4, ops.DefaultLogitsBytes} {
		got := r.gradients(autograd.WithScale(1), func(s *autograd.Scope, x, w, targets value) value {
			return ops.LinearCrossEntropy(s, x, w, nil, targets, ops.OneSweep(false), bytes)
		})
		require.NoError(t, near(plain[0], got[0], 1e-6, 0))
		require.Equal(t, plain[1:], got[1:], "%d bytes", bytes)
	}
}

// At 50,257 words, 4,096 tokens and 768 channels all that the head takes beyond its inputs and the gradient of the weight
// stays under 64 MB. The plain head takes 1.6 GB.
func TestFusedHeadBytes(t *testing.T) {
	const words, tokens, dim = 50257, 4096, 768
	dev, err := memory.NewDevice(memory.Config{Virtual: true})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	require.NoError(t, err)
	w, err := sess.NewParam("w", tensor.Of(tensor.Float32, words, dim), nil)
	require.NoError(t, err)
	x, err := tensor.New(dev, memory.Input, site, tensor.Of(tensor.Float32, tokens, dim))
	require.NoError(t, err)
	targets, err := tensor.New(dev, memory.Input, site, tensor.Of(tensor.Int64, tokens))
	require.NoError(t, err)
	before := dev.Stats().Live
	for _, f := range headForms {
		for _, held := range []bool{false, true} { // a gradient of the weight that is there already
			plan, err := sess.Plan(func(s *autograd.Scope) error {
				if held {
					f.call(s, s.Input(x), w.Value(), s.Input(targets)).Backward(s)
					dev.ResetPeak()
				}
				f.call(s, s.Input(x).RequireGrad(), w.Value(), s.Input(targets)).Backward(s)
				w.ZeroGrad()
				return nil
			}, autograd.PlanConfig{Steps: 1})
			require.NoError(t, err)
			extra := plan.Peak() - before - w.Spec().Bytes()
			pieces := map[string]int64{"apart": 1024 * (1024 + dim), "sweep": 246 * words}[f.name] // of the logits; packed rows
			if f.name == "sweep" && held {
				extra -= w.Spec().Bytes()
			}
			if f.name == "plain" {
				require.Greater(t, extra, int64(800e6))
				continue
			}
			require.Less(t, extra, int64(64e6), f.name)
			require.Greater(t, extra, (pieces+tokens*dim)*4, f.name)
			require.Less(t, extra, (pieces+tokens*dim)*4+4<<20, f.name) // log-sum-exps, what products pack
		}
	}
	x.Release()
	targets.Release()
	require.NoError(t, sess.Close())
	require.NoError(t, dev.Close())
}

// What one sweep made becomes the gradients where it lies. It is counted as gradients, goes unused if Backward never
// comes, and is left alone where the graph is retained.
func TestOneSweepTakesOver(t *testing.T) {
	r := newHeadRig(t, 10, 4, 7)
	defer r.close()
	want := r.gradients(autograd.WithScale(0.5), headForms[1].call)
	call := headForms[2].call
	live := r.dev.Stats().Live

	r.ok(func(s *autograd.Scope) { // no Backward
		call(s, s.Input(r.x).RequireGrad(), r.w.Value(), s.Input(r.targets))
		require.Equal(t, r.w.Spec().Bytes(), r.dev.Stats().LiveByKind[memory.Grad])
		require.Nil(t, r.w.Grad())
	})
	require.Nil(t, r.w.Grad())
	require.Equal(t, live, r.dev.Stats().Live)

	r.ok(func(s *autograd.Scope) {
		y := call(s, s.Input(r.x).RequireGrad(), r.w.Value(), s.Input(r.targets))
		allocs := r.dev.Stats().Allocs
		y.Backward(s, autograd.WithScale(0.5))
		require.EqualValues(t, 1, r.dev.Stats().Allocs-allocs, "the root's gradient and nothing else")
		require.Equal(t, r.w.Spec().Bytes(), r.dev.Stats().LiveByKind[memory.Grad])
	})
	require.NoError(t, near(want[2], read(r.w.Grad()), 1e-6, 0))

	r.ok(func(s *autograd.Scope) { // a gradient is there: it is added to
		x := s.Input(r.x).RequireGrad()
		call(s, x, r.w.Value(), s.Input(r.targets)).Backward(s, autograd.WithScale(0.5))
		require.NoError(t, near(want[1], read(x.Grad()), 1e-6, 0))
	})
	require.NoError(t, near(times(want[2], 2), read(r.w.Grad()), 1e-6, 0))
	r.w.ZeroGrad()

	r.ok(func(s *autograd.Scope) {
		y := call(s, s.Input(r.x).RequireGrad(), r.w.Value(), s.Input(r.targets))
		y.Backward(s, autograd.WithScale(0.5), autograd.RetainGraph())
		y.Backward(s, autograd.WithScale(0.5), autograd.RetainGraph())
		y.Backward(s, autograd.WithScale(0.5))
	})
	require.NoError(t, near(times(want[2], 3), read(r.w.Grad()), 1e-6, 0))
	r.w.ZeroGrad()
}

func times(a array, k float64) array {
	b := newArray(a.shape...)
	for i, v := range a.data {
		b.data[i] = k * v
	}
	return b
}

// The form follows from the configuration: which gradients are wanted, whether they are accumulated, what is said.
func TestFormsOfTheHead(t *testing.T) {
	r := newHeadRig(t, 10, 4, 7)
	defer r.close()
	saved := func(opts ...ops.LinearCrossEntropyOption) (why []string) {
		r.ok(func(s *autograd.Scope) {
			for _, sv := range autograd.Saved(ops.LinearCrossEntropy(s, s.Input(r.x).RequireGrad(), r.w.Value(), nil, s.Input(r.targets), opts...)) {
				why = append(why, sv.Spec.String())
			}
		})
		return why
	}
	sweep, apart := []string{"float32[10 4]", "float32[7 4]"}, []string{"float32[10 4]", "float32[7 4]", "int64[10]", "float32[10]"}
	require.Equal(t, sweep, saved())
	require.Equal(t, apart, saved(ops.OneSweep(false)))
	require.Equal(t, apart, saved(ops.ReduceNone))
	r.w.SetAccumulated(true)
	require.Equal(t, sweep, saved(), "small against the bound")
	require.Equal(t, apart, saved(ops.LogitsBytes(7*4*4*8-1)))
	require.Equal(t, sweep, saved(ops.LogitsBytes(1), ops.OneSweep(true)))
	r.w.SetFrozen(true)
	require.Equal(t, sweep[:1], saved(ops.LogitsBytes(1)), "no gradient of w, no buffer")
	r.w.SetFrozen(false)
	r.ok(func(s *autograd.Scope) {
		y := ops.LinearCrossEntropy(s.NoGrad(), s.Input(r.x), r.w.Value(), nil, s.Input(r.targets))
		require.Empty(t, autograd.Saved(y))
	})
}

// A tied table has one gradient buffer: the head's becomes it, and the embedding adds to it.
func TestTiedHead(t *testing.T) {
	r := newHeadRig(t, 10, 4, 7)
	defer r.close()
	words := r.tensor(idx(7, 10).values(5), tensor.Int64)
	defer words.Release()
	loss := func(s *autograd.Scope, call func(s *autograd.Scope, x, w, targets value) value) value {
		return s.Do("", func(s *autograd.Scope) value {
			return call(s, ops.Embedding(s, r.w.Value(), s.Input(words)), r.w.Value(), s.Input(r.targets))
		})
	}
	var want array
	for i, f := range headForms {
		r.dev.ResetPeak()
		r.ok(func(s *autograd.Scope) { loss(s, f.call).Backward(s) })
		require.Equal(t, r.w.Spec().Bytes(), r.dev.Stats().PeakByKind[memory.Grad], f.name)
		if i == 0 {
			want = read(r.w.Grad())
		}
		require.NoError(t, near(want, read(r.w.Grad()), 1e-6, 1e-8), f.name)
		r.w.ZeroGrad()
	}
}

// What torch does where the mean has nothing to divide by, or numbers are not finite.
func TestHeadOfNothingFinite(t *testing.T) {
	r := newHeadRig(t, 3, 2, 4)
	defer r.close()
	for i := range 3 {
		tensor.Data[int64](r.targets)[i] = ignore
	}
	for _, f := range headForms {
		res := r.gradients(autograd.WithScale(1), f.call)
		require.True(t, math.IsNaN(res[0].data[0]), "0/0")
		require.Equal(t, [2]array{newArray(3, 2), newArray(4, 2)}, [2]array{res[1], res[2]}, f.name)
	}
	tensor.Data[int64](r.targets)[1] = 2
	tensor.Data[float32](r.x)[2] = float32(math.Inf(1))
	for _, f := range headForms {
		res := r.gradients(autograd.WithScale(1), f.call)
		require.True(t, math.IsNaN(res[0].data[0]), f.name)
		require.True(t, math.IsNaN(res[1].data[2]), f.name)
	}
}

func TestHeadErrors(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	type S = *autograd.Scope
	in := func(s S, dt tensor.DType, shape ...int) value {
		x := r.tensor(newArray(shape...), dt)
		defer x.Release()
		return s.Input(x)
	}
	const f32, f64, i64 = tensor.Float32, tensor.Float64, tensor.Int64
	call := func(text string, b func(S) value, opts ...ops.LinearCrossEntropyOption) {
		r.fails(func(s S) {
			var bias value
			if b != nil {
				bias = b(s)
			}
			ops.LinearCrossEntropy(s, in(s, f32, 2, 3).RequireGrad(), in(s, f32, 5, 3), bias, in(s, i64, 2), opts...)
		}, text)
	}
	call("linear_cross_entropy[float32[2 3] float32[5 3] int64[2]]: LogitsBytes is 0: want 1 or more", nil, ops.LogitsBytes(0))
	call("want label smoothing from 0 to 1, got 2", nil, ops.LabelSmoothing(2))
	call("OneSweep with losses that are not reduced", nil, ops.OneSweep(true), ops.ReduceNone)
	call("want reduction mean, sum or none", nil, ops.ReduceBatchMean)
	call("want bias [5]", func(s S) value { return in(s, f32, 4) })
	call("want equal dtypes", func(s S) value { return in(s, f64, 5) })
	for _, c := range []struct {
		text string
		call func(s S)
	}{
		{"[float32[2 3] float32[5 4] int64[2]]: want x [... K], weight [N K] and targets [...]", func(s S) { ops.LinearCrossEntropy(s, in(s, f32, 2, 3), in(s, f32, 5, 4), nil, in(s, i64, 2)) }},
		{"want x [... K], weight [N K] and targets [...]", func(s S) { ops.LinearCrossEntropy(s, in(s, f32, 2, 3), in(s, f32, 5, 3), nil, in(s, i64, 3)) }},
		{"want equal dtypes", func(s S) { ops.LinearCrossEntropy(s, in(s, f32, 2, 3), in(s, f64, 5, 3), nil, in(s, i64, 2)) }},
		{"want int64 or int32 targets, got float32", func(s S) { ops.LinearCrossEntropy(s, in(s, f32, 2, 3), in(s, f32, 5, 3), nil, in(s, f32, 2)) }},
		{"class weights have no gradient: Detach them", func(s S) {
			ops.LinearCrossEntropy(s, in(s, f32, 2, 3), in(s, f32, 5, 3), nil, in(s, i64, 2), ops.ClassWeights(in(s, f32, 5).RequireGrad()))
		}},
	} {
		r.fails(c.call, c.text)
	}
	x := r.tensor(array{[]int{2, 1}, []float64{0, 5}}, i64)
	defer x.Release()
	for _, sweep := range []ops.OneSweep{false, true} {
		r.fails(func(s S) {
			ops.LinearCrossEntropy(s, in(s, f32, 2, 1, 3).RequireGrad(), in(s, f32, 5, 3), nil, s.Input(x), sweep)
		}, "row [1 0] has target 5: want 0 to 4, one of 5 classes, or -100 to ignore the row")
	}
}
