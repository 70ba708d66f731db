package amp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// foreign is an optimizer that knows nothing of factors.
type foreign struct{ optim.Optimizer }

// Clipping is to the bit the same by ClipGradNorm of the scaler, after Unscale, without a scaler, and with an optimizer
// that does not divide by itself; and the gradients are only read where they can be.
func TestClipGradNormOfAScaler(t *testing.T) {
	const bound = 0.75
	type way struct {
		name    string
		scaler  amp.GradScalerConfig
		unscale bool
		clip    func(g *amp.GradScaler, s scope, opt optim.Optimizer) (float64, error)
		opt     func(o *optim.AdamW) optim.Optimizer
		reads   bool
	}
	composed := func(g *amp.GradScaler, s scope, opt optim.Optimizer) (float64, error) {
		return g.ClipGradNorm(s, opt, bound)
	}
	apart := func(_ *amp.GradScaler, s scope, opt optim.Optimizer) (float64, error) {
		return optim.ClipGradNorm(s, opt.Params(), bound)
	}
	plain := func(o *optim.AdamW) optim.Optimizer { return o }
	var want []float32
	var norms []float64
	for _, c := range []way{
		{"no scaler", amp.GradScalerConfig{Disabled: true}, false, apart, plain, false},
		{"disabled", amp.GradScalerConfig{Disabled: true}, false, composed, plain, true},
		{"unscaled", amp.GradScalerConfig{}, true, apart, plain, false},
		{"unscaled and composed", amp.GradScalerConfig{}, true, composed, plain, false},
		{"composed", amp.GradScalerConfig{}, false, composed, plain, true},
		{"foreign", amp.GradScalerConfig{}, false, composed, func(o *optim.AdamW) optim.Optimizer { return foreign{o} }, false},
	} {
		r := newRig(t)
		w, v := r.param(tensor.Float32, 3), r.param(tensor.Float32, 1)
		opt := c.opt(adamw(t, w, v))
		g := scaler(t, c.scaler)
		var seen []float64
		for i := range 4 { // the first is below the bound
			x := float64(i)/3 + 0.1
			r.ok(func(s scope) {
				g.Backward(s, r.linearLoss(s, w, x, -x/2, x/3))
				g.Backward(s, r.linearLoss(s, v, x))
				if c.unscale {
					require.NoError(t, g.Unscale(s, opt))
				}
				norm, err := c.clip(g, s, opt)
				require.NoError(t, err)
				seen = append(seen, norm)
				stepped, err := g.Step(s, opt)
				require.NoError(t, err)
				require.True(t, stepped)
				if c.reads {
					require.Equal(t, float64(float32(x))*g.Scale(), v.Grad().At(0), c.name)
				}
				opt.ZeroGrad(s)
				require.NoError(t, g.Update(s))
			})
		}
		got := append(floats(w), floats(v)...)
		if want == nil {
			want, norms = got, seen
			require.Greater(t, norms[3], bound)
			require.Less(t, norms[0], bound)
		}
		require.Equal(t, want, got, c.name)
		require.InDeltaSlice(t, norms, seen, 1e-12, c.name)
	}
}

// A norm that is not finite skips the update; a disabled scaler has no way but an error.
func TestClipGradNormOverflow(t *testing.T) {
	r := newRig(t)
	w := r.param(tensor.Float32, 2)
	opt := adamw(t, w)
	g, off := scaler(t, amp.GradScalerConfig{}), scaler(t, amp.GradScalerConfig{Disabled: true})
	r.ok(func(s scope) {
		g.Backward(s, r.linearLoss(s, w, 1, inf))
		norm, err := g.ClipGradNorm(s, opt, 1)
		require.NoError(t, err)
		require.True(t, math.IsInf(norm, 1))
		stepped, err := g.Step(s, opt)
		require.NoError(t, err)
		require.False(t, stepped)
		require.Nil(t, w.Grad())
		require.NoError(t, g.Update(s))

		off.Backward(s, r.linearLoss(s, w, 1, nan))
		norm, err = off.ClipGradNorm(s, opt, 1)
		require.EqualError(t, err, "amp: GradScaler.ClipGradNorm: element 1 of the gradient of p[2] is NaN at a loss scale of 1")
		require.True(t, math.IsNaN(norm))
		opt.ZeroGrad(s)
	})
}

// Law M3 for training in mixed Float16, and no bit of it depends on the number of workers.
func TestTrainingInFloat16(t *testing.T) {
	var ends [2][]float32
	for i := range ends {
		r := newRigWith(t, 1+i)
		m := languageModel(t, r, false)
		g := scaler(t, amp.GradScalerConfig{GrowthInterval: 4})
		step := func(s scope) error {
			g.Backward(s, m.loss(s.WithAutocast(amp.Float16)))
			if _, err := g.ClipGradNorm(s, m.opt, 1); err != nil {
				return err
			}
			stepped, err := g.Step(s, m.opt)
			if err != nil {
				return err
			}
			require.True(t, stepped)
			m.opt.ZeroGrad(s)
			return g.Update(s)
		}
		if i == 0 {
			plantest.Compare(t, r.sess, step)
			plantest.Compare(t, r.sess, step)
		} else {
			for range 4 {
				require.NoError(t, r.sess.Step(t.Context(), step))
			}
		}
		require.Equal(t, 131072.0, g.Scale())
		for _, p := range nn.Params(m.net) {
			ends[i] = append(ends[i], floats(p)...)
		}
	}
	require.Equal(t, ends[0], ends[1])
}
