package ops_test

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

// overTwice makes a value that nobody else holds, 2x, and writes over it: a leaf must not be.
func overTwice(f func(s *autograd.Scope, x value) value) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value { return f(s, ops.Add(s, in[0], in[0])) })
}

// refTwice is the reference of f on 2x.
func refTwice(f func([]array) []array) func([]array) []array {
	return func(in []array) []array { return f([]array{times(in[0], 2)}) }
}

var factors = []float64{3, -2, 0.5}

// inPlaceRows are the ops that write over their input; AddInPlace is among the basic ones.
var inPlaceRows = []row{
	{
		name: "mul_", entry: "MulInPlace",
		call: overTwice(func(s *autograd.Scope, x value) value {
			c := constant(s, x.DType(), factors)
			defer s.Free(c)
			return ops.MulInPlace(s, x, c)
		}),
		want: refTwice(want1(func(in []array) array {
			y := newArray(in[0].shape...)
			for i, v := range in[0].data {
				y.data[i] = v * factors[i%len(factors)]
			}
			return y
		})),
		in:    []arg{floats(4, 3)},
		large: []arg{floats(9000, 3)},
		keeps: "b", bytes: 3 * 4,
	},
	{
		name: "relu_", entry: "ReLUInPlace", call: overTwice(ops.ReLUInPlace), want: refTwice(want1(refMap(reluOf))),
		in:    []arg{floats(3, 7)},
		large: []arg{floats(300, 201)},
		keeps: "mask", bytes: 3,
	},
	{
		name: "dropout_", entry: "DropoutInPlace",
		call:  overTwice(func(s *autograd.Scope, x value) value { return ops.DropoutInPlace(s, x, 0.3) }),
		want:  refTwice(refDropout(0.3)),
		in:    []arg{floats(3, 7)},
		large: []arg{floats(300, 201)},
	},
	{
		name: "zero_", entry: "Zero", call: overTwice(ops.Zero),
		want:  want1(func(in []array) array { return newArray(in[0].shape...) }),
		in:    []arg{floats(3, 7)},
		large: []arg{floats(300, 201)},
	},
}
