package ops_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// torchCase is a case of testdata/torch.json, values that PyTorch computed.
type torchCase struct {
	Name, Op   string
	Attrs      map[string]any
	Inputs     []torchTensor
	Output     torchTensor
	GradOutput *torchTensor `json:"grad_output"`
	Grads      map[string]torchTensor
}

type torchTensor struct {
	Shape []int
	DType string
	Data  []number
}

// number is a JSON number, or "nan", "inf", "-inf".
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	var s any
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(fmt.Sprint(s), 64)
	*n = number(v)
	return err
}

func (t torchTensor) array() array {
	a := newArray(t.Shape...)
	for i, v := range t.Data {
		a.data[i] = float64(v)
	}
	return a
}

// torchCall gives the op of a case.
func torchCall(c *torchCase) func(*autograd.Scope, []value) []value {
	number := func(name string) float64 { v, _ := c.Attrs[name].(float64); return v }
	switch c.Op {
	case "add":
		return one(add)
	case "linear":
		return one(linear)
	case "matmul":
		return one(matMul)
	case "matmul_tn":
		return one(func(s *autograd.Scope, in []value) value {
			return ops.MatMul(s, autograd.Apply(s, transposeOp{}, in[0]), in[1])
		})
	case "matmul_nt":
		return one(func(s *autograd.Scope, in []value) value {
			return ops.MatMul(s, in[0], autograd.Apply(s, transposeOp{}, in[1]))
		})
	case "relu":
		return unary(ops.ReLU)
	case "gelu":
		if c.Attrs["approximate"] == "tanh" {
			return unary(ops.GELUTanh)
		}
		return unary(ops.GELU)
	case "layer_norm":
		return layerNorm(1, number("eps"))
	case "cross_entropy":
		return one(crossEntropy)
	case "embedding":
		return one(embedding)
	case "slice":
		return slice(int(number("dim")), int(number("start")), int(number("end")))
	}
	panic("no call for " + c.Op)
}

// The values of testdata/torch.json, within 1e-5 relative and 1e-6 absolute.
func TestTorch(t *testing.T) {
	b, err := os.ReadFile("testdata/torch.json")
	require.NoError(t, err)
	var file struct{ Cases []torchCase }
	require.NoError(t, json.Unmarshal(b, &file))
	require.Equal(t, 31, len(file.Cases))
	for i := range file.Cases {
		t.Run(file.Cases[i].Name, func(t *testing.T) { checkTorch(t, &file.Cases[i]) })
	}
}

func checkTorch(t *testing.T, c *torchCase) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	var in []*tensor.Tensor
	for _, x := range c.Inputs {
		dt, err := tensor.ParseDType(x.DType)
		require.NoError(t, err)
		in = append(in, r.tensor(x.array(), dt))
		defer in[len(in)-1].Release()
	}
	r.ok(func(s *autograd.Scope) {
		leaves := make([]value, len(in))
		for i, x := range in {
			if leaves[i] = s.Input(x); x.DType().IsFloat() {
				leaves[i].RequireGrad()
			}
		}
		y := torchCall(c)(s, leaves)[0]
		require.NoError(t, near(c.Output.array(), read(y.Tensor()), 1e-5, 1e-6))
		if c.GradOutput == nil {
			require.True(t, math.IsNaN(float64(c.Output.Data[0])))
			return
		}
		g := r.tensor(c.GradOutput.array(), tensor.Float32)
		defer g.Release()
		y.Backward(s, autograd.WithGrad(g))
		for k, want := range c.Grads {
			i, err := strconv.Atoi(k)
			require.NoError(t, err)
			require.NoError(t, near(want.array(), read(leaves[i].Grad()), 1e-5, 1e-6), "gradient %s", k)
		}
	})
}
