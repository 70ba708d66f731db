package amp_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// What ops of class low keep of values is the half type's: each tensor exactly half the bytes, whether or not the op
// computes in the type; but attention's row statistics, which are float32 always.
func TestLowOpsKeepHalf(t *testing.T) {
	r := newRig(t)
	x, w := r.tensor(tensor.Float32, 6, 8), r.tensor(tensor.Float32, 4, 8)
	m := r.tensor(tensor.Float32, 8, 4)
	image, taps := r.tensor(tensor.Float32, 2, 3, 5, 5), r.tensor(tensor.Float32, 4, 3, 3, 3)
	q, k, v := r.tensor(tensor.Float32, 1, 6, 2, 8), r.tensor(tensor.Float32, 1, 7, 2, 8), r.tensor(tensor.Float32, 1, 7, 2, 8)
	for _, c := range []struct {
		op   string
		in   []*tensor.Tensor
		f    func(s scope, in []value) value
		kept int // tensors that halve
	}{
		{"linear", []*tensor.Tensor{x, w}, func(s scope, in []value) value { return ops.Linear(s, in[0], in[1], nil) }, 2},
		{"matmul", []*tensor.Tensor{x, m}, func(s scope, in []value) value { return ops.MatMul(s, in[0], in[1]) }, 2},
		{"conv2d", []*tensor.Tensor{image, taps}, func(s scope, in []value) value {
			return ops.Conv2D(s, in[0], in[1], nil, ops.Conv2DConfig{})
		}, 2},
		{"scaled_dot_product_attention", []*tensor.Tensor{q, k, v}, func(s scope, in []value) value {
			return ops.Attention(s, in[0], in[1], in[2], ops.AttentionConfig{})
		}, 4},
	} {
		kept := func(p autograd.CastPolicy) (list []autograd.SavedTensor) {
			r.ok(func(s scope) {
				var in []value
				for _, t := range c.in { // made by an op, so that their bytes are kept
					in = append(in, ops.Neg(s, s.Input(t).RequireGrad()))
				}
				for _, e := range autograd.Saved(c.f(s.WithAutocast(p), in)) {
					if e.Op == c.op {
						list = append(list, e)
					}
				}
			})
			return list
		}
		full := kept(amp.Off)
		for _, p := range []autograd.CastPolicy{amp.BFloat16, amp.Float16} {
			low, halved := kept(p), 0
			require.Len(t, low, len(full), c.op)
			for i, e := range low {
				require.Equal(t, full[i].Why, e.Why)
				if strings.HasPrefix(e.Why, "output 1") {
					require.Equal(t, full[i], e, "statistics")
					continue
				}
				halved++
				require.Equal(t, p.Low, e.Spec.DType, "%s: %s", c.op, e.Why)
				require.Positive(t, e.Bytes)
				require.Equal(t, full[i].Bytes, 2*e.Bytes, "%s: %s", c.op, e.Why)
			}
			require.Equal(t, c.kept, halved, c.op)
		}
	}
}
