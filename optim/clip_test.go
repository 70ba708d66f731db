package optim_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

var nan, inf = math.NaN(), math.Inf(1)

// clip runs ClipGradNorm on parameters with these gradients (nil: none) and gives the norm and the gradients after.
func clip(t *testing.T, dt tensor.DType, grads [][]float64, maxNorm float64, opts ...optim.ClipOption) (norm float64, after [][]float64, err error) {
	t.Helper()
	r := plainRig(t)
	defer r.close()
	var ps []*autograd.Param
	for i, g := range grads {
		ps = append(ps, r.param(fmt.Sprint("p", i), dt, make([]float64, len(g)), len(g)))
	}
	r.ok(func(s *autograd.Scope) {
		for i, g := range grads {
			if g != nil {
				r.give(s, ps[i], g)
			}
		}
		live := r.dev.Stats().Live
		r.dev.ResetPeak()
		norm, err = optim.ClipGradNorm(s, ps, maxNorm, opts...)
		require.Equal(t, live, r.dev.Stats().Live)
		require.LessOrEqual(t, r.dev.Stats().Peak, live+8*8, "no temporaries the size of a parameter")
		for _, p := range ps {
			after = append(after, nil)
			if p.Grad() != nil {
				after[len(after)-1] = values(p.Grad())
			}
		}
	})
	return norm, after, err
}

func TestClipGradNormTable(t *testing.T) {
	for _, c := range []struct {
		name  string
		grads [][]float64
		max   float64
		norm  float64
		after [][]float64
	}{
		{"no gradients", [][]float64{nil, nil}, 1, 0, [][]float64{nil, nil}},
		{"no parameters", nil, 1, 0, nil},
		{"clipped", [][]float64{{3}, nil, {0, 4}}, 1, 5, [][]float64{{3 * (1 / (5 + 1e-6))}, nil, {0, 4 * (1 / (5 + 1e-6))}}},
		{"below", [][]float64{{3}, {4}}, 10, 5, [][]float64{{3}, {4}}},
		{"at the bound", [][]float64{{3}, {4}}, 5, 5, [][]float64{{3 * (5 / (5 + 1e-6))}, {4 * (5 / (5 + 1e-6))}}},
		{"zeros", [][]float64{{0, 0}}, 1, 0, [][]float64{{0, 0}}},
		{"to zero", [][]float64{{3}, {-4}}, 0, 5, [][]float64{{0}, {math.Copysign(0, -1)}}},
		{"measured only", [][]float64{{3}, {4}}, inf, 5, [][]float64{{3}, {4}}},
		{"inf", [][]float64{{1, inf}, {2, -inf}, {3}}, 1, inf, [][]float64{{0, nan}, {0, nan}, {0}}},
		{"nan", [][]float64{{1, nan}, {2}}, 1, nan, [][]float64{{nan, nan}, {nan}}},
		{"nan and inf", [][]float64{{nan}, {inf}, {1}}, 1, nan, [][]float64{{nan}, {nan}, {nan}}},
		{"empty", [][]float64{{}, {2}}, 1, 2, [][]float64{{}, {2 * (1 / (2 + 1e-6))}}},
	} {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
			t.Run(fmt.Sprint(c.name, " ", dt), func(t *testing.T) {
				norm, after, err := clip(t, dt, c.grads, c.max)
				require.NoError(t, err)
				same(t, []float64{c.norm}, []float64{norm}, 0)
				require.Len(t, after, len(c.after))
				for i := range after {
					same(t, c.after[i], after[i], map[tensor.DType]float64{tensor.Float32: 1e-6}[dt])
				}
			})
		}
	}
}

// Gradients of half types are measured and changed as float32, and rounded once.
func TestClipHalves(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		norm, after, err := clip(t, dt, [][]float64{{3}, nil, {0, 4}}, 1)
		require.NoError(t, err)
		require.Equal(t, 5.0, norm)
		k := float64(float32(1 / (5 + 1e-6)))
		require.Equal(t, [][]float64{rounded(dt, []float64{float64(float32(3 * k))}), nil, rounded(dt, []float64{0, float64(float32(4 * k))})}, after)

		_, _, err = clip(t, dt, [][]float64{{1}, {3, inf, nan}}, 1, optim.ErrorIfNonfinite())
		require.ErrorContains(t, err, "element 1 of the gradient of p1 is the first that is not finite")
		norm, _, err = clip(t, dt, [][]float64{slices.Repeat([]float64{60000}, 1000)}, inf)
		require.NoError(t, err)
		require.InEpsilon(t, rounded(dt, []float64{60000})[0]*math.Sqrt(1000), norm, 1e-6, "the sum is not one of the type")

		r := plainRig(t)
		p := r.param("p", dt, make([]float64, 3), 3)
		r.ok(func(s *autograd.Scope) {
			r.give(s, p, []float64{-3, 0.25, 8})
			require.NoError(t, optim.ClipGradValue(s, []*autograd.Param{p}, 0.5))
			require.Equal(t, []float64{-0.5, 0.25, 0.5}, values(p.Grad()))
			require.NoError(t, optim.ScaleGrad(s, []*autograd.Param{p}, 4))
			require.Equal(t, []float64{-2, 1, 2}, values(p.Grad()))
			p.ZeroGrad()
		})
		r.close()
	}
}

// same is near with NaN equal to NaN.
func same(t *testing.T, want, got []float64, tol float64) {
	t.Helper()
	require.Len(t, got, len(want))
	require.Equal(t, want == nil, got == nil)
	for i := range want {
		if math.IsNaN(want[i]) || math.IsInf(want[i], 0) || tol == 0 {
			require.Equal(t, fmt.Sprint(want[i]), fmt.Sprint(got[i]))
		} else {
			require.InDelta(t, want[i], got[i], tol*math.Abs(want[i]))
		}
	}
}

func TestClipGradNormOverManyChunks(t *testing.T) {
	grads := [][]float64{wave(16384*2+5, 1), wave(3, 2), wave(16384, 3)}
	var squares float64
	for _, g := range grads {
		for _, v := range g {
			squares += v * v
		}
	}
	want := math.Sqrt(squares)
	norm, after, err := clip(t, tensor.Float64, grads, 2)
	require.NoError(t, err)
	require.InEpsilon(t, want, norm, 1e-13)
	for i, g := range grads {
		for j := range g {
			g[j] *= 2 / (want + 1e-6)
		}
		near(t, g, after[i], 1e-12, 0, fmt.Sprint("gradient ", i))
	}
}

func TestErrorIfNonfinite(t *testing.T) {
	grads := [][]float64{{1, 2}, {3, 4, inf, nan}}
	norm, after, err := clip(t, tensor.Float32, grads, 1, optim.ErrorIfNonfinite())
	require.EqualError(t, err, "optim: ClipGradNorm: the norm is NaN: element 2 of the gradient of p1 is the first that is not finite")
	require.True(t, math.IsNaN(norm))
	same(t, grads[0], after[0], 0)
	same(t, grads[1], after[1], 0)

	_, after, err = clip(t, tensor.Float64, [][]float64{{1e200}}, 1, optim.ErrorIfNonfinite())
	require.ErrorContains(t, err, "beyond float64, of gradients that are finite")
	require.Equal(t, [][]float64{{1e200}}, after)

	norm, _, err = clip(t, tensor.Float32, [][]float64{{3e38}}, 1, optim.ErrorIfNonfinite())
	require.NoError(t, err, "float32 is summed in float64")
	require.InEpsilon(t, 3e38, norm, 1e-6)
	_, _, err = clip(t, tensor.Float32, [][]float64{{1}}, 1, optim.ErrorIfNonfinite())
	require.NoError(t, err)
}

func TestClipGradNormRefusals(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a := r.vec("a", 1)
	r.ok(func(s *autograd.Scope) {
		for _, c := range []struct {
			ps   []*autograd.Param
			max  float64
			text string
		}{
			{[]*autograd.Param{a}, -1, "the bound is -1: want 0 or more"},
			{[]*autograd.Param{a}, nan, "the bound is NaN"},
			{[]*autograd.Param{a, nil}, 1, "parameter 1 is nil"},
			{[]*autograd.Param{a, a}, 1, "parameter 1, a, is given twice"},
		} {
			_, err := optim.ClipGradNorm(s, c.ps, c.max)
			require.ErrorContains(t, err, "optim: ClipGradNorm: "+c.text)
		}
	})
}

func TestClipGradNormBumpsTheGradient(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a := r.vec("a", 1)
	err := r.step(func(s *autograd.Scope) error {
		r.push(s, a, 2)
		g := s.Input(a.Grad())
		if _, err := optim.ClipGradNorm(s, []*autograd.Param{a}, 1); err != nil {
			return err
		}
		g.Item()
		return nil
	})
	require.ErrorContains(t, err, "was overwritten by an in-place operation")
}

// One read tells the norm and all gradients that are not finite.
func TestMeasureGrads(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	var ps []*autograd.Param
	grads := map[int][]float64{0: {3, 0}, 1: {1, nan, inf}, 3: {-inf, 2}, 4: {1e200, 1e200}}
	dts := []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float32, tensor.Float32, tensor.Float64}
	for i, dt := range dts {
		n := max(1, len(grads[i]))
		ps = append(ps, r.param(fmt.Sprint("p", i), dt, make([]float64, n), n))
	}
	measure := func(s *autograd.Scope) error {
		for i, p := range ps {
			if g := grads[i]; g != nil {
				r.give(s, p, g)
			}
		}
		all, err := optim.MeasureGrads(s, ps)
		require.NoError(t, err)
		defer func() {
			for _, p := range ps {
				p.ZeroGrad()
			}
		}()
		if s.Dry() {
			require.Equal(t, optim.GradReport{Params: 4}, all)
			return nil
		}
		require.True(t, math.IsNaN(all.Norm))
		require.Equal(t, 4, all.Params)
		require.Len(t, all.NonFinite, 2, "finite squares beyond float64 are finite gradients")
		require.Equal(t, ps[1], all.NonFinite[0].Param)
		require.Equal(t, 1, all.NonFinite[0].Index)
		require.True(t, math.IsNaN(all.NonFinite[0].Value))
		require.Equal(t, optim.NonFinite{Param: ps[3], Index: 0, Value: -inf}, all.NonFinite[1])

		return nil
	}
	plantest.Compare(t, r.sess, measure)
	r.ok(func(s *autograd.Scope) {
		r.give(s, ps[0], grads[0])
		some, err := optim.MeasureGrads(s, ps[:1])
		require.NoError(t, err)
		require.Equal(t, optim.GradReport{Norm: 3, Params: 1}, some)
		none, err := optim.MeasureGrads(s, ps[2:3])
		require.NoError(t, err)
		require.Zero(t, none)
		_, err = optim.MeasureGrads(s, []*autograd.Param{ps[0], ps[0]})
		require.ErrorContains(t, err, "optim: MeasureGrads: parameter 1, p0, is given twice")
		ps[0].ZeroGrad()
	})
}

// Gradients that still carry a loss scale are neither clipped nor used as they are.
func TestLossScaleIsNotForgotten(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a := r.vec("a", 1)
	opt := mustSGD(t, optim.SGDConfig{LR: 1}, a)
	r.ok(func(s *autograd.Scope) {
		r.push(s, a, 3)
		a.SetGradScale(8)
		_, err := optim.ClipGradNorm(s, opt.Params(), 1)
		require.ErrorContains(t, err, "optim: ClipGradNorm: the gradient of parameter 0, a, is multiplied by a loss scale of 8: want GradScaler.ClipGradNorm, or GradScaler.Unscale before")
		require.ErrorContains(t, optim.ClipGradValue(s, opt.Params(), 1), "a loss scale of 8")
		require.ErrorContains(t, opt.Step(s), "optim: SGD.Step: the gradient of a is multiplied by a loss scale of 8: want GradScaler.Step")
		require.NoError(t, optim.ScaleGrad(s, opt.Params(), 2), "the scale is part of it")
		require.NoError(t, opt.StepScaled(s, 1./16))
		opt.ZeroGrad(s)
	})
	require.InDelta(t, 1-6./16, val(a)[0], 1e-15)
}

func TestClipGradNormDry(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a := r.vec("a", 1)
	r.ok(func(s *autograd.Scope) { r.push(s, a, nan) })
	plan, err := r.sess.Plan(func(s *autograd.Scope) error {
		norm, err := optim.ClipGradNorm(s, []*autograd.Param{a}, 1, optim.ErrorIfNonfinite())
		require.Zero(t, norm)
		return err
	}, autograd.PlanConfig{Steps: 1})
	require.NoError(t, err, "the finite path")
	require.EqualValues(t, 8, plan.Steps[0].ByKind[memory.Scratch])
}

func TestClipGradValue(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a, b := r.vec("a", 1, 2, 3), r.vec("b", 1)
	r.ok(func(s *autograd.Scope) {
		r.push(s, a, -3, math.NaN(), 0.25)
		require.NoError(t, optim.ClipGradValue(s, []*autograd.Param{a, b}, 0.5))
		g := values(a.Grad())
		require.Equal(t, -0.5, g[0])
		require.True(t, math.IsNaN(g[1]))
		require.Equal(t, 0.25, g[2])
		require.ErrorContains(t, optim.ClipGradValue(s, []*autograd.Param{a}, -1), "optim: ClipGradValue: the bound is -1")
		require.ErrorContains(t, optim.ClipGradValue(s, []*autograd.Param{a, a}, 1), "given twice")
	})
}

func TestScaleGrad(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a, none := r.vec("a", 1, 2), r.vec("none", 4)
	params := []*autograd.Param{a, none}
	r.ok(func(s *autograd.Scope) {
		r.push(s, a, 3, -5)
		require.NoError(t, optim.ScaleGrad(s, params, 0.5))
		require.Equal(t, []float64{1.5, -2.5}, values(a.Grad()))
		require.Nil(t, none.Grad())
		require.ErrorContains(t, optim.ScaleGrad(s, append(params, a), 2), "optim: ScaleGrad: parameter 2, a, is given twice")
	})
}
