package autograd

import (
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// How kernels see a tensor: where it lies, expanded, or as a copy. What they see of half types is in halves.go.

// asIs tells of the inputs that any kernel takes where they lie: what operand would give, known at once.
func (w *work) asIs(t *tensor.Tensor) bool {
	return t.IsContiguous() && !w.sight.wide && (!w.rule.Broadcast || t.Spec().SameShape(w.sh.Out[0]))
}

// operand gives t, which is input i, as the kernels of op want it: of their dtype, expanded, strided, or contiguous, by
// copies listed in temps.
func (ss *Session) operand(op Op, st *sight, t *tensor.Tensor, par bool, i int, in, outs []tensor.Spec, temps *[]tensor.Tensor, site memory.Site) (tensor.Tensor, error) {
	if st.converts(t.DType(), par) {
		c, err := ss.converted(st, t, temps, site)
		if err != nil || !op.Rule().Broadcast {
			return c, err
		}
		return ss.expanded(&c, outs[0].Shape), nil
	}
	switch {
	case op.Rule().Broadcast:
		return ss.expanded(t, outs[0].Shape), nil
	case st.tile:
		return *t, nil
	case takes(op, t, i, in):
		return *t, nil
	}
	return ss.contiguous(t, temps, site)
}

// expanded is t broadcast to shape. Strides are cut from a common array, whose parts are never used twice.
func (ss *Session) expanded(t *tensor.Tensor, shape []int) tensor.Tensor {
	if t.Spec().SameShape(tensor.Spec{Shape: shape}) {
		return *t
	}
	if len(ss.strides) < len(shape) {
		ss.strides = make([]int, 256+len(shape))
	}
	strides := ss.strides[:len(shape):len(shape)]
	ss.strides = ss.strides[len(shape):]
	return t.BroadcastWith(shape, strides)
}

// takes tells whether the kernels of op work on t, as input i or its gradient, where it lies.
func takes(op Op, t *tensor.Tensor, i int, in []tensor.Spec) bool {
	if t.IsContiguous() || op.Rule().Strided {
		return true
	}
	k, ok := op.(Taker)
	return ok && k.Takes(in, i, t)
}

// contiguous gives a contiguous copy of t, listed in temps.
func (ss *Session) contiguous(t *tensor.Tensor, temps *[]tensor.Tensor, site memory.Site) (tensor.Tensor, error) {
	c, err := tensor.Make(ss.dev, memory.Temporary, site, t.Spec())
	if err != nil {
		return c, err
	}
	*temps = append(*temps, c)
	ss.copyTo(&c, t)
	return c, nil
}
