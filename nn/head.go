package nn

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

// The end of a language model: the last norm, the logits, the loss.

// normed gives norm(x) and frees x.
func normed(s *autograd.Scope, name string, norm Module, x *autograd.Value) *autograd.Value {
	h := norm.Forward(s.Named(name), x)
	s.Free(x)
	return h
}

// logits gives h w^T and frees h.
func logits(s *autograd.Scope, h *autograd.Value, w *autograd.Param) *autograd.Value {
	y := ops.Linear(s.Named("head"), h, w.Value(), nil)
	s.Free(h)
	return y
}

// lossOf is the loss of what hidden gives: by the fused head, or if plain from all logits at once.
func lossOf(s *autograd.Scope, name string, plain bool, hidden func(*autograd.Scope) *autograd.Value, w *autograd.Param, targets *autograd.Value) *autograd.Value {
	return s.Do("loss", func(s *autograd.Scope) *autograd.Value {
		if plain {
			y := s.Do(name, func(s *autograd.Scope) *autograd.Value { return logits(s, hidden(s), w) })
			return ops.CrossEntropy(s, y, targets)
		}
		return ops.LinearCrossEntropy(s.Named("head"), s.Do(name, hidden), w.Value(), nil, targets)
	})
}
