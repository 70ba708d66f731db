package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// cumsum along one dimension: y[i] = x[0] + ... + x[i].
//
//	dx[i] = g[i] + ... + g[n-1]
//
// Saved: nothing.

// CumSum gives the running sums of x along dim, which may be negative, of x's shape. x is of a float dtype. Nothing is
// saved.
func CumSum(s *autograd.Scope, x *autograd.Value, dim int) *autograd.Value {
	return autograd.Apply(s, cumSumOp{dim}, x)
}

type cumSumOp struct{ dim int }

var cumSumRule = &autograd.Rule{Name: "cumsum", Cast: autograd.CastFull}

func (cumSumOp) Rule() *autograd.Rule { return cumSumRule }

func (o cumSumOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	l, err := linesOf(in[0].Shape, o.dim)
	if err != nil {
		return err
	}
	sh.Like(in[0])
	sh.Chunks = l.Chunks()
	sh.BwdChunks = sh.Chunks
	return wantFloats(in[0])
}

func (o cumSumOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), cumSumForward[float32], cumSumForward[float64])(o, f)
}

func cumSumForward[T kernel.Float](o cumSumOp, f *autograd.Fwd) {
	l, _ := linesOf(f.In[0].Shape(), o.dim) // Infer has checked it
	x, y := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0])
	f.Par(l.Chunks(), func(_, c int) { kernel.CumSum(l, y, false, x, false, c) })
}

func (o cumSumOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, cumSumBackward[float32], cumSumBackward[float64])(o, b)
}

func cumSumBackward[T kernel.Float](o cumSumOp, b *autograd.Bwd) {
	l, _ := linesOf(b.InSpec(0).Shape, o.dim)
	dst, add := b.Into(0)
	dx, g := tensor.Data[T](dst), tensor.Data[T](b.Grad(0))
	b.Par(l.Chunks(), func(_, c int) { kernel.CumSum(l, dx, add, g, true, c) })
}
