package amp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

var (
	errMine  = errors.New("mine")
	inf, nan = math.Inf(1), math.NaN()
)

// linearLoss is sum(w x), whose gradient of w is x.
func (r *rig) linearLoss(s scope, w *autograd.Param, x ...float64) value {
	t, err := tensor.New(r.dev, memory.Input, site, w.Spec())
	if err != nil {
		panic(&autograd.Error{Op: "test", Err: err})
	}
	s.OnClose(t.Release)
	for i, v := range x {
		switch {
		case s.Dry():
		case w.Spec().DType == tensor.Float64:
			tensor.Data[float64](t)[i] = v
		case w.Spec().DType == tensor.Float32:
			tensor.Data[float32](t)[i] = float32(v)
		default:
			tensor.Data[tensor.BF16](t)[i] = tensor.ToBF16(float32(v))
		}
	}
	return ops.Sum(s.WithAutocast(amp.BFloat16), ops.Mul(s, w.Value(), s.Input(t)))
}

func scaler(t *testing.T, cfg amp.GradScalerConfig) *amp.GradScaler {
	t.Helper()
	g, err := amp.NewGradScaler(cfg)
	require.NoError(t, err)
	return g
}

func adamw(t *testing.T, ps ...*autograd.Param) *optim.AdamW {
	t.Helper()
	o, err := optim.NewAdamW(ps, optim.AdamWConfig{LR: 0.1, WeightDecay: 0.1})
	require.NoError(t, err)
	return o
}

func floats(p *autograd.Param) []float32 {
	return append([]float32(nil), tensor.Data[float32](p.Tensor())...)
}

// look is all that an update changes in an optimizer.
func look(t *testing.T, o *optim.AdamW) any {
	t.Helper()
	d, err := o.StateDict()
	require.NoError(t, err)
	var all []any
	for i, p := range d.Params {
		all = append(all, p.Step, floats(o.Params()[i]))
		for _, name := range p.Names() {
			all = append(all, append([]float32(nil), tensor.Data[float32](p.Tensors[name])...))
		}
	}
	return all
}

// update is one whole update of opt by a gradient of x.
func (r *rig) update(g *amp.GradScaler, opt optim.Optimizer, x ...float64) (stepped bool, err error) {
	err = r.sess.Step(context.Background(), func(s scope) error {
		g.Backward(s, r.linearLoss(s, opt.Params()[0], x...))
		if stepped, err = g.Step(s, opt); err != nil {
			return err
		}
		opt.ZeroGrad(s)
		return g.Update(s)
	})
	return stepped, err
}

// scalerTable was written by hand, for a factor of 65536 that doubles after 5 updates and is halved by an overflow.
var scalerTable = []struct {
	finite  bool
	scale   float64
	tracker int
	stepped bool
}{
	{true, 65536, 1, true},
	{true, 65536, 2, true},
	{false, 32768, 0, false},
	{true, 32768, 1, true},
	{true, 32768, 2, true},
	{true, 32768, 3, true},
	{true, 32768, 4, true},
	{true, 65536, 0, true},
	{true, 65536, 1, true},
	{true, 65536, 2, true},
	{true, 65536, 3, true},
	{true, 65536, 4, true},
	{true, 131072, 0, true},
	{false, 65536, 0, false},
	{false, 32768, 0, false},
	{false, 16384, 0, false},
	{true, 16384, 1, true},
	{true, 16384, 2, true},
	{true, 16384, 3, true},
	{true, 16384, 4, true},
	{false, 8192, 0, false},
	{true, 8192, 1, true},
	{true, 8192, 2, true},
	{true, 8192, 3, true},
	{true, 8192, 4, true},
	{true, 16384, 0, true},
	{true, 16384, 1, true},
	{true, 16384, 2, true},
	{true, 16384, 3, true},
	{true, 16384, 4, true},
	{true, 32768, 0, true},
	{true, 32768, 1, true},
	{false, 16384, 0, false},
	{true, 16384, 1, true},
	{true, 16384, 2, true},
	{true, 16384, 3, true},
	{true, 16384, 4, true},
	{true, 32768, 0, true},
	{false, 16384, 0, false},
	{true, 16384, 1, true},
}

// The factor follows the table, whether or not the scaler's state goes through JSON into another scaler after each step,
// and the parameters end at the same bits.
func TestScalerTable(t *testing.T) {
	var ends [2][]float32
	for run := range ends {
		r := newRig(t)
		w := r.param(tensor.Float32, 2)
		opt := adamw(t, w)
		g := scaler(t, amp.GradScalerConfig{GrowthInterval: 5})
		require.Equal(t, 65536.0, g.Scale())
		skipped := 0
		for i, row := range scalerTable {
			x := []float64{float64(i) - 20, 0.5}
			if !row.finite {
				x[1] = []float64{inf, -inf, nan, 1e38}[i%4] // the last overflows by the factor
				skipped++
			}
			stepped, err := r.update(g, opt, x...)
			require.NoError(t, err)
			st := g.State()
			require.Equal(t, row, struct {
				finite  bool
				scale   float64
				tracker int
				stepped bool
			}{row.finite, st.Scale, st.Tracker, stepped}, "step %d", i+1)
			require.Equal(t, row.scale, g.Scale())
			require.Equal(t, skipped, g.Skipped())
			if run == 1 {
				text, err := json.Marshal(st)
				require.NoError(t, err)
				var back amp.GradScalerState
				require.NoError(t, json.Unmarshal(text, &back))
				g = scaler(t, amp.GradScalerConfig{InitScale: 8, GrowthFactor: 3, BackoffFactor: 0.1, GrowthInterval: 7})
				require.NoError(t, g.Load(back))
				require.Equal(t, st, g.State())
			}
		}
		ends[run] = floats(w)
	}
	require.Equal(t, ends[0], ends[1])
}

// Scaled by a power of two an update is, to the bit, what it is without a scaler; by another factor nearly.
func TestScaledUpdates(t *testing.T) {
	run := func(g *amp.GradScaler) []float32 {
		r := newRig(t)
		w := r.param(tensor.Float32, 3)
		opt := adamw(t, w)
		for i := range 5 {
			if g != nil {
				_, err := r.update(g, opt, float64(i)+0.3, -1, 2)
				require.NoError(t, err)
				continue
			}
			r.ok(func(s scope) {
				r.linearLoss(s, w, float64(i)+0.3, -1, 2).Backward(s)
				require.NoError(t, opt.Step(s))
				opt.ZeroGrad(s)
			})
		}
		return floats(w)
	}
	plain := run(nil)
	require.Equal(t, plain, run(scaler(t, amp.GradScalerConfig{})))
	require.Equal(t, plain, run(scaler(t, amp.GradScalerConfig{Disabled: true})))
	require.InDeltaSlice(t, plain, run(scaler(t, amp.GradScalerConfig{InitScale: 1000})), 1e-6)
}

// On a skip nothing moves, and the next update is one that never saw it.
func TestSkipMovesNothing(t *testing.T) {
	run := func(bad bool) (any, any) {
		r := newRig(t)
		w, v := r.param(tensor.Float32, 3), r.param(tensor.Float32, 2)
		opt := adamw(t, w, v)
		sched, err := optim.NewCosineAnnealing(opt, optim.CosineConfig{TMax: 10})
		require.NoError(t, err)
		g := scaler(t, amp.GradScalerConfig{})
		step := func(x, y float64) (stepped bool) {
			r.ok(func(s scope) {
				var err error
				g.Backward(s, r.linearLoss(s, w, 1, x, 2))
				g.Backward(s, r.linearLoss(s, v, y, 1))
				stepped, err = g.Step(s, opt)
				require.NoError(t, err)
				if stepped {
					require.NoError(t, sched.Step())
				} else {
					require.Nil(t, w.Grad(), "the gradients are cleared")
					require.Nil(t, v.Grad())
				}
				opt.ZeroGrad(s)
				require.NoError(t, g.Update(s))
			})
			return stepped
		}
		require.True(t, step(1, 1))
		if bad {
			before, rate := look(t, opt), sched.State()
			require.False(t, step(-inf, nan))
			require.Equal(t, before, look(t, opt))
			require.Equal(t, rate, sched.State())
			skip, ok := g.LastSkip()
			require.True(t, ok)
			require.Equal(t, amp.Skip{Params: []string{w.Name(), v.Name()}, Index: 1, Value: -inf, Scale: 65536}, skip)
			require.Equal(t, "element 1 of the gradient of p[3] is -Inf at a loss scale of 65536, and 1 more gradients are not finite", skip.String())
		} else {
			_, ok := g.LastSkip()
			require.False(t, ok)
		}
		require.True(t, step(3, -2))
		return look(t, opt), sched.State()
	}
	state, sched := run(true)
	cleanState, cleanSched := run(false)
	require.Equal(t, cleanState, state)
	require.Equal(t, cleanSched, sched)
}

// Each optimizer is skipped by itself; the factor falls once if any was.
func TestTwoOptimizers(t *testing.T) {
	r := newRig(t)
	a, b := r.param(tensor.Float32, 1), r.param(tensor.Float32, 1)
	one, two := adamw(t, a), adamw(t, b)
	g := scaler(t, amp.GradScalerConfig{})
	step := func(x, y float64) (first, second bool) {
		r.ok(func(s scope) {
			var err error
			if x != 0 {
				g.Backward(s, r.linearLoss(s, a, x))
			}
			if y != 0 {
				g.Backward(s, r.linearLoss(s, b, y))
			}
			first, err = g.Step(s, one)
			require.NoError(t, err)
			second, err = g.Step(s, two)
			require.NoError(t, err)
			one.ZeroGrad(s)
			two.ZeroGrad(s)
			require.NoError(t, g.Update(s))
		})
		return first, second
	}
	for _, c := range []struct {
		x, y          float64
		first, second bool
		scale         float64
		tracker       int
	}{
		{1, 1, true, true, 65536, 1},
		{inf, 1, false, true, 32768, 0},
		{inf, nan, false, false, 16384, 0},
		{1, 0, true, false, 16384, 1}, // the second has no gradient: it is left alone, and nothing is wrong
		{0, 1, false, true, 16384, 2},
		{0, inf, false, false, 8192, 0},
	} {
		before, beside := look(t, one), look(t, two)
		first, second := step(c.x, c.y)
		require.Equal(t, c.first, first)
		require.Equal(t, c.second, second)
		require.Equal(t, c.first, fmt.Sprint(before) != fmt.Sprint(look(t, one)))
		require.Equal(t, c.second, fmt.Sprint(beside) != fmt.Sprint(look(t, two)))
		require.Equal(t, c.scale, g.Scale())
		require.Equal(t, c.tracker, g.State().Tracker)
	}
}

// Where every gradient overflows the factor falls to its floor, and then an error says where. Nothing is left behind.
func TestInfInEveryStep(t *testing.T) {
	r := newRig(t)
	w := r.param(tensor.Float32, 2)
	opt := adamw(t, w)
	g := scaler(t, amp.GradScalerConfig{InitScale: 8, MinScale: 2, MaxSkips: 5})
	before, live := look(t, opt), r.dev.Stats().Live
	for _, scale := range []float64{4, 2, 2, 2} {
		stepped, err := r.update(g, opt, 1, nan)
		require.NoError(t, err)
		require.False(t, stepped)
		require.Equal(t, scale, g.Scale())
	}
	for range 2 {
		_, err := r.update(g, opt, 1, nan)
		require.ErrorContains(t, err, "amp: GradScaler.Step: 5 updates in a row without finite gradients: element 1 of the gradient of p[2] is NaN at a loss scale of 2: look for what makes the loss or the model overflow")
		require.Equal(t, live, r.dev.Stats().Live)
		require.Equal(t, 4, g.Skipped(), "a failed step is no skip")
	}
	require.Equal(t, before, look(t, opt))
	stepped, err := r.update(g, opt, 1, 1)
	require.NoError(t, err)
	require.True(t, stepped)
	require.Zero(t, g.State().Skips)

	// at torch's values it takes 20, and any number if MaxSkips is negative
	g = scaler(t, amp.GradScalerConfig{})
	for i := range 20 {
		_, err = r.update(g, opt, 1, nan)
		require.Equal(t, i == 19, err != nil, i)
	}
	require.Equal(t, 1.0, g.Scale())
	g = scaler(t, amp.GradScalerConfig{MaxSkips: -1})
	for range 100 {
		_, err = r.update(g, opt, 1, nan)
		require.NoError(t, err)
	}
}

// Parameters in Float16 are refused by name, with what to do.
func TestFloat16Parameter(t *testing.T) {
	r := newRig(t)
	w, h := r.param(tensor.Float32, 1), r.param(tensor.Float16, 2)
	opt := adamw(t, w, h)
	g := scaler(t, amp.GradScalerConfig{})
	text := "parameter 1, p[2], is float16, and so is its gradient, which would underflow without its loss scale: want parameters in float32 and s.WithAutocast(amp.Float16), or a model in bfloat16, which needs no scaler"
	r.ok(func(s scope) {
		_, err := g.Step(s, opt)
		require.EqualError(t, err, "amp: GradScaler.Step: "+text)
		require.EqualError(t, g.Unscale(s, opt), "amp: GradScaler.Unscale: "+text)
		_, err = g.ClipGradNorm(s, opt, 1)
		require.EqualError(t, err, "amp: GradScaler.ClipGradNorm: "+text)
	})
	err := r.step(func(s scope) { g.Backward(s, ops.Sum(s, h.Value())) })
	require.ErrorContains(t, err, "the loss is float16, which does not hold the loss scale of 65536: cast it to float32 before (ops.Cast)")
	off := scaler(t, amp.GradScalerConfig{Disabled: true})
	r.ok(func(s scope) {
		off.Backward(s, ops.Sum(s, h.Value()))
		stepped, err := off.Step(s, opt)
		require.NoError(t, err)
		require.True(t, stepped)
		opt.ZeroGrad(s)
	})
}

// Parameters in BFloat16 and Float64 can be scaled.
func TestScalerDTypes(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float64} {
		r := newRig(t)
		w, v := r.param(dt, 2), r.param(dt, 2)
		require.NoError(t, tensor.Copy(v.Tensor(), w.Tensor()))
		a, b := adamw(t, w), adamw(t, v)
		g := scaler(t, amp.GradScalerConfig{})
		for _, unscale := range []bool{false, true} {
			r.ok(func(s scope) {
				g.Backward(s, r.linearLoss(s, w, 0.25, -4))
				r.linearLoss(s, v, 0.25, -4).Backward(s)
				if unscale {
					require.NoError(t, g.Unscale(s, a))
				}
				stepped, err := g.Step(s, a)
				require.NoError(t, err)
				require.True(t, stepped)
				require.NoError(t, b.Step(s))
				require.NoError(t, g.Update(s))
				for i := range 2 {
					require.Equal(t, v.Tensor().At(i), w.Tensor().At(i))
				}
				a.ZeroGrad(s)
				b.ZeroGrad(s)
			})
		}
	}
}

// What scaling is for: a gradient that Float16 rounds to 0 on its way arrives when it is lifted.
func TestSmallGradients(t *testing.T) {
	r := newRig(t)
	w, x := r.param(tensor.Float32, 1, 4), r.tensor(tensor.Float32, 1, 4)
	g := scaler(t, amp.GradScalerConfig{})
	loss := func(s scope) value { // 1e-9 times a product, whose gradient is a half
		return ops.MulScalar(s, ops.Sum(s.WithAutocast(amp.Float16), ops.Linear(s.WithAutocast(amp.Float16), s.Input(x), w.Value(), nil)), 1e-9)
	}
	r.ok(func(s scope) {
		loss(s).Backward(s)
		require.Equal(t, make([]float32, 4), tensor.Data[float32](w.Grad()))
		w.ZeroGrad()
		g.Backward(s, loss(s))
		for i, v := range tensor.Data[float32](w.Grad()) {
			require.InEpsilon(t, 1e-9*x.At(0, i), float64(v)/g.Scale(), 0.01)
		}
		w.ZeroGrad()
	})
}

// A factor that is far too large finds its way down, and the model trains.
func TestScaleSettles(t *testing.T) {
	r := newRig(t)
	m := languageModel(t, r, false)
	g := scaler(t, amp.GradScalerConfig{InitScale: 0x1p30, GrowthInterval: 1000})
	var losses []float64
	for range 40 {
		require.NoError(t, r.sess.Step(context.Background(), func(s scope) error {
			loss := m.loss(s.WithAutocast(amp.Float16))
			losses = append(losses, loss.Item())
			g.Backward(s, loss)
			if _, err := g.Step(s, m.opt); err != nil {
				return err
			}
			m.opt.ZeroGrad(s)
			return g.Update(s)
		}))
	}
	require.Positive(t, g.Skipped())
	require.Less(t, g.Skipped(), 20)
	require.Equal(t, 0x1p30*math.Pow(0.5, float64(g.Skipped())), g.Scale())
	require.Less(t, losses[39], 0.9*losses[0])
}
