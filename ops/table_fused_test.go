package ops_test

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

// fusedForm is a linear layer and what follows it: as one function, as two ops, and by formula. in are x, weight, bias and,
// for some, what else the second reads.
type fusedForm struct {
	name     string
	rule     string
	more     bool
	call     func(s *autograd.Scope, in []value) value
	composed func(s *autograd.Scope, in []value) value
	formula  func(product, with float64) float64
}

// activated is LinearActivation.
func activated(name string, act ops.Activation, op func(*autograd.Scope, value) value, f func(float64) float64) fusedForm {
	return fusedForm{
		name: name, rule: "linear_activation",
		call: func(s *autograd.Scope, in []value) value { return ops.LinearActivation(s, in[0], in[1], in[2], act) },
		composed: func(s *autograd.Scope, in []value) value {
			h := linear(s, in)
			y := op(s, h)
			if act != ops.ActReLU {
				s.Free(h)
			}
			return y
		},
		formula: func(p, _ float64) float64 { return f(p) },
	}
}

var fusedForms = []fusedForm{
	activated("relu", ops.ActReLU, ops.ReLUInPlace, reluOf),
	activated("gelu", ops.ActGELU, ops.GELU, geluOf),
	activated("gelu_tanh", ops.ActGELUTanh, ops.GELUTanh, geluTanhOf),
	activated("silu", ops.ActSiLU, ops.SiLU, siluOf),
	{
		name: "add", rule: "linear_add", more: true,
		call: func(s *autograd.Scope, in []value) value { return ops.LinearAdd(s, in[0], in[1], in[2], in[3]) },
		composed: func(s *autograd.Scope, in []value) value {
			h := linear(s, in[:3])
			if h.DType() == in[3].DType() {
				return ops.AddInPlace(s, h, in[3])
			}
			y := ops.Add(s, h, in[3])
			s.Free(h)
			return y
		},
		formula: func(p, r float64) float64 { return p + r },
	},
	{
		name: "swiglu", rule: "linear_swiglu", more: true,
		call: func(s *autograd.Scope, in []value) value { return ops.LinearSwiGLU(s, in[0], in[1], in[2], in[3]) },
		composed: func(s *autograd.Scope, in []value) value {
			h := linear(s, in[:3])
			y := ops.SwiGLU(s, in[3], h)
			s.Free(h)
			return y
		},
		formula: func(p, gate float64) float64 { return siluOf(gate) * p },
	},
}

// args are inputs of a form for x [... k] and n features.
func (f *fusedForm) args(n int, x ...int) []arg {
	k := x[len(x)-1]
	in := []arg{floats(x...), floats(n, k), floats(n)}
	if f.more {
		in = append(in, floats(append(append([]int{}, x[:len(x)-1]...), n)...))
	}
	return in
}

// fusedRows call the forms without gradients: with them they are other ops.
var fusedRows = func() (rows []row) {
	entries := map[string]string{"linear_activation": "LinearActivation", "linear_add": "LinearAdd", "linear_swiglu": "LinearSwiGLU"}
	for _, f := range fusedForms {
		rows = append(rows, row{
			name: f.rule + "/" + f.name, entry: entries[f.rule] + ", without gradients", unrecorded: true,
			call: one(func(s *autograd.Scope, in []value) value { return f.call(s.NoGrad(), in) }),
			want: want1(func(in []array) array {
				y := refLinear(in[:3])
				for i, p := range y.data {
					with := 0.0
					if f.more {
						with = in[3].data[i]
					}
					y.data[i] = f.formula(p, with)
				}
				return y
			}),
			in:    f.args(4, 2, 3, 5),
			large: f.args(300, 3, 70, 210),
		})
	}
	return rows
}()
