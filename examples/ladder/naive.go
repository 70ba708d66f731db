package main

import (
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
)

// The models as one would write them from elementary operations, each of which keeps for backward what it reads: to see what
// the composite ones spare. The parameters and the result, up to rounding, are those of the library's own.

// naiveBlock runs a transformer block: y = x + attention(norm(x)), y + mlp(norm(y)).
func naiveBlock(s *autograd.Scope, b *nn.Block, x *autograd.Value) *autograd.Value {
	y := s.Do("attention", func(s *autograd.Scope) *autograd.Value {
		return ops.Add(s, naiveAttention(s, b.MultiHeadAttention, naiveNorm(s, b.LN1, x)), x)
	})
	return s.Do("mlp", func(s *autograd.Scope) *autograd.Value {
		return ops.Add(s, b.Out.Forward(s, naiveGELU(s, b.FC.Forward(s, naiveNorm(s, b.LN2, y)))), y)
	})
}

// naiveAttention holds the scores of all pairs of tokens [B H T T], several times.
func naiveAttention(s *autograd.Scope, m *nn.MultiHeadAttention, x *autograd.Value) *autograd.Value {
	heads := func(x *autograd.Value) *autograd.Value { // [B T C] to [B H T D]
		return ops.Transpose(s, ops.Reshape(s, x, x.Dim(0), x.Dim(1), m.Heads, x.Dim(2)/m.Heads), 1, 2)
	}
	parts := ops.Split(s, m.QKV.Forward(s, x), -1, 3)
	q, k, v := heads(parts[0]), heads(parts[1]), heads(parts[2])
	scores := ops.MulScalar(s, ops.MatMul(s, q, ops.Transpose(s, k, -2, -1)), 1/math.Sqrt(float64(q.Dim(-1))))
	y := ops.Transpose(s, ops.MatMul(s, naiveSoftmax(s, scores, m.Causal), v), 1, 2)
	return m.Proj.Forward(s, ops.Reshape(s, y, x.Dim(0), x.Dim(1), x.Dim(2)))
}

// naiveSoftmax is exp(x - max) / sum over the last dimension. If causal, row i has columns up to i only.
func naiveSoftmax(s *autograd.Scope, x *autograd.Value, causal bool) *autograd.Value {
	e := ops.Exp(s, ops.Sub(s, x, ops.AMax(s.NoGrad(), x, ops.Over(-1).Keep())))
	if causal {
		e = ops.Tril(s, e, 0)
	}
	return ops.Div(s, e, ops.Sum(s, e, ops.Over(-1).Keep()))
}

// naiveNorm is layer norm: (x - mean) / sqrt(variance + eps) * weight + bias.
func naiveNorm(s *autograd.Scope, ln *nn.LayerNorm, x *autograd.Value) *autograd.Value {
	d := ops.Sub(s, x, ops.Mean(s, x, ops.Over(-1).Keep()))
	variance := ops.Mean(s, ops.Square(s, d), ops.Over(-1).Keep())
	n := ops.Mul(s, d, ops.Rsqrt(s, ops.AddScalar(s, variance, nn.DefaultLayerNormEps)))
	return ops.Add(s, ops.Mul(s, n, ln.Weight.Value()), ln.Bias.Value())
}

// naiveGELU is the tanh form: x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 (Hendrycks and Gimpel, 2016).
func naiveGELU(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	cube := ops.Mul(s, ops.Mul(s, x, x), x)
	inner := ops.MulScalar(s, ops.Add(s, x, ops.MulScalar(s, cube, 0.044715)), math.Sqrt(2/math.Pi))
	return ops.MulScalar(s, ops.Mul(s, x, ops.AddScalar(s, ops.Tanh(s, inner), 1)), 0.5)
}

// naiveLoss is the mean of -log softmax(logits)[target].
func naiveLoss(s *autograd.Scope, logits, targets *autograd.Value) *autograd.Value {
	p := naiveSoftmax(s, logits, false)
	right := ops.Gather(s, p, -1, ops.Unsqueeze(s, targets, -1))
	return ops.Neg(s, ops.Mean(s, ops.Log(s, right)))
}

// naively has the model run its blocks so.
func naively(model any) {
	wrap := func(blocks []*nn.Block) nn.Wrapper {
		return func(s *autograd.Scope, i int, x *autograd.Value, _ nn.Forward) *autograd.Value {
			return naiveBlock(s, blocks[i], x)
		}
	}
	switch m := model.(type) {
	case *nn.ViT:
		m.Wrap = wrap(m.Blocks)
	case *nn.GPT:
		m.Wrap = wrap(m.Blocks)
	}
}
