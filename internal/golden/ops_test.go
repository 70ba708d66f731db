package golden

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// opCase is a case of ops.json. Op has torch's name for the op.
type opCase struct {
	Name, Op   string
	Attrs      map[string]any
	Inputs     []array
	Output     array
	GradOutput *array `json:"grad_output"`
	Grads      map[string]array
}

// float is a number among the attributes, or otherwise.
func (c *opCase) float(name string, otherwise float64) float64 {
	if v, ok := c.Attrs[name].(float64); ok {
		return v
	}
	return otherwise
}

func (c *opCase) int(name string, otherwise int) int { return int(c.float(name, float64(otherwise))) }

func (c *opCase) bool(name string) bool { v, _ := c.Attrs[name].(bool); return v }

func (c *opCase) string(name string) string { v, _ := c.Attrs[name].(string); return v }

// ints is a list among the attributes, nil if it is not there.
func (c *opCase) ints(name string) (list []int) {
	vs, _ := c.Attrs[name].([]any)
	for _, v := range vs {
		list = append(list, int(v.(float64)))
	}
	return list
}

// call runs the op of a case on values of its inputs.
type call func(s *autograd.Scope, c *opCase, in []*autograd.Value) *autograd.Value

// calls gives the call for each of torch's names; each family of ops has its list in a file of its own.
func calls() map[string]call {
	all := map[string]call{}
	for _, family := range []map[string]call{
		basicCalls,
		imageCalls,
		attentionCalls,
		elementwiseCalls,
		reductionCalls,
		shapeCalls,
	} {
		maps.Copy(all, family)
	}
	return all
}

func TestOps(t *testing.T) {
	var file struct{ Cases []opCase }
	load(t, "ops.json", &file)
	require.NotEmpty(t, file.Cases)
	all := calls()
	for i := range file.Cases {
		c := &file.Cases[i]
		t.Run(c.Name, func(t *testing.T) {
			f, ok := all[c.Op]
			require.True(t, ok, "no call for %s", c.Op)
			checkOp(t, c, f)
		})
	}
}

// The fused head on each case of cross-entropy, with the identity as weight, in both forms and in pieces of one row.
func TestFusedHead(t *testing.T) {
	var file struct{ Cases []opCase }
	load(t, "ops.json", &file)
	checked := 0
	for i := range file.Cases {
		c := &file.Cases[i]
		if c.Op != "cross_entropy" {
			continue
		}
		for _, sweep := range []ops.OneSweep{false, true} {
			if bool(sweep) && c.reduction() == ops.ReduceNone {
				continue
			}
			t.Run(fmt.Sprintf("%s, one sweep %v", c.Name, sweep), func(t *testing.T) {
				checkOp(t, c, func(s *autograd.Scope, c *opCase, in []value) value {
					n := in[0].Dim(-1)
					eye, err := tensor.Zeros(s.Device(), memory.Input, site, tensor.Of(tensor.Float32, n, n))
					require.NoError(t, err)
					defer eye.Release()
					for k := range n {
						tensor.Data[float32](eye)[k*n+k] = 1
					}
					opts := []ops.LinearCrossEntropyOption{sweep, ops.LogitsBytes(1)}
					for _, o := range c.lossOptions(in) {
						opts = append(opts, o)
					}
					return ops.LinearCrossEntropy(s, in[0], s.Input(eye), nil, in[1], opts...)
				})
			})
			checked++
		}
	}
	require.Greater(t, checked, 4)
}

func checkOp(t *testing.T, c *opCase, f call) {
	b := newBench(t)
	defer b.close()
	var in []*tensor.Tensor
	for i := range c.Inputs {
		x := b.tensor(&c.Inputs[i])
		defer x.Release()
		in = append(in, x)
	}
	require.NoError(t, b.sess.Step(context.Background(), func(s *autograd.Scope) error {
		leaves := make([]*autograd.Value, len(in))
		for i, x := range in {
			leaves[i] = s.Input(x)
			if _, has := c.Grads[strconv.Itoa(i)]; has {
				leaves[i].RequireGrad()
			}
		}
		y := f(s, c, leaves)
		require.Equal(t, len(c.Output.Shape), len(y.Shape()))
		for i, n := range c.Output.Shape {
			require.Equal(t, n, y.Shape()[i])
		}
		requireNear(t, c.Output.floats(), b.read(y.Tensor()), 1e-5, 1e-6, "output")
		if c.GradOutput != nil && len(c.Grads) > 0 {
			checkGrads(b, s, c, y, leaves)
		}
		return nil
	}))
}

func checkGrads(b *bench, s *autograd.Scope, c *opCase, y *autograd.Value, leaves []*autograd.Value) {
	g := b.tensor(c.GradOutput)
	defer g.Release()
	y.Backward(s, autograd.WithGrad(g))
	for k, want := range c.Grads {
		i, err := strconv.Atoi(k)
		require.NoError(b.t, err)
		require.NotNil(b.t, leaves[i].Grad(), "gradient %s", k)
		requireNear(b.t, want.floats(), b.read(leaves[i].Grad()), 1e-5, 1e-6, "gradient "+k)
	}
}
