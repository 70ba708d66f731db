package autograd

import (
	"github.com/thimble-ml/thimble/tensor"
)

// CastClass is what autocast makes of an op. Each op's file states its own; docs/dtypes.md lists them.
type CastClass uint8

// The classes. Inputs of other dtypes than Float32 and the half types are never touched, and an op with a Float64 input
// runs as if autocast was off.
const (
	// CastKeep: the op computes in float32 and gives the dtype of its first input. Softmax, norms and activations.
	CastKeep CastClass = iota
	// CastLow: inputs in float32 are rounded to the policy's dtype, and so is the result. Matrix products, convolution,
	// attention. A value is rounded by an op of its own, recorded before, so that what is saved is the rounded one; a
	// parameter is rounded as it is used, and only its name and version are saved.
	CastLow
	// CastFull: the op computes in float32 and gives Float32. Losses, exponentials and logarithms, powers, sums and norms.
	CastFull
	// CastWidest: inputs of a half type meet one in float32 as float32, and the result is Float32. Binary operations, cat,
	// stack, where.
	CastWidest
)

// CastPolicy is what autocast rounds to: Low is Float16 or BFloat16. The zero value is no autocast.
type CastPolicy struct{ Low tensor.DType }

// On tells whether the policy rounds at all.
func (p CastPolicy) On() bool { return isHalf(p.Low) }

// castInputs gives the inputs of op under the policy: those that the op wants in another dtype go through a recorded cast.
// It gives a copy, or the caller's arguments would be on Go's heap in every call, and the casts that it made.
func (s *Scope) castInputs(op Op, in []*Value) (out, made []*Value) {
	out = append([]*Value(nil), in...)
	to := s.castTo(op, out)
	if to == nil {
		return out, nil
	}
	for i, v := range out {
		if dt := to(v); dt != v.DType() {
			out[i] = Cast(s.with(func(m *Modes) { m.Cast = CastPolicy{} }), v, dt)
			made = append(made, out[i])
		}
	}
	return out, made
}

// castTo gives the dtype that each input is cast to, or nil if none is.
func (s *Scope) castTo(op Op, in []*Value) func(*Value) tensor.DType {
	single, half := false, false
	for _, v := range in {
		if v == nil || v.DType() == tensor.Float64 {
			return nil
		}
		single = single || v.DType() == tensor.Float32
		half = half || isHalf(v.DType())
	}
	_, joins := op.(Joiner)
	switch class := op.Rule().Cast; {
	case class == CastLow && (single || half) && !op.Rule().InPlace:
		return func(v *Value) tensor.DType {
			if v.par == nil && (v.DType() == tensor.Float32 || isHalf(v.DType())) {
				return s.m.Cast.Low
			}
			return v.DType()
		}
	case joins && single && half:
		return func(v *Value) tensor.DType {
			if isHalf(v.DType()) {
				return tensor.Float32
			}
			return v.DType()
		}
	}
	return nil
}

// endCasts lets go of the casts that castInputs made.
func (s *Scope) endCasts(made []*Value) {
	for _, v := range made {
		if !v.gone() {
			s.Free(v)
		}
	}
}
