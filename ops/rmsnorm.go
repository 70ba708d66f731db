package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// rms_norm over the last dimension, of C elements (Zhang and Sennrich, "Root mean square layer normalization", 2019):
//
//	xhat = x rstd     rstd = 1/sqrt(mean(x^2) + eps)     y = xhat weight
//
//	dx      = rstd (gw - xhat mean(gw xhat))     gw = g weight
//	dweight = the column sums of g xhat
//
// Saved: x, weight (for dx), and in a hidden output rstd of each row.

// RMSNorm divides each row of x [... C] by the root of the mean of its squares, and multiplies it by weight [C], unless that
// is nil. Both are of one dtype, a float dtype; the result has x's shape. eps, 0 or more, is added to the mean of the
// squares; torch's default is the dtype's machine epsilon, which Llama's models do not use (1e-5, 1e-6): here it is
// always given. Saved are x, weight, and one number a row.
func RMSNorm(s *autograd.Scope, x, weight *autograd.Value, eps float64) *autograd.Value {
	if weight == nil {
		return autograd.Apply(s, rmsNormOp{eps: eps}, x)
	}
	return autograd.Apply(s, rmsNormOp{eps: eps, weight: true}, x, weight)
}

type rmsNormOp struct {
	eps    float64
	weight bool
}

var (
	rmsNormRule = &autograd.Rule{Name: "rms_norm", Over: overX, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1), autograd.Out(1)},
		{autograd.In(0), autograd.Out(1)},
	}}
	rmsNormPlainRule = &autograd.Rule{Name: "rms_norm", Over: overX, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.Out(1)},
	}}
)

func (o rmsNormOp) Rule() *autograd.Rule {
	if o.weight {
		return rmsNormRule
	}
	return rmsNormPlainRule
}

func (o rmsNormOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if err := o.check(in); err != nil {
		return err
	}
	rows, cols := matrix(in[0], 1)
	sh.Like(in[0])
	sh.Add(in[0].DType, rows)
	sh.Hidden = 1
	sh.Chunks = kernel.RowChunks(rows, cols)
	sh.BwdChunks = sh.Chunks
	if o.weight {
		p := kernel.NewRMSNormWeight(rows, cols)
		sh.BwdShared, sh.BwdChunks = p.SharedBytes(), max(sh.BwdChunks, p.Chunks())
	}
	return nil
}

func (o rmsNormOp) check(in []tensor.Spec) error {
	x := in[0]
	switch {
	case x.Rank() < 1:
		return errors.New("want x [... C]")
	case !(o.eps >= 0):
		return fmt.Errorf("want eps of 0 or more, got %v", o.eps)
	case o.weight && (in[1].Rank() != 1 || in[1].Dim(0) != x.Dim(-1)):
		return fmt.Errorf("want weight [%d], as the last dimension of x", x.Dim(-1))
	}
	return wantFloats(in...)
}

// Row is what is normalized together.
func (rmsNormOp) Row([]tensor.Spec) (dims int, ok bool) { return 1, true }

func (o rmsNormOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), rmsNormForward[float32], rmsNormForward[float64])(o, f)
}

func rmsNormForward[T kernel.Float](o rmsNormOp, f *autograd.Fwd) {
	rows, cols := matrix(f.In[0].Spec(), 1)
	x, y, rstd, w := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0]), optional[T](&f.Out[1]), input[T](f, 1)
	if kernel.RowChunks(rows, cols) == 1 {
		kernel.RMSNorm(y, rstd, x, w, cols, o.eps)
		return
	}
	f.Par(kernel.RowChunks(rows, cols), func(_, c int) {
		lo, hi := kernel.RowRange(rows, cols, c)
		kernel.RMSNorm(y[lo*cols:hi*cols], kernel.Cut(rstd, lo, hi), x[lo*cols:hi*cols], w, cols, o.eps)
	})
}

func (o rmsNormOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, rmsNormBackward[float32], rmsNormBackward[float64])(o, b)
}

func rmsNormBackward[T kernel.Float](o rmsNormOp, b *autograd.Bwd) {
	rows, cols := matrix(b.InSpec(0), 1)
	g, x, rstd := tensor.Data[T](b.Grad(0)), tensor.Data[T](b.In(0)), tensor.Data[T](b.Out(1))
	input := func() {
		if dst, add := b.Into(0); dst != nil {
			var w []T
			if o.weight {
				w = tensor.Data[T](b.In(1))
			}
			dx := tensor.Data[T](dst)
			b.Par(kernel.RowChunks(rows, cols), func(_, c int) {
				lo, hi := kernel.RowRange(rows, cols, c)
				kernel.RMSNormBackward(dx[lo*cols:hi*cols], add, g[lo*cols:hi*cols], x[lo*cols:hi*cols], w, rstd[lo:hi], cols)
			})
		}
	}
	first := meets(b, 1)
	if first {
		input()
	}
	if o.weight {
		if dw, add := b.Into(1); dw != nil {
			p, parts := kernel.NewRMSNormWeight(rows, cols), kernel.View[float64](b.Shared())
			b.Par(p.Chunks(), func(_, c int) { kernel.RMSNormWeightPart(p, g, x, rstd, parts, c) })
			kernel.RMSNormWeightFinish(p, tensor.Data[T](dw), add, parts)
		}
	}
	if !first {
		input()
	}
}
