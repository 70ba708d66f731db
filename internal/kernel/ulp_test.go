package kernel_test

import (
	"math"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

// ulpStride leaves a million numbers, of all binades; tag long takes 37.
var ulpStride uint64 = 4099

func mapOf(f kernel.Unary) func(y, x []float32) {
	return func(y, x []float32) {
		shape := []int{len(x)}
		kernel.Map(f, unaryConstants[f], kernel.Contiguous(y, shape), kernel.Contiguous(x, shape), 0, len(x))
	}
}

func slopeOf(f kernel.Unary) func(y, x []float32) {
	return func(y, x []float32) {
		shape := []int{len(x)}
		kernel.MapBackward(f, unaryConstants[f], kernel.Contiguous(y, shape), false, kernel.Contiguous(ones(len(x)), shape), kernel.Contiguous(x, shape), 0, len(x))
	}
}

func ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// logistic, with the digits of what is small.
func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// softplus ends where torch's does.
func softplus(x float64) float64 {
	if x > 20 {
		return x
	}
	return math.Log1p(math.Exp(x))
}

// Whatever float32 comes.
func TestULP(t *testing.T) {
	two, activation := kerneltest.Precision{Units: 2}, kerneltest.Precision{Units: 4, Distance: 1e-6}
	k := math.Sqrt(2 / math.Pi)
	for _, f := range []struct {
		name string
		p    kerneltest.Precision
		f    func(y, x []float32)
		want func(x float64) float64
	}{
		{"exp", two, mapOf(kernel.UnaryExp), math.Exp},
		{"log", two, mapOf(kernel.UnaryLog), math.Log},
		{"sqrt", two, mapOf(kernel.UnarySqrt), math.Sqrt},
		{"rsqrt", two, mapOf(kernel.UnaryRsqrt), func(x float64) float64 { return 1 / math.Sqrt(x) }},
		{"reciprocal", two, mapOf(kernel.UnaryReciprocal), func(x float64) float64 { return 1 / x }},
		{"tanh", two, mapOf(kernel.UnaryTanh), math.Tanh},
		{"sigmoid", two, mapOf(kernel.UnarySigmoid), logistic},
		{"silu", kerneltest.Precision{Units: 3}, mapOf(kernel.UnarySiLU), func(x float64) float64 { return x / (1 + math.Exp(-x)) }},
		{"silu'", activation, slopeOf(kernel.UnarySiLU), func(x float64) float64 {
			s := logistic(x)
			return s * (1 + x*logistic(-x))
		}},
		{"sin", two, mapOf(kernel.UnarySin), math.Sin},
		{"sin'", activation, slopeOf(kernel.UnarySin), math.Cos},
		{"cos", two, mapOf(kernel.UnaryCos), math.Cos},
		{"cos'", activation, slopeOf(kernel.UnaryCos), func(x float64) float64 { return -math.Sin(x) }},
		{"erf", two, mapOf(kernel.UnaryErf), math.Erf},
		{"erf'", activation, slopeOf(kernel.UnaryErf), func(x float64) float64 { return 2 / math.SqrtPi * math.Exp(-x*x) }},
		{"softplus", two, mapOf(kernel.UnarySoftplus), softplus},
		{"softplus'", activation, slopeOf(kernel.UnarySoftplus), func(x float64) float64 {
			if x > 20 {
				return 1
			}
			return logistic(x)
		}},
		{"elu", two, mapOf(kernel.UnaryELU), func(x float64) float64 {
			if x > 0 {
				return x
			}
			return 0.7 * math.Expm1(x)
		}},
		{"elu'", activation, slopeOf(kernel.UnaryELU), func(x float64) float64 {
			if x > 0 {
				return 1
			}
			return 0.7 * math.Exp(x)
		}},
		{"pow", two, mapOf(kernel.UnaryPow), func(x float64) float64 { return math.Pow(x, 2.5) }},
		{"pow'", activation, slopeOf(kernel.UnaryPow), func(x float64) float64 { return 2.5 * math.Pow(x, 1.5) }},
		{"gelu", activation, kernel.GELU[float32], func(x float64) float64 { return x * math.Erfc(-x/math.Sqrt2) / 2 }},
		{"gelu'", activation, func(y, x []float32) { kernel.GELUBackward(y, false, ones(len(x)), x) }, func(x float64) float64 {
			return math.Erfc(-x/math.Sqrt2)/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		}},
		{"gelu_tanh", activation, kernel.GELUTanh[float32], func(x float64) float64 { return x * logistic(2*k*(x+0.044715*x*x*x)) }},
		{"gelu_tanh'", activation, func(y, x []float32) { kernel.GELUTanhBackward(y, false, ones(len(x)), x) }, func(x float64) float64 {
			u := 2 * k * (x + 0.044715*x*x*x)
			return logistic(u) * (1 + x*logistic(-u)*2*k*(1+3*0.044715*x*x))
		}},
	} {
		t.Run(f.name, func(t *testing.T) {
			eachFamily(t, func(t *testing.T) {
				t.Logf("%.2f units in the last place", kerneltest.ULP(t, f.name, f.p, ulpStride, f.f, f.want))
			})
		})
	}
}
