package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// elementwiseEntries are arithmetic, functions of one operand, comparisons, choices and casts.
func elementwiseEntries() []Entry {
	x := []EntryIn{{Name: "x"}}
	ab := []EntryIn{{Name: "a"}, {Name: "b"}}
	truths := []EntryIn{{"a", true}, {"b", true}}
	y := []EntryOut{{Name: "y"}}
	gated := []EntryOut{{Name: "y"}, {"bits", "1 bit an element"}}
	return []Entry{
		{"Sub", subOp, ab, y},
		{"Mul", mulOp, ab, y},
		{"MulInPlace", mulOver, []EntryIn{{Name: "a"}, {"b", true}}, y},
		{"Div", divOp, ab, y},
		{"Maximum", maximumOp, ab, y},
		{"Minimum", minimumOp, ab, y},
		{"AddScalar", &unaryOp{rule: addScalarRule}, x, y},
		{"MulScalar", &unaryOp{rule: mulScalarRule}, x, y},
		{"PowScalar", &unaryOp{rule: powRule}, x, y},
		{"Neg", negOp, x, y},
		{"Abs", absOp, x, y},
		{"Square", squareOp, x, y},
		{"Reciprocal", reciprocalOp, x, y},
		{"Sqrt", sqrtOp, x, y},
		{"Rsqrt", rsqrtOp, x, y},
		{"Exp", expOp, x, y},
		{"Log", logOp, x, y},
		{"Sin", sinOp, x, y},
		{"Cos", cosOp, x, y},
		{"Erf", erfOp, x, y},
		{"Tanh", tanhOp, x, y},
		{"Sigmoid", sigmoidOp, x, y},
		{"SiLU", siluOp, x, y},
		{"SwiGLU", swigluOp{}, []EntryIn{{Name: "gate"}, {Name: "up"}}, y},
		{"Softplus", softplusOp, x, y},
		{"ELU", &unaryOp{rule: eluRule}, x, y},
		{"LeakyReLU", leakyReLUOp{}, x, gated},
		{"Clamp", clampOp{}, x, gated},
		{"Zero", zeroOp{}, x, y},
		{"Where", whereOp{}, []EntryIn{{"cond", true}, {Name: "a"}, {Name: "b"}}, y},
		{"MaskedFill", maskedFillOp{}, []EntryIn{{Name: "x"}, {"mask", true}}, y},
		{"Cast", autograd.CastOp{To: tensor.Float64}, x, y},
		{"Eq", eqOp, truths, y},
		{"Ne", neOp, truths, y},
		{"Lt", ltOp, truths, y},
		{"Le", leOp, truths, y},
		{"Gt", gtOp, truths, y},
		{"Ge", geOp, truths, y},
		{"And", andOp, truths, y},
		{"Or", orOp, truths, y},
		{"Not", notOp, truths[:1], y},
	}
}
