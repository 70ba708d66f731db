package nn_test

import (
	"fmt"
	"log"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

func TestSummary(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	bn, err := nn.NewBatchNorm(r.sess, 3)
	require.NoError(t, err)
	m := nn.Sequential{r.linear(2, 3), bn}
	nn.SetFrozen(bn, true)
	x := r.uniform(tensor.Float32, 4, 2)
	defer x.Release()
	r.ok(func(s *autograd.Scope) { ops.Sum(s, m.Forward(s, s.Input(x))).Backward(s) })
	require.Equal(t, `name            value         parameters  param bytes  grad bytes  other bytes
0.weight        float32[3 2]           6           24          24            0
0.bias          float32[3]             3           12          12            0
1.weight        float32[3]             3           12           0            0  frozen
1.bias          float32[3]             3           12           0            0  frozen
1.running_mean  float32[3]             0            0           0           12
1.running_var   float32[3]             0            0           0           12
total                                 15           60          36           24
`, nn.Summary(m))
	require.Equal(t, "name   value  parameters\ntotal                  0\n", nn.Summary(nil))
}

// A model at a glance.
func ExampleSummary() {
	sess, done := session()
	defer done()
	model, err := NewMLP(sess, 784, 64, 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(nn.Summary(model))
	// Output:
	// name          value            parameters  param bytes
	// net.0.weight  float32[64 784]       50176       200704
	// net.0.bias    float32[64]              64          256
	// net.1.weight  float32[64]              64          256
	// net.1.bias    float32[64]              64          256
	// head.weight   float32[10 64]          640         2560
	// total                               51008       204032
}
