package optim

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// GradReport is what one read of gradients tells.
type GradReport struct {
	// Norm is the norm of all together; in float64, in one fixed order.
	Norm float64
	// Params is how many of the parameters have a gradient.
	Params int
	// NonFinite lists the gradients that hold NaN or Inf, in the order of the parameters.
	NonFinite []NonFinite
}

// NonFinite is a gradient with an element that is NaN or Inf, the first of which is Value.
type NonFinite struct {
	Param *autograd.Param
	Index int
	Value float64
}

// MeasureGrads reads the gradients of params once, and tells their norm and which are not finite. It changes nothing, takes
// the scratch of ClipGradNorm and refuses what that refuses. In a dry run it sees zeros.
func MeasureGrads(s *autograd.Scope, params []*autograd.Param) (GradReport, error) {
	c := clipper{}
	err := c.gather(s, params)
	if err == nil && len(c.due) > 0 {
		err = c.measure(s)
	}
	r := GradReport{Norm: c.norm, Params: len(c.due)}
	if err == nil && !finite(c.norm) {
		r.NonFinite, err = c.bad()
	}
	if err != nil {
		return GradReport{}, fmt.Errorf("optim: MeasureGrads: %w", err)
	}
	return r, nil
}

// bad lists the gradients that are not finite, of those whose norm is not.
func (c *clipper) bad() (list []NonFinite, err error) {
	for _, p := range c.due {
		if finite(c.norms[p]) {
			continue
		}
		g, err := p.FetchGrad()
		if err != nil {
			return nil, err
		}
		if at := firstNonFinite(&g); at >= 0 {
			list = append(list, NonFinite{p, at, element(&g, at)})
		}
		g.Release()
	}
	return list, nil
}

// element is number i of a contiguous tensor.
func element(t *tensor.Tensor, i int) float64 {
	switch t.DType() {
	case tensor.Float32:
		return float64(tensor.Data[float32](t)[i])
	case tensor.Float64:
		return tensor.Data[float64](t)[i]
	}
	var wide [1]float32
	operand.HalfOf(t.DType()).Widen(wide[:], bits(t, i, 1))
	return float64(wide[0])
}

func clipTo(t *tensor.Tensor, lo, hi int, limit float64) {
	switch t.DType() {
	case tensor.Float32:
		kernel.ClipTo(piece[float32](t, lo, hi), float32(limit))
	case tensor.Float64:
		kernel.ClipTo(piece[float64](t, lo, hi), limit)
	default:
		operand.HalfOf(t.DType()).ClipTo(bits(t, lo, hi-lo), float32(limit))
	}
}

func finite(x float64) bool { return x-x == 0 }

func multiply(t *tensor.Tensor, lo, hi int, k float64) {
	switch t.DType() {
	case tensor.Float32:
		kernel.Multiply(piece[float32](t, lo, hi), float32(k))
	case tensor.Float64:
		kernel.Multiply(piece[float64](t, lo, hi), k)
	default:
		operand.HalfOf(t.DType()).Multiply(bits(t, lo, hi-lo), float32(k))
	}
}

func firstNonFinite(t *tensor.Tensor) int {
	switch t.DType() {
	case tensor.Float32:
		return kernel.FirstNonFinite(tensor.Data[float32](t))
	case tensor.Float64:
		return kernel.FirstNonFinite(tensor.Data[float64](t))
	}
	return operand.HalfOf(t.DType()).FirstNonFinite(bits(t, 0, t.Elems()))
}
