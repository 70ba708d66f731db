package amp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// The fused head makes gradients before it knows the loss scale; they must not have been rounded to halves by then.
func TestFusedHeadIsScaled(t *testing.T) {
	const rows, dim, words, small = 64, 8, 11, 1e-6
	for _, sweep := range []bool{false, true} {
		r := newRig(t)
		x, w, y := r.tensor(tensor.Float32, rows, dim), r.param(tensor.Float32, words, dim), r.tensor(tensor.Int64, rows)
		g := scaler(t, amp.GradScalerConfig{InitScale: 1 << 30})
		run := func(p autograd.CastPolicy, back func(s scope, loss value)) (dx []float64) {
			r.ok(func(s scope) {
				v := ops.Neg(s, s.Input(x).RequireGrad())
				if p.On() {
					v = ops.Cast(s, v, p.Low)
				}
				v.OnGrad(func(_ scope, g value) value {
					for i := range rows {
						dx = append(dx, g.Tensor().At(i, 3))
					}
					return nil
				})
				back(s, ops.LinearCrossEntropy(s.WithAutocast(p), v, w.Value(), nil, s.Input(y), ops.OneSweep(sweep)))
				w.ZeroGrad()
			})
			return dx
		}
		want := run(amp.Off, func(s scope, loss value) { loss.Backward(s) })
		got := run(amp.Float16, func(s scope, loss value) { g.Backward(s, loss, autograd.WithScale(small)) })
		for i := range want {
			require.InDelta(t, want[i], got[i]/g.Scale()/small, 1e-5+0.01*math.Abs(want[i]))
		}
		gone := run(amp.Float16, func(s scope, loss value) { loss.Backward(s, autograd.WithScale(small)) })
		require.Equal(t, make([]float64, rows), gone, "without a scaler")
	}
}
