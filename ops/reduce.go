package ops

import (
	"errors"
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// Reductions over any dimensions, without a copy of x (the formulas stand in internal/kernel/reduce.go and
// reduce_grad.go). n elements are taken together.
//
//	              saved
//	sum, mean     nothing
//	amax, amin    one bit an element (is it as large?) and one number a result (how many are); torch saves x
//	var, std      x and the mean, one number a result; std its result as well
//	logsumexp     x and the result
//	norm          x and, for p = 2, the result; for p = inf the result and how many are as large
//	argmax, argmin have no gradient
//
// What is kept besides x is as large as the result, which is small.

// Sum gives the sum over the given dimensions, or over all of them. x is of a float dtype, and so is the result; or Int64,
// Int32 or Bool, which give Int64 (and wrap around where that ends). The sum of no elements is 0. Nothing is saved.
func Sum(s *autograd.Scope, x *autograd.Value, over ...Dims) *autograd.Value {
	return autograd.Apply(s, reduceOp{kind: kernel.ReduceSum, dims: oneOf(over)}, x)
}

// Mean gives the mean over the given dimensions, or over all of them, of x, a float dtype. The mean of no elements is
// NaN. Nothing is saved.
func Mean(s *autograd.Scope, x *autograd.Value, over ...Dims) *autograd.Value {
	return autograd.Apply(s, reduceOp{kind: kernel.ReduceMean, dims: oneOf(over)}, x)
}

// AMax gives the largest element over the given dimensions, or over all of them, of x, a float dtype; NaN if there is
// one. Elements that are equally large share the gradient evenly, as in torch. Dimensions of size 0 are an error. Saved
// are one bit an element and one number a result.
func AMax(s *autograd.Scope, x *autograd.Value, over ...Dims) *autograd.Value {
	return autograd.Apply(s, reduceOp{kind: kernel.ReduceMax, dims: oneOf(over)}, x)
}

// AMin is [AMax] for the smallest element.
func AMin(s *autograd.Scope, x *autograd.Value, over ...Dims) *autograd.Value {
	return autograd.Apply(s, reduceOp{kind: kernel.ReduceMin, dims: oneOf(over)}, x)
}

// ArgMax gives the place, Int64, of the largest element along one dimension, or in row-major order over all of them, of x,
// a float dtype: the first of several, the first NaN if there is one. Dimensions of size 0 are an error. It has no
// gradient.
func ArgMax(s *autograd.Scope, x *autograd.Value, over ...Dims) *autograd.Value {
	return autograd.Apply(s, reduceOp{kind: kernel.ReduceArgMax, dims: oneOf(over)}, x)
}

// ArgMin is [ArgMax] for the smallest element.
func ArgMin(s *autograd.Scope, x *autograd.Value, over ...Dims) *autograd.Value {
	return autograd.Apply(s, reduceOp{kind: kernel.ReduceArgMin, dims: oneOf(over)}, x)
}

// Var gives the variance over the given dimensions, or over all of them, of x, a float dtype: the sum of the squared
// distances from the mean, divided by n - correction. torch's default for correction, 0 or more, is 1; layers that
// normalize use 0. Where nothing is left to divide by, the result is NaN (0/0) or Inf. Saved are x and one number a result.
func Var(s *autograd.Scope, x *autograd.Value, correction int, over ...Dims) *autograd.Value {
	return autograd.Apply(s, reduceOp{kind: kernel.ReduceVar, dims: oneOf(over), correction: correction}, x)
}

// Std gives the square root of [Var]. Where it is 0 its gradient is 0, as in torch. Saved are x and two numbers a result.
func Std(s *autograd.Scope, x *autograd.Value, correction int, over ...Dims) *autograd.Value {
	return autograd.Apply(s, reduceOp{kind: kernel.ReduceStd, dims: oneOf(over), correction: correction}, x)
}

// Norm gives the p-norm over the given dimensions, or over all of them, of x, a float dtype: p is 2 (the root of the sum
// of squares), 1 (the sum of absolute values) or +Inf (the largest absolute value; elements that have it share the gradient
// evenly). Where the norm is 0 its gradient is 0, as in torch. The gradient of an element that is NaN is NaN; torch's is 0
// for p = 1. Saved are x and, unless p is 1, one number a result, two for +Inf.
func Norm(s *autograd.Scope, x *autograd.Value, p float64, over ...Dims) *autograd.Value {
	return autograd.Apply(s, reduceOp{kind: normOf(p), p: p, dims: oneOf(over)}, x)
}

// LogSumExp gives log sum exp(x) over the given dimensions, or over all of them, of x, a float dtype, without overflow.
// Of no elements, or of -Inf alone, it is -Inf; in the latter case the gradient is NaN, as in torch. Saved are x and the
// result.
func LogSumExp(s *autograd.Scope, x *autograd.Value, over ...Dims) *autograd.Value {
	return autograd.Apply(s, reduceOp{kind: kernel.ReduceLogSumExp, dims: oneOf(over)}, x)
}

type reduceOp struct {
	kind       kernel.Reduction
	dims       Dims
	correction int     // of var and std
	p          float64 // of norm
}

var (
	in0  = autograd.In(0)
	out0 = autograd.Out(0)
	out1 = autograd.Out(1)

	sumRule       = &autograd.Rule{Name: "sum", Cast: autograd.CastFull}
	meanRule      = &autograd.Rule{Name: "mean"}
	maxRule       = &autograd.Rule{Name: "amax", Reads: [][]autograd.Ref{{out1, autograd.Out(2)}}}
	minRule       = &autograd.Rule{Name: "amin", Reads: [][]autograd.Ref{{out1, autograd.Out(2)}}}
	argMaxRule    = &autograd.Rule{Name: "argmax"}
	argMinRule    = &autograd.Rule{Name: "argmin"}
	varRule       = &autograd.Rule{Name: "var", Cast: autograd.CastFull, Reads: [][]autograd.Ref{{in0, out1}}}
	stdRule       = &autograd.Rule{Name: "std", Cast: autograd.CastFull, Reads: [][]autograd.Ref{{in0, out0, out1}}}
	norm1Rule     = &autograd.Rule{Name: "norm", Cast: autograd.CastFull, Reads: [][]autograd.Ref{{in0}}}
	norm2Rule     = &autograd.Rule{Name: "norm", Cast: autograd.CastFull, Reads: [][]autograd.Ref{{in0, out0}}}
	normInfRule   = &autograd.Rule{Name: "norm", Cast: autograd.CastFull, Reads: [][]autograd.Ref{{in0, out0, out1}}}
	logSumExpRule = &autograd.Rule{Name: "logsumexp", Cast: autograd.CastFull, Reads: [][]autograd.Ref{{in0, out0}}}
)

// reduceRules has a rule for each reduction.
var reduceRules = [...]*autograd.Rule{
	kernel.ReduceSum: sumRule, kernel.ReduceMean: meanRule, kernel.ReduceMax: maxRule, kernel.ReduceMin: minRule,
	kernel.ReduceArgMax: argMaxRule, kernel.ReduceArgMin: argMinRule, kernel.ReduceVar: varRule, kernel.ReduceStd: stdRule,
	kernel.ReduceNorm1: norm1Rule, kernel.ReduceNorm2: norm2Rule, kernel.ReduceNormInf: normInfRule,
	kernel.ReduceLogSumExp: logSumExpRule,
}

func (o reduceOp) Rule() *autograd.Rule { return reduceRules[o.kind] }

// normOf is the reduction of a norm. Infer refuses other p.
func normOf(p float64) kernel.Reduction {
	switch {
	case p == 1:
		return kernel.ReduceNorm1
	case p > 2:
		return kernel.ReduceNormInf
	}
	return kernel.ReduceNorm2
}

func (o reduceOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x := in[0]
	dt, err := o.result(x)
	if err != nil {
		return err
	}
	r, err := o.dims.of(x.Shape)
	if err != nil {
		return err
	}
	if err := o.check(&r); err != nil {
		return err
	}
	o.dims.add(sh, dt, x.Shape, &r)
	p := kernel.NewReduce(o.kind, x.Shape, r.kept(), o.correction)
	sh.Shared, sh.Chunks, sh.BwdChunks = p.SharedBytes(), p.Chunks(), kernel.Chunks(x.Elems())
	switch o.kind {
	case kernel.ReduceMax, kernel.ReduceMin:
		sh.Add(tensor.Uint8, kernel.MaskBytes(x.Elems()))
		sh.Add(dt, r.elems)
		sh.Hidden, sh.Chunks = 2, max(sh.Chunks, sh.BwdChunks)
	case kernel.ReduceNormInf, kernel.ReduceVar, kernel.ReduceStd:
		sh.Add(dt, r.elems)
		sh.Hidden = 1
	}
	return nil
}

// result is the dtype of the result.
func (o reduceOp) result(x tensor.Spec) (tensor.DType, error) {
	switch o.kind {
	case kernel.ReduceArgMax, kernel.ReduceArgMin:
		return tensor.Int64, wantFloats(x)
	case kernel.ReduceSum:
		switch x.DType {
		case tensor.Int64, tensor.Int32, tensor.Bool:
			return tensor.Int64, nil
		case tensor.Float32, tensor.Float64:
			return x.DType, nil
		}
		return 0, fmt.Errorf("want a float dtype, int64, int32 or bool, got %s"+dtypeTable, x.DType)
	}
	return x.DType, wantFloats(x)
}

// check refuses what the reduction cannot do.
func (o reduceOp) check(r *reduced) error {
	switch o.kind {
	case kernel.ReduceArgMax, kernel.ReduceArgMin:
		if len(o.dims.list) > 1 {
			return fmt.Errorf("want one dimension, or all, got %v", o.dims.list)
		}
		fallthrough
	case kernel.ReduceMax, kernel.ReduceMin:
		if r.rows == 0 {
			return errors.New("a dimension to reduce has size 0: want an element to choose")
		}
	case kernel.ReduceVar, kernel.ReduceStd:
		if o.correction < 0 {
			return fmt.Errorf("want a correction of 0 or more, got %d", o.correction)
		}
	case kernel.ReduceNorm1, kernel.ReduceNorm2, kernel.ReduceNormInf:
		if p := o.p; p != 1 && p != 2 && !math.IsInf(p, 1) {
			return fmt.Errorf("want p of 1, 2 or +Inf, got %v", p)
		}
	}
	return nil
}

func (o reduceOp) Forward(f *autograd.Fwd) {
	switch f.In[0].DType() {
	case tensor.Int64:
		sumInts(o, f, tensor.Data[int64](&f.In[0]))
	case tensor.Int32:
		sumInts(o, f, tensor.Data[int32](&f.In[0]))
	case tensor.Bool:
		x := kernel.Contiguous(tensor.Data[bool](&f.In[0]), f.In[0].Shape())
		sumInts(o, f, kernel.Truth(x).Data)
	case tensor.Float32:
		reduceForward[float32](o, f)
	default:
		reduceForward[float64](o, f)
	}
}

func sumInts[T int64 | int32 | uint8](o reduceOp, f *autograd.Fwd, x []T) {
	r, _ := o.dims.of(f.In[0].Shape()) // Infer has checked it
	p := kernel.NewSumTo(f.In[0].Shape(), r.kept())
	y, parts := tensor.Data[int64](&f.Out[0]), kernel.View[int64](f.Shared())
	f.Par(p.Chunks(), func(_, c int) { kernel.SumInts(&p, y, x, parts, c) })
	kernel.SumIntsFinish(&p, y, parts)
}

func reduceForward[T kernel.Float](o reduceOp, f *autograd.Fwd) {
	x := tensor.Data[T](&f.In[0])
	r, _ := o.dims.of(f.In[0].Shape())
	p := kernel.NewReduce(o.kind, f.In[0].Shape(), r.kept(), o.correction)
	switch o.kind {
	case kernel.ReduceArgMax, kernel.ReduceArgMin:
		runReduce(f, p, tensor.Data[int64](&f.Out[0]), nil, x)
	case kernel.ReduceVar, kernel.ReduceStd, kernel.ReduceNormInf:
		runReduce(f, p, tensor.Data[T](&f.Out[0]), optional[T](&f.Out[1]), x)
	case kernel.ReduceMax, kernel.ReduceMin:
		y := tensor.Data[T](&f.Out[0])
		runReduce(f, p, y, optional[T](&f.Out[2]), x)
		if bits := optional[uint8](&f.Out[1]); bits != nil {
			tieBits(f, r, bits, x, y)
		}
	default:
		runReduce(f, p, tensor.Data[T](&f.Out[0]), nil, x)
	}
}

// runReduce fills y and, unless it is nil, stat.
func runReduce[T kernel.Float, D kernel.Float | int64](f *autograd.Fwd, p kernel.Reduce, y []D, stat, x []T) {
	if p.Chunks() == 1 {
		kernel.ReducePart(&p, y, stat, x, nil, 0)
		return
	}
	runReducePar(f, p, y, stat, x)
}

// runReducePar is apart from runReduce so that p moves to the heap only here.
func runReducePar[T kernel.Float, D kernel.Float | int64](f *autograd.Fwd, p kernel.Reduce, y []D, stat, x []T) {
	parts := kernel.View[float64](f.Shared())
	f.Par(p.Chunks(), func(_, c int) { kernel.ReducePart(&p, y, stat, x, parts, c) })
	kernel.ReduceFinish(&p, y, stat, parts)
}

// tieBits fills the bits of the elements of x that are as large as y.
func tieBits[T kernel.Float](f *autograd.Fwd, r reduced, bits []uint8, x, y []T) {
	shape := f.In[0].Shape()
	f.Par(kernel.Chunks(len(x)), func(_, c int) {
		lo, hi := kernel.Range(len(x), c)
		kernel.TieBits(bits, x, shape, y, r.strides[:r.rank], lo, hi)
	})
}

func (o reduceOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, reduceBackward[float32], reduceBackward[float64])(o, b)
}

func reduceBackward[T kernel.Float](o reduceOp, b *autograd.Bwd) {
	n := b.InSpec(0).Elems()
	if n > kernel.ChunkSize {
		reduceBackwardPar[T](o, b, n)
		return
	}
	var r reduced
	g := reduceGrad[T](o, b, &r)
	g.Range(0, n)
}

func reduceBackwardPar[T kernel.Float](o reduceOp, b *autograd.Bwd, n int) {
	var r reduced
	g := reduceGrad[T](o, b, &r)
	b.Par(kernel.Chunks(n), func(_, c int) { g.Range(kernel.Range(n, c)) })
}

// reduceGrad gives the operands of the gradient; r is room for their strides.
func reduceGrad[T kernel.Float](o reduceOp, b *autograd.Bwd, r *reduced) kernel.ReduceGrad[T] {
	dst, add := b.Into(0)
	shape := b.InSpec(0).Shape
	*r, _ = o.dims.of(shape)
	g := kernel.ReduceGrad[T]{
		Op: o.kind, DX: tensor.Data[T](dst), Add: add, Shape: shape, Strides: r.strides[:r.rank],
		G: tensor.Data[T](b.Grad(0)), K: o.factor(r),
	}
	switch o.kind {
	case kernel.ReduceMax, kernel.ReduceMin:
		g.Bits, g.Stat = tensor.Data[uint8](b.Out(1)), tensor.Data[T](b.Out(2))
	case kernel.ReduceVar:
		g.X, g.Stat = tensor.Data[T](b.In(0)), tensor.Data[T](b.Out(1))
	case kernel.ReduceStd, kernel.ReduceNormInf:
		g.X, g.Out, g.Stat = tensor.Data[T](b.In(0)), tensor.Data[T](b.Out(0)), tensor.Data[T](b.Out(1))
	case kernel.ReduceNorm2, kernel.ReduceLogSumExp:
		g.X, g.Out = tensor.Data[T](b.In(0)), tensor.Data[T](b.Out(0))
	case kernel.ReduceNorm1:
		g.X = tensor.Data[T](b.In(0))
	}
	return g
}

// factor is what the gradient is multiplied by.
func (o reduceOp) factor(r *reduced) float64 {
	n, left := float64(r.rows), float64(max(0, r.rows-o.correction))
	switch o.kind {
	case kernel.ReduceMean:
		return 1 / n
	case kernel.ReduceVar:
		return 2 / left
	case kernel.ReduceStd:
		return 1 / left
	}
	return 1
}
