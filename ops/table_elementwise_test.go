package ops_test

import (
	"math"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Inputs of the kinds that element-wise functions ask for.

func truths(shape ...int) arg { return arg{shape: shape, dt: tensor.Bool, below: 2} }

// positive numbers of order one, away from 0.
func positive(shape ...int) arg {
	return changed(func(v float64) float64 { return math.Abs(v) + 0.5 }, shape)
}

// away from 0, on both sides.
func away(shape ...int) arg {
	return changed(func(v float64) float64 { return v + math.Copysign(0.5, v) }, shape)
}

// few whole numbers, so that many are equal.
func few(shape ...int) arg { return changed(math.Round, shape) }

func changed(f func(float64) float64, shape []int) arg {
	a := floats(shape...)
	a.set = a.values(uint64(10 + len(shape))).data // others than those of floats, and of other ranks
	for i, v := range a.set {
		a.set[i] = float64(float32(f(v)))
	}
	return a
}

// Calls and references.

func binary(f func(s *autograd.Scope, a, b value) value) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value { return f(s, in[0], in[1]) })
}

func ref2(f func(a, b float64) float64) func([]array) []array {
	return want1(func(in []array) array {
		return each(broadcast(in[0].shape, in[1].shape), func(idx []int) float64 { return f(in[0].at(idx...), in[1].at(idx...)) })
	})
}

// refTruth is 1 or 0.
func refTruth(f func(a, b float64) bool) func([]array) []array {
	return ref2(func(a, b float64) float64 {
		if f(a, b) {
			return 1
		}
		return 0
	})
}

// withScalar gives a call of an op with a constant.
func withScalar(f func(s *autograd.Scope, x value, c float64) value, c float64) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return f(s, x, c) })
}

func clamp(lo, hi float64) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return ops.Clamp(s, x, lo, hi) })
}

func where(s *autograd.Scope, in []value) value { return ops.Where(s, in[0], in[1], in[2]) }

func refWhere(in []array) array {
	shape := broadcast(broadcast(in[0].shape, in[1].shape), in[2].shape)
	return each(shape, func(idx []int) float64 {
		if in[0].at(idx...) != 0 {
			return in[1].at(idx...)
		}
		return in[2].at(idx...)
	})
}

func maskedFill(v float64) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value { return ops.MaskedFill(s, in[0], in[1], v) })
}

func refMaskedFill(v float64) func([]array) []array {
	return want1(func(in []array) array { return refWhere([]array{in[1], {nil, []float64{v}}, in[0]}) })
}

// castUp is the cast that gradcheck can check: float32 to float64. (The other one is TestCast's.)
func castUp(s *autograd.Scope, x value) value {
	if x.DType() == tensor.Float64 {
		return ops.MulScalar(s, x, 1)
	}
	return ops.Cast(s, x, tensor.Float64)
}

func sigmoidOf(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
func siluOf(v float64) float64    { return v * sigmoidOf(v) }

func leakyOf(slope float64) func(float64) float64 {
	return func(v float64) float64 { return math.Max(v, 0) + slope*math.Min(v, 0) }
}

func eluOf(alpha float64) func(float64) float64 {
	return func(v float64) float64 { return math.Max(v, 0) + alpha*math.Expm1(math.Min(v, 0)) }
}

func powOf(e float64) func(float64) float64 {
	return func(v float64) float64 { return math.Pow(v, e) }
}

func clampOf(lo, hi float64) func(float64) float64 {
	return func(v float64) float64 { return math.Min(math.Max(v, lo), hi) }
}

// ownWay names the rows whose op goes a way of its own through shapes and chunks: only they have rows for odd shapes, and
// large inputs. (The kernels' suites cut all functions into chunks.)
var ownWay = []string{"sub", "mul", "div", "exp", "square", "mul_scalar", "leaky_relu", "clamp", "cast", "eq", "gt"}

// thin leaves the first row alone, without large inputs, unless it has a way of its own.
func thin(rows []row) []row {
	if slices.Contains(ownWay, rows[0].name) {
		return rows
	}
	rows[0].large = nil
	return rows[:1]
}

// elementwiseRows are arithmetic, functions of one operand, comparisons, choices and casts.
var elementwiseRows = slices.Concat(
	arithmeticRows("sub", "Sub", ops.Sub, func(a, b float64) float64 { return a - b }, ""),
	arithmeticRows("mul", "Mul", ops.Mul, func(a, b float64) float64 { return a * b }, "a, b"),
	arithmeticRows("div", "Div", ops.Div, func(a, b float64) float64 { return a / b }, "a, b"),
	arithmeticRows("maximum", "Maximum", ops.Maximum, math.Max, "a, b"),
	arithmeticRows("minimum", "Minimum", ops.Minimum, math.Min, "a, b"),
	mapRows("exp", "Exp", unary(ops.Exp), math.Exp, floats, "y"),
	mapRows("log", "Log", unary(ops.Log), math.Log, positive, "x"),
	mapRows("sqrt", "Sqrt", unary(ops.Sqrt), math.Sqrt, positive, "y"),
	mapRows("rsqrt", "Rsqrt", unary(ops.Rsqrt), powOf(-0.5), positive, "y"),
	mapRows("reciprocal", "Reciprocal", unary(ops.Reciprocal), powOf(-1), away, "y"),
	mapRows("square", "Square", unary(ops.Square), powOf(2), floats, "x"),
	mapRows("abs", "Abs", unary(ops.Abs), math.Abs, floats, "x"),
	mapRows("neg", "Neg", unary(ops.Neg), func(v float64) float64 { return -v }, floats, ""),
	mapRows("sin", "Sin", unary(ops.Sin), math.Sin, floats, "x"),
	mapRows("cos", "Cos", unary(ops.Cos), math.Cos, floats, "x"),
	mapRows("erf", "Erf", unary(ops.Erf), math.Erf, floats, "x"),
	mapRows("tanh", "Tanh", unary(ops.Tanh), math.Tanh, floats, "y"),
	mapRows("sigmoid", "Sigmoid", unary(ops.Sigmoid), sigmoidOf, floats, "y"),
	mapRows("silu", "SiLU", unary(ops.SiLU), siluOf, floats, "x"),
	mapRows("softplus", "Softplus", unary(ops.Softplus), func(v float64) float64 { return math.Log1p(math.Exp(v)) }, floats, "x"),
	mapRows("elu", "ELU", withScalar(ops.ELU, 1.5), eluOf(1.5), floats, "x"),
	mapRows("leaky_relu", "LeakyReLU", withScalar(ops.LeakyReLU, 0.1), leakyOf(0.1), floats, "bits"),
	mapRows("clamp", "Clamp", clamp(-0.5, 0.75), clampOf(-0.5, 0.75), floats, "bits"),
	mapRows("pow", "PowScalar", withScalar(ops.PowScalar, 2.5), powOf(2.5), positive, "x"),
	mapRows("add_scalar", "AddScalar", withScalar(ops.AddScalar, 1.5), func(v float64) float64 { return v + 1.5 }, floats, ""),
	mapRows("mul_scalar", "MulScalar", withScalar(ops.MulScalar, -1.5), func(v float64) float64 { return -1.5 * v }, floats, ""),
	mapRows("cast", "Cast", unary(castUp), func(v float64) float64 { return v }, floats, ""),
	truthRows("eq", "Eq", ops.Eq, func(a, b float64) bool { return a == b }),
	truthRows("ne", "Ne", ops.Ne, func(a, b float64) bool { return a != b }),
	truthRows("lt", "Lt", ops.Lt, func(a, b float64) bool { return a < b }),
	truthRows("le", "Le", ops.Le, func(a, b float64) bool { return a <= b }),
	truthRows("gt", "Gt", ops.Gt, func(a, b float64) bool { return a > b }),
	truthRows("ge", "Ge", ops.Ge, func(a, b float64) bool { return a >= b }),
	choiceRows,
)

// arithmeticRows keep both inputs, or neither.
func arithmeticRows(name, entry string, f func(s *autograd.Scope, a, b value) value, want func(a, b float64) float64, keeps string) []row {
	kept := func(a, b int64) int64 {
		if keeps == "" {
			return 0
		}
		return (a + b) * 4
	}
	r := func(what string, in, large []arg, bytes int64) row {
		return row{name: name + what, entry: entry, call: binary(f), want: ref2(want), in: in, large: large, keeps: keeps, bytes: bytes}
	}
	return thin([]row{
		r("", []arg{floats(2, 3), away(2, 3)}, []arg{floats(190, 190), away(190, 190)}, kept(6, 6)),
		r("/row", []arg{floats(2, 3, 4), away(4)}, []arg{floats(20, 10, 180), away(10, 180)}, kept(24, 4)),
		r("/column", []arg{floats(2, 4), away(2, 1)}, nil, kept(8, 2)),
		r("/both", []arg{floats(2, 1, 4), away(3, 1)}, []arg{floats(50, 1, 40), away(30, 1)}, kept(8, 3)),
		r("/grown", []arg{floats(4), away(2, 3, 4)}, nil, kept(4, 24)),
		r("/two numbers", []arg{floats(), away()}, nil, kept(1, 1)),
		r("/no elements", []arg{floats(2, 0), away(1)}, nil, kept(0, 1)),
	})
}

// mapRows keep x or y, or one bit an element, or nothing.
func mapRows(name, entry string, call func(*autograd.Scope, []value) []value, want func(float64) float64, in func(...int) arg, keeps string) []row {
	r := func(what string, in arg, large []arg, bytes int64) row {
		switch keeps {
		case "":
			bytes = 0
		case "bits":
			bytes = (bytes/4 + 7) / 8
		}
		return row{name: name + what, entry: entry, call: call, want: want1(refMap(want)), in: []arg{in}, large: large, keeps: keeps, bytes: bytes}
	}
	return thin([]row{
		r("", in(3, 7), []arg{in(190, 191)}, 21*4),
		r("/number", in(), nil, 4),
		r("/no elements", in(0, 3), nil, 0),
	})
}

// truthRows keep nothing, of whatever dtype.
func truthRows(name, entry string, f func(s *autograd.Scope, a, b value) value, want func(a, b float64) bool) []row {
	r := func(what string, in, large []arg) row {
		return row{name: name + what, entry: entry, call: binary(f), want: refTruth(want), in: in, large: large}
	}
	return thin([]row{
		r("", []arg{few(2, 5), few(5)}, []arg{few(190, 190), few(190, 1)}),
		r("/whole", []arg{idx(3, 4, 5), idx(3, 5)}, nil),
		r("/whole32", []arg{idx32(3, 4, 1), idx32(3, 5)}, nil),
		r("/two numbers", []arg{floats(), few()}, nil),
		r("/no elements", []arg{floats(0, 2), few(2)}, nil),
	})
}

var choiceRows = []row{
	{
		name: "logical_and", entry: "And", call: binary(ops.And), want: ref2(func(a, b float64) float64 { return a * b }),
		in:    []arg{truths(3, 4), truths(4)},
		large: []arg{truths(190, 190), truths(190, 1)},
	},
	{
		name: "logical_or", entry: "Or", call: binary(ops.Or), want: ref2(math.Max),
		in:    []arg{truths(3, 1), truths(4)},
		large: []arg{truths(190, 190), truths(190, 190)},
	},
	{
		name: "logical_not", entry: "Not", want: want1(refMap(func(v float64) float64 { return 1 - v })), call: unary(ops.Not),
		in:    []arg{truths(3, 4)},
		large: []arg{truths(190, 190)},
	},
	{name: "logical_not/no elements", entry: "Not", want: want1(refMap(math.Abs)), call: unary(ops.Not), in: []arg{truths(0)}},

	{
		name: "where", entry: "Where", call: one(where), want: want1(refWhere),
		in:    []arg{truths(2, 5), floats(2, 5), floats(2, 5)},
		large: []arg{truths(190, 190), floats(190, 190), floats(190, 190)},
		keeps: "cond", bytes: 10,
	},
	{
		name: "where/all repeated", entry: "Where", call: one(where), want: want1(refWhere),
		in:    []arg{truths(3, 1), floats(2, 1, 1), floats(4)},
		large: []arg{truths(30, 1), floats(20, 1, 1), floats(40)},
		keeps: "cond", bytes: 3,
	},
	{
		name: "where/numbers", entry: "Where", call: one(where), want: want1(refWhere),
		in:    []arg{truths(5), floats(), floats()},
		keeps: "cond", bytes: 5,
	},
	{
		name: "where/no elements", entry: "Where", call: one(where), want: want1(refWhere),
		in:    []arg{truths(1), floats(2, 0), floats(1)},
		keeps: "cond", bytes: 1,
	},
	{
		name: "masked_fill", entry: "MaskedFill", call: maskedFill(-7), want: refMaskedFill(-7),
		in:    []arg{floats(2, 3, 4), truths(3, 4)},
		large: []arg{floats(40, 30, 40), truths(30, 40)},
		keeps: "mask", bytes: 12,
	},
	{
		name: "masked_fill/grown", entry: "MaskedFill", call: maskedFill(1), want: refMaskedFill(1),
		in:    []arg{floats(2, 1), truths(3, 1, 4)},
		keeps: "mask", bytes: 12,
	},

	{
		name: "pow/square", entry: "PowScalar", call: withScalar(ops.PowScalar, 2), want: want1(refMap(powOf(2))),
		in:    []arg{floats(3, 7)},
		keeps: "x", bytes: 21 * 4,
	},
	{
		name: "pow/cube", entry: "PowScalar", call: withScalar(ops.PowScalar, 3), want: want1(refMap(powOf(3))),
		in:    []arg{floats(3, 7)},
		keeps: "x", bytes: 21 * 4,
	},
	{
		name: "pow/whole and negative", entry: "PowScalar", call: withScalar(ops.PowScalar, -3), want: want1(refMap(powOf(-3))),
		in:    []arg{away(3, 7)},
		keeps: "x", bytes: 21 * 4,
	},
	{
		name: "pow/0", entry: "PowScalar", call: withScalar(ops.PowScalar, 0), want: want1(refMap(powOf(0))),
		in:    []arg{floats(3, 7)},
		keeps: "x", bytes: 21 * 4,
	},
	{
		name: "clamp/one side", entry: "Clamp", call: clamp(math.Inf(-1), 0.5), want: want1(refMap(clampOf(math.Inf(-1), 0.5))),
		in:    []arg{floats(3, 7)},
		keeps: "bits", bytes: 3,
	},
	{
		name: "leaky_relu/downhill", entry: "LeakyReLU", call: withScalar(ops.LeakyReLU, -0.5), want: want1(refMap(leakyOf(-0.5))),
		in:    []arg{floats(3, 7)},
		keeps: "bits", bytes: 3,
	},

	{
		name: "swiglu", entry: "SwiGLU", call: binary(ops.SwiGLU), want: ref2(func(a, b float64) float64 { return siluOf(a) * b }),
		in:    []arg{floats(2, 3, 4), floats(2, 3, 4)},
		large: []arg{floats(190, 190), floats(190, 190)},
		keeps: "gate, up", bytes: 2 * 24 * 4,
	},
	{
		name: "swiglu/number", entry: "SwiGLU", call: binary(ops.SwiGLU), want: ref2(func(a, b float64) float64 { return siluOf(a) * b }),
		in:    []arg{floats(), floats()},
		keeps: "gate, up", bytes: 8,
	},
	{
		name: "swiglu/no elements", entry: "SwiGLU", call: binary(ops.SwiGLU), want: ref2(func(a, b float64) float64 { return siluOf(a) * b }),
		in:    []arg{floats(0, 3), floats(0, 3)},
		keeps: "gate, up", bytes: 0,
	},
}
