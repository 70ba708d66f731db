package ops

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// layer_norm over the last dims dimensions, C elements together (Ba, Kiros and Hinton, 2016), with the biased variance:
//
//	xhat = (x - mean) rstd     rstd = 1/sqrt(var + eps)     y = xhat weight + bias
//
//	dx      = rstd (gw - mean(gw) - xhat mean(gw xhat))     gw = g weight
//	dweight = the column sums of g xhat                     dbias = the column sums of g
//
// Saved: x, weight (for dx), and in a hidden output mean and rstd of each row, from which xhat is computed again. One
// node: as a chain of simple ops it would keep x four times.

// LayerNorm normalizes x over its last dims dimensions: torch's normalized_shape is their sizes. weight and bias have that
// shape, or are nil: both, or bias alone. All are of one dtype, a float dtype; the result has x's shape. eps, 0 or
// more, is added to the variance (torch's default is 1e-5). Saved are x, weight, and two numbers a row.
func LayerNorm(s *autograd.Scope, x *autograd.Value, dims int, weight, bias *autograd.Value, eps float64) *autograd.Value {
	o := layerNormOp{dims: dims, eps: eps, weight: weight != nil, bias: bias != nil}
	switch {
	case o.weight && o.bias:
		return autograd.Apply(s, o, x, weight, bias)
	case o.weight:
		return autograd.Apply(s, o, x, weight)
	case o.bias:
		return autograd.Apply(s, o, x, bias) // which Infer refuses
	}
	return autograd.Apply(s, o, x)
}

type layerNormOp struct {
	dims         int
	eps          float64
	weight, bias bool
}

// overX: each row of the gradient is computed from the same rows of x and of the gradient that arrives, after those of weight
// and bias. x comes first: where it was fetched from a store it lies below what the layers behind have left room for.
var overX = [][]autograd.Ref{{autograd.In(0), autograd.OutGrad}}

var (
	layerNormRule = &autograd.Rule{Name: "layer_norm", Over: overX, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1), autograd.Out(1)},
		{autograd.In(0), autograd.Out(1)},
	}}
	layerNormPlainRule = &autograd.Rule{Name: "layer_norm", Over: overX, Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.Out(1)},
	}}
)

func (o layerNormOp) Rule() *autograd.Rule {
	if o.weight {
		return layerNormRule
	}
	return layerNormPlainRule
}

func (o layerNormOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if err := o.check(in); err != nil {
		return err
	}
	rows, cols := matrix(in[0], o.dims)
	sh.Like(in[0])
	sh.Add(in[0].DType, rows, 2)
	sh.Hidden = 1
	sh.Chunks = kernel.RowChunks(rows, cols)
	sh.BwdChunks = sh.Chunks
	if o.weight {
		p := kernel.NewLayerNormAffine(rows, cols)
		sh.BwdShared, sh.BwdChunks = p.SharedBytes(), max(sh.BwdChunks, p.Chunks())
	}
	if o.bias {
		columnSumsWork(&sh.BwdShared, &sh.BwdChunks, rows, cols)
	}
	return nil
}

func (o layerNormOp) check(in []tensor.Spec) error {
	x := in[0]
	switch {
	case o.dims < 1 || o.dims > x.Rank():
		return fmt.Errorf("want to normalize over 1 to %d dimensions of x, got %d", x.Rank(), o.dims)
	case !(o.eps >= 0):
		return fmt.Errorf("want eps of 0 or more, got %v", o.eps)
	case o.bias && !o.weight:
		return errors.New("a bias without a weight: want both, neither, or the weight alone")
	}
	want := x.Shape[x.Rank()-o.dims:]
	for i, s := range in[1:] {
		if !slices.Equal(s.Shape, want) {
			return fmt.Errorf("want %s of shape %v, the last %d dimensions of x", [...]string{"weight", "bias"}[i], want, o.dims)
		}
	}
	return wantFloats(in...)
}

// Row is what is normalized together.
func (o layerNormOp) Row([]tensor.Spec) (dims int, ok bool) { return o.dims, true }

func (o layerNormOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), layerNormForward[float32], layerNormForward[float64])(o, f)
}

func layerNormForward[T kernel.Float](o layerNormOp, f *autograd.Fwd) {
	rows, cols := matrix(f.In[0].Spec(), o.dims)
	x, y, stats := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0]), optional[T](&f.Out[1])
	w, b := input[T](f, 1), input[T](f, 2)
	if kernel.RowChunks(rows, cols) == 1 {
		kernel.LayerNorm(y, stats, x, w, b, cols, o.eps)
		return
	}
	f.Par(kernel.RowChunks(rows, cols), func(_, c int) {
		lo, hi := kernel.RowRange(rows, cols, c)
		kernel.LayerNorm(y[lo*cols:hi*cols], kernel.Cut(stats, 2*lo, 2*hi), x[lo*cols:hi*cols], w, b, cols, o.eps)
	})
}

func (o layerNormOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, layerNormBackward[float32], layerNormBackward[float64])(o, b)
}

func layerNormBackward[T kernel.Float](o layerNormOp, b *autograd.Bwd) {
	first := meets(b, 1, 2)
	if first {
		layerNormInput[T](o, b)
	}
	if o.weight {
		layerNormParams[T](o, b)
	}
	if !first {
		layerNormInput[T](o, b)
	}
}

// layerNormParams is the gradients of weight and bias.
func layerNormParams[T kernel.Float](o layerNormOp, b *autograd.Bwd) {
	dw, addW := b.Into(1)
	var db *tensor.Tensor
	var addB bool
	if o.bias {
		db, addB = b.Into(2)
	}
	switch {
	case dw != nil:
		layerNormAffine(o, b, optional[T](dw), addW, optional[T](db), addB)
	case db != nil: // its gradient alone reads nothing
		columnSums(&b.Run, b.Shared(), db, addB, tensor.Data[T](b.Grad(0)), product(b.InSpec(2).Shape))
	}
}

// layerNormInput is the gradient of x.
func layerNormInput[T kernel.Float](o layerNormOp, b *autograd.Bwd) {
	dst, add := b.Into(0)
	if dst == nil {
		return
	}
	rows, cols := matrix(b.InSpec(0), o.dims)
	dx, g := tensor.Data[T](dst), tensor.Data[T](b.Grad(0))
	x, w, stats := tensor.Data[T](b.In(0)), layerNormWeight[T](o, b), tensor.Data[T](b.Out(1))
	if kernel.RowChunks(rows, cols) == 1 {
		kernel.LayerNormBackward(dx, add, g, x, w, stats, cols)
		return
	}
	b.Par(kernel.RowChunks(rows, cols), func(_, c int) {
		lo, hi := kernel.RowRange(rows, cols, c)
		kernel.LayerNormBackward(dx[lo*cols:hi*cols], add, g[lo*cols:hi*cols], x[lo*cols:hi*cols], w, stats[2*lo:2*hi], cols)
	})
}

func layerNormWeight[T kernel.Float](o layerNormOp, b *autograd.Bwd) []T {
	if !o.weight {
		return nil
	}
	return tensor.Data[T](b.In(1))
}

// layerNormAffine is the gradients of weight and bias, the latter unless db is nil.
func layerNormAffine[T kernel.Float](o layerNormOp, b *autograd.Bwd, dw []T, addW bool, db []T, addB bool) {
	p := kernel.NewLayerNormAffine(matrix(b.InSpec(0), o.dims))
	g, x, stats := tensor.Data[T](b.Grad(0)), tensor.Data[T](b.In(0)), tensor.Data[T](b.Out(1))
	parts := kernel.View[float64](b.Shared())
	b.Par(p.Chunks(), func(_, c int) { kernel.LayerNormAffinePart(p, g, x, stats, parts, c) })
	kernel.LayerNormAffineFinish(p, dw, addW, db, addB, parts)
}
